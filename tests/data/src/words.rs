//! A vocabulary of 40,000 words: common ones first, then made-up names that sound like names.
//!
//! A word is a function of its rank alone, so the vocabulary needs no table and no seed.

use crate::zipf;

/// How many different words there are.
pub const COUNT: usize = 40_000;

const COMMON: &str = "the of a in and to for love on with man night day life at my it's you from is \
world girl story last time no dead big one house home good lost boy black death new little dark \
children best secret from great king men war street women blue red part christmas two city way \
back out old summer first heart road family game show living white american high true down \
star dance people music who never like all friends wild dream free under without water \
power what river land sun young your sea ghost angel after dog country tale art baby wedding \
murder beyond green fire return hunter island light mother school party how happy party queen \
doctor golden stranger moon eyes shadow blood winter before beautiful silent second hope \
father future forest journey made brother birthday paris london between garden perfect \
morning train south soul london hell sister three princess mystery book run trouble master \
once edge truth magic kiss west north bad child sound born final born legend escape truth \
fear fall rain hotel rose song crime point against money broken hidden mountain cold line \
behind wonderful devil daughter bride live play lady battle machine letter team \
special blind double paradise window bridge crazy sweet circle wolf room face dangerous match \
interview trial chance camp bird strange nothing danger kids finale pilot reunion top week";

const SYLLABLES: [&str; 40] = [
    "ka", "ri", "mo", "ne", "san", "to", "bel", "dra", "vi", "lo", "mar", "es", "ta", "ul", "gre",
    "no", "shi", "pe", "ran", "do", "ci", "va", "hu", "ley", "mi", "ko", "ber", "an", "gu", "zo",
    "le", "tri", "fa", "jo", "sen", "wil", "dor", "che", "ya", "rus",
];

const ENDINGS: [&str; 12] = [
    "", "", "", "n", "s", "a", "ton", "er", "ez", "ov", "mann", "é",
];

/// Gives words by rank.
pub struct Words {
    common: Vec<&'static str>,
}

impl Words {
    /// The one vocabulary.
    pub fn new() -> Self {
        Self {
            common: COMMON.split_whitespace().collect(),
        }
    }

    /// A word, common ones much more often than rare ones.
    pub fn any(&self, rng: &mut fastrand::Rng) -> String {
        self.at(zipf(rng, COUNT))
    }

    /// A made-up name.
    pub fn name(&self, rng: &mut fastrand::Rng) -> String {
        let names = COUNT - self.common.len();
        self.at(self.common.len() + zipf(rng, names))
    }

    fn at(&self, rank: usize) -> String {
        match self.common.get(rank) {
            Some(word) => capital(word),
            None => capital(&made_up(rank)),
        }
    }
}

/// Two to four syllables and an ending, spread over the ranks by a fixed mixing step.
fn made_up(rank: usize) -> String {
    let mut bits = (rank as u64)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(23);
    let mut take = |below: usize| {
        let value = bits % below as u64;
        bits /= below as u64;
        value as usize
    };
    let mut word = String::new();
    for _ in 0..2 + take(3) {
        word.push_str(SYLLABLES[take(SYLLABLES.len())]);
    }
    word.push_str(ENDINGS[take(ENDINGS.len())]);
    word
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_words_differ() {
        let words = Words::new();
        let all: std::collections::HashSet<String> =
            (0..COUNT).map(|rank| words.at(rank)).collect();
        assert!(all.len() > COUNT * 8 / 10, "{} different words", all.len());
    }
}

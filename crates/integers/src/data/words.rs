//! A thousand words for a column of text: stems and endings, as a dictionary has them.

const STEMS: &str = "act aid ask bark bath blend bond book brand call camp care cart chart claim clean clear \
cloud coat count craft crowd dark deal dream drift edge end fair farm fear field fight film firm flow fold form \
frost fruit gain gift glass grain grant green guard hand harm hatch head heart help hook hope hunt joy just kind \
land law leaf light limit link list lord love mark mean melt mind mist need night order pain paint part peace plan \
plant point pray proud pure rain reason rest rich rock sail salt sharp sleep slow smart squalid storm taste";

const ENDINGS: [&str; 10] = [
    "", "able", "ed", "er", "ful", "ing", "ish", "less", "ness", "s",
];

/// All of them, each once.
pub fn words() -> Vec<String> {
    let with_endings = |stem: &str| ENDINGS.map(|ending| format!("{stem}{ending}"));
    STEMS.split_whitespace().flat_map(with_endings).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_a_thousand_different_ones() {
        let words = words();
        assert_eq!(words.len(), 1000);
        assert!(words.iter().any(|word| word == "squalid"));
        let different: std::collections::HashSet<_> = words.iter().collect();
        assert_eq!(different.len(), words.len());
    }
}

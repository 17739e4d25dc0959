//! Text that does nothing to a terminal or a log: names of files, tables and columns, and words of servers, can hold
//! anything.

/// Whether a character makes text look like other text: controls, changes of direction, and what cannot be seen.
pub fn deceives(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// The text with nothing in it that [`deceives`]. Its lines stay lines.
pub fn harmless(text: &str) -> String {
    let shown = |c: char| match c != '\n' && deceives(c) {
        true => char::REPLACEMENT_CHARACTER,
        false => c,
    };
    text.chars().map(shown).collect()
}

/// The same in one line.
pub fn harmless_line(text: &str) -> String {
    harmless(text).replace('\n', "\u{fffd}")
}

/// JSON with nothing in it that [`deceives`]: programs read the same values.
pub fn harmless_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        // Outside of strings there are spaces and ends of lines only.
        if c != '\n' && deceives(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVIL: &str = "a\x1b[2J\x07\u{9b}31m\x7f\u{202e}b\u{e0041}\tü\nnext";

    #[test]
    fn nothing_is_left_that_does_something() {
        let shown = harmless(EVIL);
        assert!(!shown.contains(|c| c != '\n' && deceives(c)), "{shown:?}");
        assert_eq!(harmless("ü ❄ \u{65e5}\n"), "ü ❄ \u{65e5}\n");
        assert_eq!(harmless_line(EVIL).lines().count(), 1);
    }

    #[test]
    fn json_keeps_its_values() {
        let quoted = "{\n  \"k\": \"\u{9b}\x7f\u{202e}\u{e0041}ü\"\n}";
        let shown = harmless_json(quoted);
        assert!(!shown.contains(|c| c != '\n' && deceives(c)), "{shown:?}");
        assert_eq!(
            shown,
            "{\n  \"k\": \"\\u009b\\u007f\\u202e\\udb40\\udc41ü\"\n}"
        );
    }
}

//! Lines of a Markdown page: none of prose is longer than 120 columns. Tables and code stay as they are.

/// Most columns of a line.
const COLUMNS: usize = 120;

/// The page with its paragraphs and list items wrapped, each that has a longer line.
pub fn wrapped(page: &str) -> String {
    let mut out = String::new();
    let mut paragraph: Vec<&str> = Vec::new();
    let mut is_code = false;
    for line in page.lines() {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        let is_text =
            !is_code && !is_fence && !line.is_empty() && !line.starts_with(['|', '#', '<', '!']);
        if !is_text || is_item(line) {
            put(&mut out, &paragraph);
            paragraph.clear();
        }
        if is_text {
            paragraph.push(line);
        } else {
            out += line;
            out.push('\n');
        }
    }
    put(&mut out, &paragraph);
    out
}

/// Whether a list item begins with this line.
fn is_item(line: &str) -> bool {
    mark(line) > 0
}

/// The bytes of the mark of a list item, `- ` or `12. `.
fn mark(line: &str) -> usize {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let rest = line.get(digits..).unwrap_or_default();
    match digits {
        0 if rest.starts_with("- ") => 2,
        1.. if rest.starts_with(". ") => digits + 2,
        _ => 0,
    }
}

fn put(out: &mut String, paragraph: &[&str]) {
    if paragraph.iter().all(|line| line.chars().count() <= COLUMNS) {
        for line in paragraph {
            out.push_str(line);
            out.push('\n');
        }
        return;
    }
    let indent = paragraph.first().map_or(0, |line| mark(line));
    let mut column = 0;
    for word in paragraph.iter().flat_map(|line| line.split_whitespace()) {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > COLUMNS {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            column = indent;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += width;
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_wrapped_and_nothing_else() {
        let word = "word ".repeat(30);
        let table = format!("| {word} |\n");
        let code = format!("```\n{word}\n```\n");
        let page =
            format!("# Head\n\nshort\nlines\n\n{word}\nand more\n\n10. {word}\n{table}{code}");
        let line = "word ".repeat(24).trim_end().to_string();
        let expected = format!(
            "# Head\n\nshort\nlines\n\n{line}\n{} and more\n\n10. {}\n    {}\n{table}{code}",
            "word ".repeat(6).trim_end(),
            "word ".repeat(23).trim_end(),
            "word ".repeat(7).trim_end(),
        );
        assert_eq!(wrapped(&page), expected);
        assert_eq!(wrapped(&expected), expected);
    }
}

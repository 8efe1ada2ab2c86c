//! Foreign text within Markdown.

/// A text as a code span: it shows as it is, whatever it holds.
pub(super) fn code(text: &str) -> String {
    let fence = "`".repeat(longest_run(text) + 1);
    let spaced = text.starts_with(' ') && text.ends_with(' ');
    let pad = match spaced || text.starts_with('`') || text.ends_with('`') {
        true => " ",
        false => "",
    };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// The code span that a text begins with, and what follows it.
pub(super) fn read_code(text: &str) -> Option<(&str, &str)> {
    let rest = text.trim_start_matches('`');
    let fence = text
        .get(..text.len() - rest.len())
        .filter(|fence| !fence.is_empty())?;
    let mut from = 0;
    loop {
        let at = from + rest.get(from..)?.find(fence)?;
        let after = rest.get(at..)?.trim_start_matches('`');
        let end = rest.len() - after.len();
        if end - at == fence.len() {
            return Some((unpad(rest.get(..at)?), after));
        }
        from = end;
    }
}

fn unpad(text: &str) -> &str {
    text.strip_prefix(' ')
        .and_then(|text| text.strip_suffix(' '))
        .unwrap_or(text)
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// A text as plain words: no link, picture, tag, cell or code comes of it.
pub(super) fn plain(text: &str) -> String {
    let mut plain = String::new();
    for c in text.chars() {
        if "\\`[]<>|".contains(c) {
            plain.push('\\');
        }
        plain.push(c);
    }
    plain
}

/// What stands in a table: a bar ends a cell also within a code span.
pub(super) fn code_cell(text: &str) -> String {
    code(text).replace('|', "\\|")
}

/// A text in one line, at most `max` characters of it. Control characters are shown escaped:
/// none can break the line or act on a terminal.
pub(super) fn one_line(text: &str, max: usize) -> String {
    let text = text.trim();
    let mut line = String::new();
    for (at, c) in text.chars().enumerate() {
        match c {
            _ if at == max => {
                line.push('…');
                break;
            }
            '\t' => line.push(' '),
            c if c.is_control() || is_hidden(c) => line.extend(c.escape_unicode()),
            c => line.push(c),
        }
    }
    line
}

/// Line separators, and marks that turn the direction of writing.
fn is_hidden(c: char) -> bool {
    matches!(c, '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_code_span_is_read_back(text in "[a` |]{1,12}", after in "(:[a`]{0,5})?") {
            let span = code(&text) + &after;
            prop_assert_eq!(read_code(&span), Some((text.as_str(), after.as_str())));
        }
    }

    #[test]
    fn text_stays_in_its_line() {
        assert_eq!(
            one_line("  a\r\n# b\u{1b}[0m\u{202e}c ", 99),
            r"a\u{d}\u{a}# b\u{1b}[0m\u{202e}c"
        );
        assert_eq!(one_line("grün", 3), "grü…");
        assert_eq!(plain("[x](y) <b> |"), r"\[x\](y) \<b\> \|");
    }
}

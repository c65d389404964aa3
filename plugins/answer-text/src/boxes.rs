//! `\boxed{…}` and `\fbox{…}`.

/// A box in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boxed<'t> {
    /// Byte of its backslash.
    pub start: usize,
    /// One past its last byte; the text's end for a box that never closes.
    pub end: usize,
    /// What it holds; none for a box that never closes.
    pub inside: Option<&'t str>,
}

/// All boxes, in order; one inside another belongs to it.
///
/// `\boxed 7` holds a number without braces; the bare word `\boxed` in prose is no box.
pub fn boxes(text: &str) -> Vec<Boxed<'_>> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(i) = next(&text[from..]) {
        let start = from + i;
        let name = if text[start..].starts_with("\\boxed") { 6 } else { 5 };
        let rest = &text[start + name..];
        let blanks = rest.trim_start();
        let trimmed = if blanks.starts_with('{') { blanks } else { rest.trim_start_matches([' ', '\t']) };
        let offset = start + name + rest.len() - trimmed.len();
        from = start + name;
        if let Some(inside) = trimmed.strip_prefix('{') {
            match closing_brace(inside) {
                Some(end) => {
                    from = offset + 1 + end + 1;
                    found.push(Boxed { start, end: from, inside: Some(&inside[..end]) });
                }
                // What follows belongs to the open box.
                None => {
                    found.push(Boxed { start, end: text.len(), inside: None });
                    break;
                }
            }
        } else {
            let is_part = |c: char| c.is_ascii_digit() || matches!(c, '-' | '.' | ',' | '/');
            let end = trimmed.find(|c: char| !is_part(c)).unwrap_or(trimmed.len());
            let number = trimmed[..end].trim_end_matches(['.', ',']);
            if number.contains(|c: char| c.is_ascii_digit()) {
                found.push(Boxed { start, end: offset + number.len(), inside: Some(number) });
            }
        }
    }
    found
}

fn next(text: &str) -> Option<usize> {
    let mut from = 0;
    while let Some(i) = text[from..].find('\\') {
        let at = from + i;
        if text[at..].starts_with("\\boxed") || text[at..].starts_with("\\fbox") {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

/// Where the brace closes that was opened before `text`.
pub fn closing_brace(text: &str) -> Option<usize> {
    let mut depth = 1usize;
    let mut escaped = false;
    for (i, b) in text.bytes().enumerate() {
        match b {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return Some(i);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insides(text: &str) -> Vec<Option<&str>> {
        boxes(text).into_iter().map(|b| b.inside).collect()
    }

    #[test]
    fn boxes_are_found_in_order_with_their_braces_matched() {
        assert_eq!(
            insides("\\boxed{a{b}c} and \\fbox {d} and \\boxed 7."),
            [Some("a{b}c"), Some("d"), Some("7")]
        );
        assert_eq!(insides("\\fbox{1} \\boxed{2} \\fbox{3}"), [Some("1"), Some("2"), Some("3")]);
        assert_eq!(insides("I use \\boxed as asked: \\boxed{1}"), [Some("1")]);
        assert_eq!(insides("\\boxed{\\boxed{1}}"), [Some("\\boxed{1}")]);
        assert_eq!(insides("\\boxed{\\{1\\}}"), [Some("\\{1\\}")]);
    }

    #[test]
    fn a_box_that_never_closes_takes_all_that_follows() {
        assert_eq!(insides("\\boxed{1} \\boxed{2 \\boxed{3}"), [Some("1"), None]);
    }
}

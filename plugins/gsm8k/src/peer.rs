//! verl's `gsm8k` as it is: scores that users' published numbers were made with.
//!
//! Source: verl `reward_score/gsm8k.py` (2026).

/// The response's last 300 characters, all that is looked at.
pub fn tail(text: &str) -> &str {
    text.char_indices().rev().nth(299).map_or(text, |(at, _)| &text[at..])
}

fn is_part(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, '.' | ',')
}

/// What follows the last `#### ` that a number follows, without commas.
pub fn marked(text: &str) -> Option<String> {
    let (mut rest, mut found) = (text, None);
    while let Some((_, behind)) = rest.split_once("#### ") {
        let digits = behind.strip_prefix('-').unwrap_or(behind);
        let length = digits.find(|c| !is_part(c)).unwrap_or(digits.len());
        if length > 0 {
            found = Some(behind[..behind.len() - digits.len() + length].replace(',', ""));
        }
        rest = behind;
    }
    found
}

/// The last run of digits, points and commas that is more than a point.
pub fn last_number(text: &str) -> Option<String> {
    let (mut end, mut first) = (text.len(), None);
    while let Some(at) = text[..end].rfind(is_part) {
        let start = text[..at]
            .rfind(|c| !is_part(c))
            .map_or(0, |i| i + text[i..].chars().next().map_or(1, char::len_utf8));
        let signed = start - usize::from(text[..start].ends_with('-'));
        let number = &text[signed..=at];
        if number != "." {
            return Some(number.to_owned());
        }
        first = Some(number.to_owned());
        end = signed;
    }
    // All are points: the original keeps the one it looked at last.
    first
}

//! A text as the words that SQuAD's metric compares, with numbers kept whole.

use std::collections::HashMap;
use unicode_normalization::UnicodeNormalization;

/// The words of a text.
pub fn of(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for piece in plain(text).split_whitespace() {
        split(piece, &mut words);
    }
    let without: Vec<String> =
        words.iter().filter(|w| !matches!(w.as_str(), "a" | "an" | "the")).cloned().collect();
    match without.is_empty() {
        false => without,
        true if !words.is_empty() => words,
        // Marks alone: compared as they are.
        true => text.split_whitespace().map(str::to_owned).collect(),
    }
}

/// Lower case, composed, with one sign for every minus, quote and blank.
fn plain(text: &str) -> String {
    let unified = text.nfkc().map(|c| match c {
        '\u{2010}'..='\u{2015}' | '−' | '﹣' => '-',
        '’' | '‘' | '`' | '´' => '\'',
        _ => c,
    });
    unified.flat_map(char::to_lowercase).collect()
}

/// Cuts what stands between blanks: a number stays whole, other words lose their marks, and
/// characters of scripts without blanks stand alone.
fn split(piece: &str, words: &mut Vec<String>) {
    if let Some(number) = number(piece) {
        words.push(number);
        return;
    }
    let mut word = String::new();
    for c in piece.chars() {
        if is_alone(c) {
            if !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
            words.push(c.to_string());
        } else if !is_mark(c) {
            word.push(c);
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
}

/// `-1,234.50` as `-1234.5`, without brackets, currencies, percent signs and stops around it.
fn number(piece: &str) -> Option<String> {
    let around = |c: char| is_mark(c) && !matches!(c, '-' | '+' | '.');
    let mut inside = piece.trim_start_matches(around).trim_end_matches(is_mark);
    let negative = inside.starts_with('-');
    inside = inside.trim_start_matches(['-', '+']).trim_start_matches(around);
    let (whole, decimals) = inside.split_once('.').unwrap_or((inside, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    let grouped = |s: &str| {
        let mut groups = s.split(',');
        let first = groups.next().unwrap_or("");
        (1..=3).contains(&first.len()) && digits(first) && groups.all(|g| g.len() == 3 && digits(g))
    };
    if !(digits(whole) || grouped(whole)) || !digits(decimals) || whole.len() + decimals.len() == 0 {
        return None;
    }
    let whole = whole.replace(',', "");
    let whole = whole.trim_start_matches('0');
    let decimals = decimals.trim_end_matches('0');
    let sign = if negative && !(whole.is_empty() && decimals.is_empty()) { "-" } else { "" };
    let whole = if whole.is_empty() { "0" } else { whole };
    let point = if decimals.is_empty() { "" } else { "." };
    Some(format!("{sign}{whole}{point}{decimals}"))
}

/// Characters of scripts that are written without blanks between words.
fn is_alone(c: char) -> bool {
    matches!(c, '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Neither letter nor digit, and no accent of one.
fn is_mark(c: char) -> bool {
    !(c.is_alphanumeric() || unicode_normalization::char::is_combining_mark(c))
}

/// F1 of two bags of words.
pub fn overlap(said: &[String], wanted: &[String]) -> f64 {
    if said.is_empty() || wanted.is_empty() {
        return f64::from(u8::from(said.is_empty() && wanted.is_empty()));
    }
    let alone =
        |words: &[String]| matches!(words, [one] if matches!(one.as_str(), "yes" | "no" | "noanswer"));
    if (alone(said) || alone(wanted)) && said != wanted {
        return 0.0;
    }
    let mut left: HashMap<&str, usize> = HashMap::new();
    for word in wanted {
        *left.entry(word).or_default() += 1;
    }
    let mut common = 0;
    for word in said {
        if let Some(n) = left.get_mut(word.as_str()).filter(|n| **n > 0) {
            *n -= 1;
            common += 1;
        }
    }
    2.0 * f64::from(common) / (said.len() + wanted.len()) as f64
}

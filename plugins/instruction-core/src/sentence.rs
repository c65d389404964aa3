//! Where sentences end.
//!
//! A full stop ends one unless it belongs to an abbreviation, an initial, a number or a list marker;
//! line ends do not end sentences. Rules instead of a trained model: the same everywhere, one pass,
//! and of use for text in lower case or capitals, as some instructions ask for.

use crate::text::{in_word, is_emoji};

/// Titles, and words that announce what follows: their full stop never ends a sentence.
const BEFORE_A_NAME: &[&str] = &[
    "mr", "mrs", "ms", "dr", "prof", "st", "messrs", "mme", "mlle", "gen", "col", "sgt", "capt", "cpt", "lt",
    "maj", "cmdr", "rev", "hon", "gov", "sen", "rep", "pres", "mt", "fr",
];
const ANNOUNCING: &[&str] = &["vs", "e.g", "i.e", "cf", "viz", "approx", "ca"];
/// Abbreviations only in front of a number.
const BEFORE_A_NUMBER: &[&str] = &[
    "no", "nos", "fig", "figs", "vol", "vols", "p", "pp", "ch", "sec", "eq", "eqs", "art", "jan", "feb",
    "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec",
];
/// Abbreviations that may end a sentence: they do when a word follows that often begins one.
const ENDABLE: &[&str] = &[
    "inc", "ltd", "co", "corp", "jr", "sr", "ph.d", "al", "est", "dept", "ave", "blvd", "rd", "bros", "univ",
];
/// The same, where any capital letter that follows begins a sentence.
const ENDABLE_BEFORE_CAPITAL: &[&str] = &["etc", "a.m", "p.m", "b.c", "a.d"];
const STARTERS: &[&str] = &[
    "he",
    "she",
    "it",
    "they",
    "we",
    "you",
    "i",
    "the",
    "a",
    "an",
    "this",
    "that",
    "these",
    "those",
    "there",
    "their",
    "his",
    "her",
    "its",
    "our",
    "your",
    "my",
    "but",
    "and",
    "so",
    "or",
    "yet",
    "however",
    "then",
    "when",
    "while",
    "where",
    "what",
    "why",
    "who",
    "how",
    "if",
    "in",
    "on",
    "at",
    "for",
    "from",
    "with",
    "as",
    "after",
    "before",
    "because",
    "although",
    "since",
    "until",
    "to",
    "by",
    "not",
    "no",
    "yes",
    "now",
    "here",
    "some",
    "all",
    "many",
    "most",
    "each",
    "every",
    "one",
    "another",
    "also",
    "thus",
    "therefore",
    "instead",
    "meanwhile",
];

/// How a sentence ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// With a full stop or an ellipsis.
    Declarative,
    /// With a question mark.
    Interrogative,
    /// With an exclamation mark.
    Exclamatory,
    /// With none of these.
    Open,
}

/// The sentences of a text, without white space around them. Each holds a letter, a digit or a
/// pictograph.
pub fn sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut start, mut at) = (0, 0);
    while let Some(c) = text[at..].chars().next() {
        if !is_stop(c) {
            at += c.len_utf8();
            continue;
        }
        let stops = run(text, at, is_stop);
        let end = run(text, stops, is_closer);
        if ends(text, start, at, stops, end) {
            push(&mut found, &text[start..end]);
            start = end;
        }
        at = end;
    }
    push(&mut found, &text[start..]);
    found
}

/// How a sentence ends, quotation marks, brackets and pictographs behind its mark aside.
pub fn kind(sentence: &str) -> Kind {
    let end = sentence.trim_end_matches(|c: char| c.is_whitespace() || is_closer(c) || is_emoji(c));
    match end.chars().next_back() {
        Some('.' | '…' | '。' | '｡' | '।' | '۔') => Kind::Declarative,
        Some('?' | '？' | '؟') => Kind::Interrogative,
        Some('!' | '！') => Kind::Exclamatory,
        _ => Kind::Open,
    }
}

fn is_stop(c: char) -> bool {
    matches!(c, '.' | '!' | '?') || is_wide_stop(c) || matches!(c, '…' | '؟' | '‽')
}

/// Marks that end a sentence with no space behind them.
fn is_wide_stop(c: char) -> bool {
    matches!(c, '。' | '！' | '？' | '｡' | '।' | '۔')
}

fn is_closer(c: char) -> bool {
    matches!(c, '"' | '\'' | '”' | '’' | '»' | '」' | '』' | ')' | ']' | '}' | '*' | '_' | '`')
}

/// The end of the run of characters from `from` that `of` accepts.
fn run(text: &str, from: usize, of: fn(char) -> bool) -> usize {
    from + text[from..].find(|c| !of(c)).unwrap_or(text.len() - from)
}

fn push<'a>(found: &mut Vec<&'a str>, sentence: &'a str) {
    if sentence.contains(|c: char| c.is_alphanumeric() || is_emoji(c)) {
        found.push(sentence.trim());
    }
}

/// Whether the marks `text[at..stops]`, with what closes behind them up to `end`, end the sentence
/// that began at `start`.
fn ends(text: &str, start: usize, at: usize, stops: usize, end: usize) -> bool {
    let (marks, closers, rest) = (&text[at..stops], &text[stops..end], &text[end..]);
    if marks.contains(is_wide_stop) {
        return true;
    }
    let Some(next) = rest.chars().next() else { return true };
    if !next.is_whitespace() && !is_emoji(next) {
        return false;
    }
    let next_word = rest.trim_start_matches(|c: char| !in_word(c) && !is_stop(c));
    let next_letter = next_word.chars().next();
    let lower_next = next_letter.is_some_and(char::is_lowercase);
    let quoted = closers.contains(['"', '”', '’', '\'', '»']);
    if quoted && lower_next {
        // "Why?" he asked.
        return false;
    }
    if marks.contains(['!', '?', '‽', '؟']) {
        return true;
    }
    if marks.len() > 1 {
        // An ellipsis goes on with a small letter.
        return !lower_next;
    }
    // One full stop.
    let before = &text[start..at];
    let token =
        before.rsplit(|c: char| c.is_whitespace() || matches!(c, '(' | '[' | '"' | '“' | '‘' | '/')).next();
    let token = token.unwrap_or("").trim_start_matches(['*', '_', '\'']);
    if is_list_marker(text, at, token) {
        return false;
    }
    let lower = token.to_lowercase();
    let capitalised = token.chars().next().is_some_and(char::is_uppercase);
    let digit_next = next_letter.is_some_and(|c| c.is_ascii_digit());
    let capital_next = next_letter.is_some_and(char::is_uppercase);
    let starter_next = || {
        let word: String =
            next_word.chars().take_while(|&c| in_word(c)).flat_map(char::to_lowercase).collect();
        STARTERS.contains(&word.as_str())
    };
    let lower = lower.as_str();
    if ANNOUNCING.contains(&lower) || (capitalised && BEFORE_A_NAME.contains(&lower)) {
        return next_letter.is_none();
    }
    if BEFORE_A_NUMBER.contains(&lower) && digit_next {
        return false;
    }
    if ENDABLE_BEFORE_CAPITAL.contains(&lower) {
        return next_letter.is_none() || capital_next;
    }
    if ENDABLE.contains(&lower) || is_initials(token) {
        return next_letter.is_none() || (capital_next && starter_next());
    }
    true
}

/// `J`, `U.S`, `Ph.D`-like: single letters with full stops between them, the first one a capital.
fn is_initials(token: &str) -> bool {
    let single = |part: &str| part.chars().count() == 1 && part.chars().all(char::is_alphabetic);
    token.chars().next().is_some_and(char::is_uppercase) && token != "I" && token.split('.').all(single)
        || (token.contains('.') && token.split('.').all(single))
}

/// `1.` or `a.` at the beginning of a line, with text behind it.
fn is_list_marker(text: &str, at: usize, token: &str) -> bool {
    let number = (1..=3).contains(&token.len()) && token.bytes().all(|b| b.is_ascii_digit());
    let letter = token.len() == 1 && token.bytes().all(|b| b.is_ascii_alphabetic());
    if !number && !letter {
        return false;
    }
    let is_markup = |c: char| c.is_whitespace() || "*_#->".contains(c);
    let before = text[..at - token.len()].trim_end_matches(|c: char| c != '\n' && is_markup(c));
    let goes_on = || text[at + 1..].chars().take_while(|&c| c != '\n').any(char::is_alphanumeric);
    (before.is_empty() || before.ends_with('\n')) && goes_on()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_where_a_reader_says_so() {
        for (text, count) in [
            ("Dr. Lee met Mr. Kim at 5 p.m. on Monday.", 1),
            ("We met at 5 p.m. Then we left.", 2),
            ("It costs 3.5 dollars. See example.com for more!", 2),
            ("He said \"It rains.\" Then it poured. Why?", 3),
            ("\"Why?\" he asked. \"Because!\" she said.", 2),
            ("all in lower case. still two sentences.", 2),
            ("Well... maybe. Wait... No!", 3),
            ("1. Apples are red.\n2. Pears are green.", 2),
            ("- apples\n- pears", 1),
            ("J. K. Rowling wrote it. He lives in the U.S. Army base. It is in the U.S. They left.", 4),
            ("今天很热。明天更热。", 2),
            ("See fig. 3 and no. 7. He said no. We left.", 3),
            ("The cat sat. A dog ran", 2),
            ("Apples, pears, etc. are sold.", 1),
            ("**Bold.** Next.", 2),
            ("Hi.", 1),
            ("... !!! ?", 0),
            ("", 0),
            ("What?! Really?", 2),
        ] {
            assert_eq!(sentences(text).len(), count, "{text}: {:?}", sentences(text));
        }
    }

    #[test]
    fn the_last_mark_names_the_kind() {
        for (sentence, expected) in [
            ("He said \"It rains.\"", Kind::Declarative),
            ("Really? 😀", Kind::Interrogative),
            ("Go (now!)", Kind::Exclamatory),
            ("no mark", Kind::Open),
            ("真的吗？", Kind::Interrogative),
        ] {
            assert_eq!(kind(sentence), expected, "{sentence}");
        }
    }
}

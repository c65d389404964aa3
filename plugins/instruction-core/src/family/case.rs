//! `change_case`, and title case.

use super::Build;
use crate::text::{in_word, terms};
use crate::{Args, Check, Finding, Rules, language};

pub const CHECKS: &[(&str, Build)] = &[
    ("change_case:capital_word_frequency", capital_word_frequency),
    ("change_case:english_capital", english_capital),
    ("change_case:english_lowercase", english_lowercase),
    ("format:title_case", title_case),
];

/// Words with a letter in upper case and none in lower case; `I` and `A` are such words.
fn capital_word_frequency(args: &Args) -> Result<Check, String> {
    let (limit, relation) = (args.count("capital_frequency")?, args.relation("capital_relation")?);
    Ok(Box::new(move |text, _| {
        let is_capital =
            |term: &&str| term.chars().any(char::is_uppercase) && !term.chars().any(char::is_lowercase);
        let count = terms(text).filter(is_capital).count();
        Finding::of(relation.holds(count, limit), || format!("{count} words in capitals"))
    }))
}

fn english_capital(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, _| match text.chars().find(|c| c.is_lowercase()) {
        Some(c) => Finding::NotFollowed(format!("\"{c}\" is in lower case")),
        None if !text.contains(char::is_uppercase) => Finding::NotFollowed("no letters".into()),
        None => english(text),
    }))
}

fn english_lowercase(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, _| match text.chars().find(|c| c.is_uppercase()) {
        Some(c) => Finding::NotFollowed(format!("\"{c}\" is in upper case")),
        None if !text.contains(char::is_lowercase) => Finding::NotFollowed("no letters".into()),
        None => english(text),
    }))
}

/// English, unless it is plainly something else: a few words do not show their language.
fn english(text: &str) -> Finding {
    match language::tell(text) {
        Some(known) if known.sure && known.code != "en" => {
            Finding::NotFollowed(format!("the language is {}", known.code))
        }
        _ => Finding::Followed,
    }
}

/// Words that a title may leave small, unless they begin it.
const MINOR: &[&str] = &[
    "a", "an", "the", "and", "but", "or", "nor", "for", "so", "yet", "as", "at", "by", "in", "of", "off",
    "on", "per", "to", "up", "via", "from", "into", "with", "over", "if", "vs", "than", "onto", "upon",
];

/// Every major word begins with a capital letter; so does the first word.
fn title_case(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, rules| {
        let mut first = true;
        let mut any = false;
        for term in terms(text) {
            let minor = rules == Rules::Right && !first && MINOR.contains(&term);
            first = false;
            let mut letters = term.chars().filter(|&c| in_word(c));
            let begin = letters.next().unwrap_or('_');
            if !begin.is_alphabetic() {
                continue;
            }
            any = true;
            // Names such as iPhone keep their form.
            let mixed = letters.clone().any(char::is_uppercase) && letters.any(char::is_lowercase);
            if begin.is_lowercase() && !minor && !mixed {
                return Finding::NotFollowed(format!("\"{term}\" begins small"));
            }
        }
        Finding::of(any, || "no words".into())
    }))
}

//! `keywords`: words that must or must not be there, and how often.

use super::Build;
use crate::text::occurrences;
use crate::{Args, Check, Finding, Rules};

pub const CHECKS: &[(&str, Build)] = &[
    ("keywords:existence", existence),
    ("keywords:frequency", frequency),
    ("keywords:forbidden_words", forbidden_words),
    ("keywords:letter_frequency", letter_frequency),
    ("sentence:keyword", keyword_in_sentence),
    ("count:keywords_multiple", keywords_multiple),
];

/// How often a keyword occurs: as a whole word, or anywhere for the official checkers.
fn found(text: &str, keyword: &str, rules: Rules) -> usize {
    match rules {
        Rules::Right => occurrences(text, keyword),
        Rules::Official => text.to_lowercase().matches(&keyword.to_lowercase()).count(),
    }
}

fn existence(args: &Args) -> Result<Check, String> {
    let keywords: Vec<String> = args.texts("keywords")?.into_iter().map(str::to_owned).collect();
    Ok(Box::new(move |text, rules| match keywords.iter().find(|keyword| found(text, keyword, rules) == 0) {
        None => Finding::Followed,
        Some(missing) => Finding::NotFollowed(format!("no \"{missing}\"")),
    }))
}

fn frequency(args: &Args) -> Result<Check, String> {
    let keyword = args.text("keyword")?.to_owned();
    let (limit, relation) = (args.count("frequency")?, args.relation("relation")?);
    Ok(Box::new(move |text, rules| {
        let count = found(text, &keyword, rules);
        Finding::of(relation.holds(count, limit), || format!("\"{keyword}\" {count} times"))
    }))
}

fn forbidden_words(args: &Args) -> Result<Check, String> {
    let words: Vec<String> = args.texts("forbidden_words")?.into_iter().map(str::to_owned).collect();
    Ok(Box::new(move |text, _| match words.iter().find(|word| occurrences(text, word) > 0) {
        None => Finding::Followed,
        Some(word) => Finding::NotFollowed(format!("\"{word}\" is there")),
    }))
}

/// Any character may be asked for, `#` too.
fn letter_frequency(args: &Args) -> Result<Check, String> {
    let letter = args.text("letter")?;
    let mut lower = letter.chars().flat_map(char::to_lowercase);
    let (Some(letter), None) = (lower.next(), lower.next()) else {
        return Err(args.contradiction("letter", "one character"));
    };
    let (limit, relation) = (args.count("let_frequency")?, args.relation("let_relation")?);
    Ok(Box::new(move |text, _| {
        let count = text.chars().flat_map(char::to_lowercase).filter(|&c| c == letter).count();
        Finding::of(relation.holds(count, limit), || format!("\"{letter}\" {count} times"))
    }))
}

fn keyword_in_sentence(args: &Args) -> Result<Check, String> {
    let (word, n) = (args.text("word")?.to_owned(), args.positive("N")?);
    Ok(Box::new(move |text, _| {
        let sentences = crate::sentence::sentences(text);
        match sentences.get(n - 1) {
            Some(sentence) => {
                Finding::of(occurrences(sentence, &word) > 0, || format!("no \"{word}\" in sentence {n}"))
            }
            None => Finding::NotFollowed(format!("{} sentences", sentences.len())),
        }
    }))
}

fn keywords_multiple(args: &Args) -> Result<Check, String> {
    let mut wanted = Vec::new();
    for (name, times) in [("keyword1", 1), ("keyword2", 2), ("keyword3", 3), ("keyword4", 5), ("keyword5", 7)]
    {
        wanted.push((args.text(name)?.to_owned(), times));
    }
    Ok(Box::new(move |text, rules| {
        let wrong = wanted.iter().map(|(word, times)| (word, *times, found(text, word, rules)));
        match wrong.into_iter().find(|(_, times, count)| count != times) {
            None => Finding::Followed,
            Some((word, times, count)) => {
                Finding::NotFollowed(format!("\"{word}\" {count} times, not {times}"))
            }
        }
    }))
}

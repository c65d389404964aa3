//! `length_constraints`: how many words, sentences and paragraphs.

use super::Build;
use crate::sentence::sentences;
use crate::text::{in_word, paragraphs, spaced, words};
use crate::{Args, Check, Finding, Rules};

pub const CHECKS: &[(&str, Build)] = &[
    ("length_constraints:number_sentences", number_sentences),
    ("length_constraints:number_paragraphs", number_paragraphs),
    ("length_constraints:number_words", number_words),
    ("length_constraints:nth_paragraph_first_word", nth_paragraph_first_word),
    ("count:word_count_range", word_count_range),
];

fn number_sentences(args: &Args) -> Result<Check, String> {
    let (limit, relation) = (args.count("num_sentences")?, args.relation("relation")?);
    Ok(Box::new(move |text, _| {
        let count = sentences(text).len();
        Finding::of(relation.holds(count, limit), || format!("{count} sentences"))
    }))
}

fn number_words(args: &Args) -> Result<Check, String> {
    let (limit, relation) = (args.count("num_words")?, args.relation("relation")?);
    Ok(Box::new(move |text, _| {
        let count = words(text).count();
        Finding::of(relation.holds(count, limit), || format!("{count} words"))
    }))
}

fn word_count_range(args: &Args) -> Result<Check, String> {
    let (least, most) = (args.count("min_words")?, args.count("max_words")?);
    if most < least {
        return Err(args.contradiction("max_words", "at least `min_words`"));
    }
    Ok(Box::new(move |text, _| {
        let count = words(text).count();
        Finding::of((least..=most).contains(&count), || format!("{count} words"))
    }))
}

/// Paragraphs are divided by `***`; one in between must not be empty.
fn number_paragraphs(args: &Args) -> Result<Check, String> {
    let wanted = args.count("num_paragraphs")?;
    Ok(Box::new(move |text, rules| {
        let parts = match rules {
            Rules::Right => divided(text),
            Rules::Official => text.split("***").collect(),
        };
        let last = parts.len() - 1;
        if parts.iter().enumerate().any(|(i, part)| part.trim().is_empty() && i != 0 && i != last) {
            return Finding::NotFollowed("an empty paragraph between two dividers".into());
        }
        let count = parts.iter().filter(|part| !part.trim().is_empty()).count();
        Finding::of(count == wanted, || format!("{count} paragraphs"))
    }))
}

/// Parts between dividers: three asterisks that do not open or close emphasis (`***so***`).
fn divided(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut at) = (0, 0);
    while let Some(found) = text[at..].find("***") {
        let from = at + found;
        let end = from + text[from..].find(|c| c != '*').unwrap_or(text.len() - from);
        let open = |c: Option<char>| c.is_none_or(char::is_whitespace);
        let (before, after) = (open(text[..from].chars().next_back()), open(text[end..].chars().next()));
        if end - from == 3 && before == after {
            parts.push(&text[start..from]);
            start = end;
        }
        at = end;
    }
    parts.push(&text[start..]);
    parts
}

/// Paragraphs are divided by empty lines, however many.
fn nth_paragraph_first_word(args: &Args) -> Result<Check, String> {
    let (wanted, nth) = (args.positive("num_paragraphs")?, args.positive("nth_paragraph")?);
    if nth > wanted {
        return Err(args.contradiction("nth_paragraph", "at most `num_paragraphs`"));
    }
    let first_word = spaced(&args.text("first_word")?.to_lowercase());
    Ok(Box::new(move |text, rules| {
        let blocks = paragraphs(text);
        let count = blocks.len();
        if count != wanted {
            return Finding::NotFollowed(format!("{count} paragraphs"));
        }
        let paragraph = match rules {
            Rules::Right => blocks[nth - 1],
            // Counts what is filled, but picks from all.
            Rules::Official => text.split("\n\n").nth(nth - 1).unwrap_or(""),
        };
        let begun = paragraph.trim().trim_start_matches(['"', '\'', '“', '‘', '«']).to_lowercase();
        let rest = begun.strip_prefix(&first_word);
        let mut next = rest.unwrap_or("").chars();
        let goes_on = match next.next() {
            Some('-') => next.next().is_some_and(in_word),
            Some(c) => in_word(c),
            None => false,
        };
        Finding::of(rest.is_some() && !goes_on, || {
            format!("paragraph {nth} does not begin with \"{first_word}\"")
        })
    }))
}

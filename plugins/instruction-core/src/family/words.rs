//! `words`: what holds for each word on its own.

use super::Build;
use crate::english::{self, Verb};
use crate::text::{filled_lines, letters_and_digits, terms, unaccented};
use crate::{Args, Check, Finding, Rules};
use std::collections::{HashMap, HashSet};

pub const CHECKS: &[(&str, Build)] = &[
    ("words:vowel", vowel),
    ("words:consonants", consonants),
    ("words:prime_lengths", prime_lengths),
    ("words:repeats", repeats),
    ("words:start_verb", start_verb),
    ("format:newline", newline),
    ("format:no_whitespace", no_whitespace),
];

/// Words without punctuation, in lower case: `Don't` is `dont`.
pub fn stripped(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| c.is_whitespace() || matches!(c, '—' | '–'))
        .map(letters_and_digits)
        .filter(|word| !word.is_empty())
}

/// One paragraph, on one line, with one to three different vowels.
fn vowel(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, rules| {
        let lines = text.trim().lines().count();
        if lines != 1 {
            return Finding::NotFollowed(format!("{lines} lines"));
        }
        let letters = text.chars().flat_map(char::to_lowercase).map(unaccented);
        let vowels = letters.filter(|c| "aeiou".contains(*c)).collect::<HashSet<char>>().len();
        Finding::of(vowels <= 3 && (vowels > 0 || rules == Rules::Official), || {
            format!("{vowels} different vowels")
        })
    }))
}

/// Each word with letters has two consonants side by side; y is one.
fn consonants(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, _| {
        let mut any = false;
        for word in text.split_whitespace().filter(|word| word.contains(char::is_alphabetic)) {
            any = true;
            let letters: Vec<char> = word.chars().flat_map(char::to_lowercase).map(unaccented).collect();
            let consonant = |c: &char| c.is_ascii_lowercase() && !"aeiou".contains(*c);
            if letters.windows(2).any(|pair| pair.iter().all(consonant)) {
                continue;
            }
            let word: String = word.chars().take(40).collect();
            return match letters.iter().any(|c| c.is_alphabetic() && !c.is_ascii()) {
                true => Finding::Undecided(format!("the consonants of \"{word}\" are not known")),
                false => Finding::NotFollowed(format!("no consonant cluster in \"{word}\"")),
            };
        }
        Finding::of(any, || "no words".into())
    }))
}

fn prime_lengths(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, _| {
        let mut any = false;
        for word in stripped(text).filter(|word| word.contains(char::is_alphabetic)) {
            any = true;
            let length = word.chars().count();
            if !is_prime(length) {
                let word: String = word.chars().take(40).collect();
                return Finding::NotFollowed(format!("\"{word}\" has {length} letters"));
            }
        }
        Finding::of(any, || "no words".into())
    }))
}

fn is_prime(n: usize) -> bool {
    n >= 2 && (2..).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d))
}

fn repeats(args: &Args) -> Result<Check, String> {
    let most = args.count("small_n")?;
    Ok(Box::new(move |text, _| {
        let mut counts: HashMap<String, usize> = HashMap::new();
        for word in stripped(text) {
            let count = counts.entry(word.clone()).or_default();
            *count += 1;
            if *count > most {
                return Finding::NotFollowed(format!("\"{word}\" more than {most} times"));
            }
        }
        Finding::Followed
    }))
}

fn start_verb(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, _| {
        let mut first = terms(text);
        let Some(word) = first.next() else { return Finding::NotFollowed("no words".into()) };
        // What stands behind a colon or a comma (`Title: a …`) says nothing of the word before it.
        let behind = text.split_once(word).map_or("", |(_, behind)| behind);
        let next = first.next().filter(|_| behind.starts_with([' ', '\n', '*', '_']));
        match english::begins_with_verb(word, next) {
            Verb::Yes => Finding::Followed,
            Verb::No => Finding::NotFollowed(format!("\"{word}\" is no verb")),
            Verb::Perhaps => Finding::Undecided(format!("\"{word}\" may be a noun or a verb here")),
        }
    }))
}

/// One word on each line that is not empty.
fn newline(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, _| {
        let per_line = filled_lines(text).map(|line| stripped(line).count());
        let mut any = false;
        for (at, count) in per_line.enumerate() {
            if count > 1 {
                return Finding::NotFollowed(format!("{count} words on line {}", at + 1));
            }
            any |= count == 1;
        }
        Finding::of(any, || "no words".into())
    }))
}

fn no_whitespace(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, _| Finding::of(!text.contains(char::is_whitespace), || "white space".into())))
}

//! Words and sentences in relation to their neighbours. Where there is no neighbour, nothing was
//! shown: a lone sentence does not follow what is asked of each and its next.

use super::Build;
use super::words::stripped;
use crate::english::{self, Parity};
use crate::sentence::sentences;
use crate::text::{bare, filled_lines, folded, terms, unaccented};
use crate::{Args, Check, Finding, Rules};

pub const CHECKS: &[(&str, Build)] = &[
    ("words:alphabet", alphabet),
    ("words:odd_even_syllables", odd_even_syllables),
    ("words:last_first", last_first),
    ("words:paragraph_last_first", paragraph_last_first),
    ("words:no_consecutive", no_consecutive),
    ("words:keywords_specific_position", keywords_specific_position),
    ("words:words_position", words_position),
    ("sentence:alliteration_increment", alliteration_increment),
    ("sentence:increment", increment),
];

/// The Latin letter that a word begins with.
fn first_letter(word: &str) -> Option<u8> {
    let letter = word.chars().find(|c| c.is_alphanumeric()).map(|c| c.to_lowercase().next().unwrap_or(c))?;
    u8::try_from(unaccented(letter)).ok().filter(u8::is_ascii_lowercase)
}

/// Each word begins with the letter behind that of the word before, `a` behind `z`.
fn alphabet(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, _| {
        let mut expected: Option<u8> = None;
        for word in stripped(text) {
            let letter = first_letter(&word);
            let (Some(letter), true) = (letter, expected.is_none() || letter == expected) else {
                let word: String = word.chars().take(40).collect();
                return Finding::NotFollowed(format!("\"{word}\" is out of turn"));
            };
            expected = Some((letter - b'a' + 1) % 26 + b'a');
        }
        Finding::of(expected.is_some(), || "no words".into())
    }))
}

/// Odd and even numbers of syllables take turns. A word with two pronunciations fits either.
fn odd_even_syllables(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, _| {
        // Whether the words so far fit a sequence that ends with an odd or with an even word.
        let (mut odd, mut even) = (true, true);
        let mut any = false;
        for word in stripped(text).filter(|word| word.contains(char::is_alphabetic)) {
            if !word.is_ascii() {
                let word: String = word.chars().take(40).collect();
                return Finding::Undecided(format!("the syllables of \"{word}\" are not known"));
            }
            let parity = english::syllables(&word);
            (odd, even) = if any {
                (even && parity != Parity::Even, odd && parity != Parity::Odd)
            } else {
                (parity != Parity::Even, parity != Parity::Odd)
            };
            any = true;
            if !odd && !even {
                return Finding::NotFollowed(format!("\"{word}\" breaks the turns"));
            }
        }
        Finding::of(any, || "no words".into())
    }))
}

/// The last word of each sentence is the first of the next.
fn last_first(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, rules| {
        let lower = folded(text);
        let sentences = sentences(&lower);
        for pair in sentences.windows(2) {
            let (last, first) = (terms(pair[0]).last(), terms(pair[1]).next());
            if last.is_none() || last != first {
                return Finding::NotFollowed(format!(
                    "\"{}\" and then \"{}\"",
                    last.unwrap_or_default(),
                    first.unwrap_or_default()
                ));
            }
        }
        Finding::of(sentences.len() > 1 || rules == Rules::Official, || "one sentence".into())
    }))
}

/// Each line that is not empty ends with the word that it began with.
fn paragraph_last_first(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, _| {
        let lower = folded(text);
        let mut any = false;
        for line in filled_lines(&lower) {
            let (first, last) = (terms(line).next(), terms(line).last());
            if first != last {
                return Finding::NotFollowed(format!(
                    "from \"{}\" to \"{}\"",
                    first.unwrap_or_default(),
                    last.unwrap_or_default()
                ));
            }
            any |= first.is_some();
        }
        Finding::of(any, || "no words".into())
    }))
}

/// No two words side by side begin with the same letter; the end of a line parts words.
fn no_consecutive(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, rules| {
        let mut before: Option<char> = None;
        for line in text.lines() {
            if rules == Rules::Right {
                before = None;
            }
            for word in stripped(line) {
                let letter = word.chars().next().filter(|c| c.is_alphabetic());
                if letter.is_some() && letter == before {
                    let word: String = word.chars().take(40).collect();
                    return Finding::NotFollowed(format!("\"{word}\" begins like the word before it"));
                }
                before = letter;
            }
        }
        Finding::Followed
    }))
}

fn keywords_specific_position(args: &Args) -> Result<Check, String> {
    let keyword = folded(bare(args.text("keyword")?));
    let (n, m) = (args.positive("n")?, args.positive("m")?);
    Ok(Box::new(move |text, _| {
        let lower = folded(text);
        let sentences = sentences(&lower);
        let Some(sentence) = sentences.get(n - 1) else {
            return Finding::NotFollowed(format!("{} sentences", sentences.len()));
        };
        match terms(sentence).nth(m - 1) {
            Some(word) => Finding::of(word == keyword, || format!("word {m} of sentence {n} is \"{word}\"")),
            None => Finding::NotFollowed(format!("{} words in sentence {n}", terms(sentence).count())),
        }
    }))
}

/// The second word and the second to last.
fn words_position(args: &Args) -> Result<Check, String> {
    let keyword = folded(bare(args.text("keyword")?));
    Ok(Box::new(move |text, _| {
        let lower = folded(text);
        let words: Vec<&str> = terms(&lower).collect();
        let Some(last) = words.len().checked_sub(2) else {
            return Finding::NotFollowed(format!("{} words", words.len()));
        };
        Finding::of(words[1] == keyword && words[last] == keyword, || {
            format!("the words are \"{}\" and \"{}\"", words[1], words[last])
        })
    }))
}

/// The longest run of words with one first letter grows from sentence to sentence.
fn alliteration_increment(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, rules| {
        let lower = folded(text);
        let sentences = sentences(&lower);
        let mut before: Option<usize> = None;
        for sentence in &sentences {
            let letters: Vec<Option<char>> =
                terms(sentence).map(|w| w.chars().find(|c| c.is_alphabetic())).collect();
            let run = alliteration(&letters, rules);
            if before.is_some_and(|before| run <= before) {
                return Finding::NotFollowed(format!(
                    "a run of {run} words after one of {}",
                    before.unwrap_or(0)
                ));
            }
            before = Some(run);
        }
        Finding::of(sentences.len() > 1 || rules == Rules::Official, || "one sentence".into())
    }))
}

/// Words in the longest run, 0 without one. The official checker adds all runs up.
fn alliteration(letters: &[Option<char>], rules: Rules) -> usize {
    let (mut longest, mut sum) = (0, 0);
    for run in letters.chunk_by(|a, b| a.is_some() && a == b).filter(|run| run.len() > 1) {
        longest = longest.max(run.len());
        sum += run.len();
    }
    if rules == Rules::Official { sum } else { longest }
}

/// Each sentence has so many words more than the one before.
fn increment(args: &Args) -> Result<Check, String> {
    let step = args.count("small_n")?;
    Ok(Box::new(move |text, rules| {
        let counts: Vec<usize> = sentences(text).iter().map(|sentence| terms(sentence).count()).collect();
        if let Some(pair) = counts.windows(2).find(|pair| pair[1] != pair[0] + step) {
            return Finding::NotFollowed(format!("{} words after {}", pair[1], pair[0]));
        }
        Finding::of(counts.len() > 1 || rules == Rules::Official, || format!("{} sentences", counts.len()))
    }))
}

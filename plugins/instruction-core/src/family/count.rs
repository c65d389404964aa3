//! `count`: how many of something a response holds.

use super::Build;
use crate::text::{bare, folded, terms, words};
use crate::{Args, Check, Finding, Rules};
use std::collections::HashSet;

pub const CHECKS: &[(&str, Build)] = &[
    ("count:unique_word_count", unique_word_count),
    ("count:conjunctions", conjunctions),
    ("count:person_names", person_names),
    ("count:numbers", numbers),
    ("count:pronouns", pronouns),
    ("count:punctuation", punctuation),
    ("count:words_japanese", words_japanese),
    ("words:palindrome", palindrome),
];

fn unique_word_count(args: &Args) -> Result<Check, String> {
    let wanted = args.count("N")?;
    Ok(Box::new(move |text, _| {
        let lower = folded(text);
        let count =
            lower.split_whitespace().map(bare).filter(|w| !w.is_empty()).collect::<HashSet<_>>().len();
        Finding::of(count >= wanted, || format!("{count} different words"))
    }))
}

/// Different coordinating conjunctions, however they are written.
fn conjunctions(args: &Args) -> Result<Check, String> {
    let wanted = args.count("small_n")?;
    if wanted > 7 {
        return Err(
            args.contradiction("small_n", "at most 7, for there are no more coordinating conjunctions")
        );
    }
    Ok(Box::new(move |text, _| {
        let lower = folded(text);
        let is_conjunction = |w: &&str| ["and", "but", "for", "nor", "or", "so", "yet"].contains(w);
        let count = terms(&lower).filter(is_conjunction).collect::<HashSet<_>>().len();
        Finding::of(count >= wanted, || format!("{count} different conjunctions"))
    }))
}

/// The names that the instruction lists.
#[rustfmt::skip]
const NAMES: &[&str] = &[
    "Emma", "Liam", "Sophia", "Jackson", "Olivia", "Noah", "Ava", "Lucas", "Isabella", "Mason", "Mia", "Ethan",
    "Charlotte", "Alexander", "Amelia", "Benjamin", "Harper", "Leo", "Zoe", "Daniel", "Chloe", "Samuel", "Lily",
    "Matthew", "Grace", "Owen", "Abigail", "Gabriel", "Ella", "Jacob", "Scarlett", "Nathan", "Victoria", "Elijah",
    "Layla", "Nicholas", "Audrey", "David", "Hannah", "Christopher", "Penelope", "Thomas", "Nora", "Andrew", "Aria",
    "Joseph", "Claire", "Ryan", "Stella", "Jonathan",
];

/// Different ones of the listed names, as whole words with their capital letter.
fn person_names(args: &Args) -> Result<Check, String> {
    let wanted = args.count("N")?;
    if wanted > NAMES.len() {
        return Err(args.contradiction("N", "at most 50, for the instruction lists no more names"));
    }
    Ok(Box::new(move |text, _| {
        let there: HashSet<&str> = words(text).collect();
        let capitals = |name: &str| there.contains(name.to_uppercase().as_str());
        let count = NAMES.iter().filter(|name| there.contains(**name) || capitals(name)).count();
        Finding::of(count >= wanted, || format!("{count} of the listed names"))
    }))
}

/// Numbers in digits; `3.5`, `1,200` and `1/2` are one each.
fn numbers(args: &Args) -> Result<Check, String> {
    let wanted = args.count("N")?;
    Ok(Box::new(move |text, _| {
        let count = count_numbers(text);
        Finding::of(count == wanted, || format!("{count} numbers"))
    }))
}

fn count_numbers(text: &str) -> usize {
    let chars: Vec<char> = text.chars().collect();
    let digits = |from: usize| chars[from.min(chars.len())..].iter().take_while(|c| c.is_numeric()).count();
    let (mut count, mut at) = (0, 0);
    while at < chars.len() {
        if !chars[at].is_numeric() {
            at += 1;
            continue;
        }
        count += 1;
        at += digits(at);
        // What goes on as the same number: a decimal part, groups of three digits, a denominator.
        while let (Some(mark), behind @ 1..) = (chars.get(at), digits(at + 1)) {
            match mark {
                '.' | '/' => at += 1 + behind,
                ',' | '\u{a0}' | '\u{202f}' if behind == 3 => at += 1 + behind,
                _ => break,
            }
        }
    }
    count
}

#[rustfmt::skip]
const PRONOUNS: &[&str] = &[
    "i", "me", "we", "us", "you", "he", "him", "she", "her", "it", "they", "them", "my", "mine", "our", "ours", "your",
    "yours", "his", "hers", "its", "their", "theirs", "myself", "ourselves", "yourself", "yourselves", "himself",
    "herself", "itself", "themselves", "this", "that", "these", "those", "who", "whom", "whose", "which", "what",
    "whoever", "whomever", "whatever", "whichever", "anybody", "anyone", "anything", "everybody", "everyone",
    "everything", "nobody", "nothing", "somebody", "someone", "something", "each", "either", "neither", "both", "all",
    "some", "any", "none",
];

/// Words that can be pronouns, `it` in `it's` among them.
fn pronouns(args: &Args) -> Result<Check, String> {
    let wanted = args.count("N")?;
    Ok(Box::new(move |text, _| {
        let lower = folded(text);
        let count = words(&lower).filter(|word| PRONOUNS.contains(word)).count();
        Finding::of(count >= wanted, || format!("{count} pronouns"))
    }))
}

/// Every standard mark, and an interrobang beside the question and exclamation marks.
fn punctuation(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, _| {
        let pair = ["?!", "!?"].into_iter().find_map(|pair| text.split_once(pair));
        let rest = match pair {
            Some((before, after)) => format!("{before} {after}"),
            None if text.contains('‽') => text.to_owned(),
            None => return Finding::NotFollowed("no interrobang".into()),
        };
        match ['.', ',', '!', '?', ';', ':'].into_iter().find(|mark| !rest.contains(*mark)) {
            None => Finding::Followed,
            Some(mark) => Finding::NotFollowed(format!("no \"{mark}\" beside the interrobang")),
        }
    }))
}

/// Every `N`th word holds Japanese characters, and there is one; numbers may stay.
fn words_japanese(args: &Args) -> Result<Check, String> {
    let every = args.positive("N")?;
    Ok(Box::new(move |text, rules| {
        let japanese = |c: char| matches!(c as u32, 0x3040..=0x30FF | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xFF66..=0xFF9F);
        let mut some = rules == Rules::Official;
        for word in text.split_whitespace().skip(every - 1).step_by(every) {
            if word.contains(japanese) {
                some = true;
            } else if !bare(word).is_empty() && !bare(word).chars().all(char::is_numeric) {
                let word: String = word.chars().take(40).collect();
                return Finding::NotFollowed(format!("\"{word}\" is not Japanese"));
            }
        }
        Finding::of(some, || format!("no {every}th word in Japanese"))
    }))
}

/// At least ten palindromes of at least five letters; the same one may come again.
fn palindrome(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, _| {
        let is_palindrome = |word: &str| {
            let letters: Vec<char> = crate::text::letters_and_digits(word).chars().collect();
            letters.len() >= 5
                && letters.iter().all(|c| c.is_alphabetic())
                && letters.iter().eq(letters.iter().rev())
        };
        let count = text.split_whitespace().filter(|word| is_palindrome(word)).count();
        Finding::of(count >= 10, || format!("{count} palindromes"))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_counts_once_however_it_is_written() {
        for (text, count) in [
            ("3.5 kg for 1,200", 2),
            ("1,2,3", 3),
            ("3-4", 2),
            ("1/2 of 10,000.50", 2),
            ("1. First, 2nd", 2),
            ("none", 0),
            ("5.", 1),
        ] {
            assert_eq!(count_numbers(text), count, "{text}");
        }
    }
}

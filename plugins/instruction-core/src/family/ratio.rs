//! `ratio`: parts of a response in proportion to each other.

use super::Build;
use crate::sentence::{Kind, kind, sentences};
use crate::text::{folded, terms, words};
use crate::{Args, Check, Finding, Rules};
use std::collections::HashSet;

pub const CHECKS: &[(&str, Build)] = &[
    ("ratio:stop_words", stop_words),
    ("ratio:sentence_type", sentence_type),
    ("ratio:sentence_balance", sentence_balance),
    ("ratio:overlap", overlap),
    ("ratio:sentence_words", sentence_words),
];

/// English stop words, as NLTK lists them; `don't` is the two words `don` and `t`.
#[rustfmt::skip]
const STOP_WORDS: &[&str] = &[
    "a", "about", "above", "after", "again", "against", "ain", "all", "am", "an", "and", "any", "are", "aren", "as",
    "at", "be", "because", "been", "before", "being", "below", "between", "both", "but", "by", "can", "couldn", "d",
    "did", "didn", "do", "does", "doesn", "doing", "don", "down", "during", "each", "few", "for", "from", "further",
    "had", "hadn", "has", "hasn", "have", "haven", "having", "he", "her", "here", "hers", "herself", "him", "himself",
    "his", "how", "i", "if", "in", "into", "is", "isn", "it", "its", "itself", "just", "ll", "m", "ma", "me", "mightn",
    "more", "most", "mustn", "my", "myself", "needn", "no", "nor", "not", "now", "o", "of", "off", "on", "once",
    "only", "or", "other", "our", "ours", "ourselves", "out", "over", "own", "re", "s", "same", "shan", "she",
    "should", "shouldn", "so", "some", "such", "t", "than", "that", "the", "their", "theirs", "them", "themselves",
    "then", "there", "these", "they", "this", "those", "through", "to", "too", "under", "until", "up", "ve", "very",
    "was", "wasn", "we", "were", "weren", "what", "when", "where", "which", "while", "who", "whom", "why", "will",
    "with", "won", "wouldn", "y", "you", "your", "yours", "yourself", "yourselves",
];

fn stop_words(args: &Args) -> Result<Check, String> {
    let most = args.percentage("percentage")?;
    Ok(Box::new(move |text, _| {
        let lower = text.to_lowercase();
        let total = words(&lower).count();
        if total == 0 {
            return Finding::NotFollowed("no words".into());
        }
        let stops = words(&lower).filter(|word| STOP_WORDS.binary_search(word).is_ok()).count();
        let share = stops as f64 / total as f64 * 100.0;
        Finding::of(share <= most, || format!("{share:.1} % stop words"))
    }))
}

/// How many sentences are declarative, interrogative and exclamatory.
fn kinds(text: &str) -> [usize; 3] {
    let mut counts = [0; 3];
    for sentence in sentences(text) {
        match kind(sentence) {
            Kind::Declarative => counts[0] += 1,
            Kind::Interrogative => counts[1] += 1,
            Kind::Exclamatory => counts[2] += 1,
            Kind::Open => {}
        }
    }
    counts
}

/// Two declarative sentences for each interrogative one, of which there is one at least.
fn sentence_type(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, rules| {
        let [declarative, interrogative, _] = kinds(text);
        let some = interrogative > 0 || rules == Rules::Official;
        Finding::of(some && declarative == 2 * interrogative, || {
            format!("{declarative} declarative, {interrogative} interrogative")
        })
    }))
}

/// As many of each kind, and one at least.
fn sentence_balance(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, rules| {
        let [declarative, interrogative, exclamatory] = kinds(text);
        let even = declarative == interrogative && interrogative == exclamatory;
        Finding::of(even && (declarative > 0 || rules == Rules::Official), || {
            format!("{declarative} declarative, {interrogative} interrogative, {exclamatory} exclamatory")
        })
    }))
}

/// The share of the response's different trigrams of words that the reference has too, within 2 %.
fn overlap(args: &Args) -> Result<Check, String> {
    let (reference, wanted) = (args.text("reference_text")?.to_owned(), args.percentage("percentage")?);
    Ok(Box::new(move |text, rules| {
        let share = match rules {
            Rules::Right => {
                let (text, reference) = (folded(text), folded(&reference));
                share(&terms(&text).collect::<Vec<_>>(), &terms(&reference).collect::<Vec<_>>())
            }
            // Trigrams of characters.
            Rules::Official => {
                share(&text.chars().collect::<Vec<_>>(), &reference.chars().collect::<Vec<_>>())
            }
        };
        match share {
            None => Finding::NotFollowed("fewer than three words".into()),
            Some(share) => {
                Finding::of((share - wanted).abs() <= 2.0 + 1e-9, || format!("{share:.1} % overlap"))
            }
        }
    }))
}

fn share<T: std::hash::Hash + Eq>(own: &[T], reference: &[T]) -> Option<f64> {
    let own: HashSet<&[T]> = own.windows(3).collect();
    let reference: HashSet<&[T]> = reference.windows(3).collect();
    let common = own.intersection(&reference).count();
    (!own.is_empty()).then(|| common as f64 / own.len() as f64 * 100.0)
}

/// Three sentences of as many characters, and no word twice in all of them.
fn sentence_words(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, rules| {
        let sentences = sentences(text);
        let [first, second, third] = sentences[..] else {
            return Finding::NotFollowed(format!("{} sentences", sentences.len()));
        };
        let [a, b, c] = [first, second, third].map(|s| s.chars().count());
        if a != b || b != c {
            return Finding::NotFollowed(format!("{a}, {b} and {c} characters"));
        }
        let lower = folded(text);
        let mut seen = HashSet::new();
        match terms(&lower).find(|term| !seen.insert(*term)) {
            Some(twice) if rules == Rules::Right => Finding::NotFollowed(format!("\"{twice}\" twice")),
            _ => Finding::Followed,
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_words_are_sorted_for_the_search() {
        assert!(STOP_WORDS.is_sorted());
    }
}

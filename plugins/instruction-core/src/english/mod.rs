//! What English words are like: how many syllables, and whether one can be a verb.
//!
//! Rules, and sorted lists of the words that the rules get wrong. `syllables.txt` compares the rule with
//! the CMU Pronouncing Dictionary; `verbs.txt` follows the tags of the Penn Treebank.

/// Whether a word has an odd or an even number of syllables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parity {
    /// 1, 3, …
    Odd,
    /// 2, 4, …
    Even,
    /// It is spoken in both ways.
    Either,
}

/// One word a line, sorted, then `!` where the rule has the wrong parity and `~` where either is right.
const SYLLABLES: &str = include_str!("syllables.txt");

/// One base form or irregular form a line, sorted, then `?` where it is more often a noun or an adjective.
const VERBS: &str = include_str!("verbs.txt");

/// The mark behind `word` in a sorted list; `None` when it is not there.
fn mark<'a>(list: &'a str, word: &str) -> Option<&'a str> {
    let (mut from, mut to) = (0, list.len());
    while from < to {
        let middle = (from + to) / 2;
        let start = list[..middle].rfind('\n').map_or(0, |at| at + 1).max(from);
        let end = list[start..].find('\n').map_or(list.len(), |at| start + at);
        let line = &list[start..end];
        let known = line.trim_end_matches(['!', '~', '?']);
        match known.cmp(word) {
            std::cmp::Ordering::Equal => return Some(&line[known.len()..]),
            std::cmp::Ordering::Less => from = end + 1,
            std::cmp::Ordering::Greater => to = start,
        }
    }
    None
}

/// The parity of a word in small ASCII letters. A single letter is spoken as its name.
pub fn syllables(word: &str) -> Parity {
    let count = rule(word);
    match (mark(SYLLABLES, word), count % 2) {
        (Some("~"), _) => Parity::Either,
        (Some(_), 0) | (None, 1) => Parity::Odd,
        _ => Parity::Even,
    }
}

/// Syllables by groups of vowels, silent endings and the commonest hiatuses.
pub fn rule(word: &str) -> usize {
    let letters: Vec<u8> = word.bytes().filter(u8::is_ascii_lowercase).collect();
    let vowel = |c: u8| b"aeiouy".contains(&c);
    let mut count = 0;
    let mut before = false;
    for (at, &c) in letters.iter().enumerate() {
        // A y in front of a vowel is a consonant.
        let is_vowel =
            vowel(c) && !(c == b'y' && letters.get(at + 1).is_some_and(|&next| b"aeiou".contains(&next)));
        count += usize::from(is_vowel && !before);
        before = is_vowel;
    }
    let has = |ending: &[u8]| letters.ends_with(ending);
    let consonant_at = |back: usize| letters.len().checked_sub(back).is_some_and(|at| !vowel(letters[at]));
    // Silent endings.
    let silent = (has(b"e") && consonant_at(2) && !(has(b"le") && consonant_at(3)))
        || (has(b"ed")
            && consonant_at(3)
            && !has(b"ted")
            && !has(b"ded")
            && !(has(b"led") && consonant_at(4)))
        || (has(b"es")
            && consonant_at(3)
            && ![&b"ses"[..], b"xes", b"zes", b"ches", b"shes", b"ces", b"ges"].iter().any(|e| has(e))
            && !(has(b"les") && consonant_at(4)))
        || (has(b"ely") && count > 2)
        || (has(b"eful") || has(b"eless") || has(b"ement") || has(b"eness")) && count > 2;
    count -= usize::from(silent && count > 1);
    // Two vowels that are spoken apart.
    for pair in letters.windows(3) {
        let apart = matches!(pair, [b'i', b'a', x] if !b"l".contains(x))
            || matches!(pair, [_, b'i', b'o'] if !b"tscgn".contains(&pair[0]))
            || matches!(pair, [b'e', b'o', b'l' | b'd' | b'm' | b'g'])
            || matches!(pair, [b'u', b'o' | b'a', b'u' | b'l' | b'r' | b't'] if pair[1] != b'a' || pair[2] != b'r')
            || matches!(pair, [b'i', b'e', b't' | b'n'])
            || pair == b"uou"
            || pair == b"ius"
            || pair == b"ium"
            || pair == b"yin"
            || pair == b"ein"
            || pair == b"ism"
            || pair == b"eat" && has(b"eate");
        count += usize::from(apart);
    }
    count += usize::from(has(b"ia") || has(b"io") || has(b"eo"));
    count.max(1)
}

/// Whether a text begins with a verb.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// It does.
    Yes,
    /// It does not.
    No,
    /// The word may be a noun or a verb, and what follows does not tell.
    Perhaps,
}

/// Words behind which an ambiguous first word is a verb: what it acts on, or how.
#[rustfmt::skip]
const BEHIND_VERBS: &[&str] = &[
    "a", "about", "all", "an", "any", "at", "away", "back", "both", "by", "carefully", "down", "each", "every", "for",
    "from", "her", "him", "his", "how", "if", "in", "into", "it", "its", "me", "my", "no", "off", "on", "onto", "our",
    "out", "over", "some", "that", "the", "their", "them", "these", "this", "those", "through", "to", "together", "up",
    "us", "what", "when", "where", "whether", "with", "your", "yourself",
];

/// Decides by the first word, and by the next one where the first can be a noun as well.
pub fn begins_with_verb(first: &str, next: Option<&str>) -> Verb {
    let first = crate::text::folded(first);
    // `let's`, `don't`, `it's`: the part before the apostrophe.
    let word = first.split('\'').next().unwrap_or("");
    let word = if first.ends_with("n't") { word.strip_suffix('n').unwrap_or(word) } else { word };
    if !word.is_ascii() {
        return Verb::No;
    }
    let ambiguous = match mark(VERBS, word) {
        Some("") => return Verb::Yes,
        Some(_) => true,
        // An inflected form: its base decides.
        None => match bases(word).iter().find_map(|base| mark(VERBS, base)) {
            None => return Verb::No,
            Some(_) if word.ends_with("ing") || word.ends_with("ed") => return Verb::Yes,
            Some(_) => true,
        },
    };
    let telling = next.is_some_and(|next| BEHIND_VERBS.contains(&crate::text::folded(next).as_str()));
    match ambiguous && !telling {
        true => Verb::Perhaps,
        false => Verb::Yes,
    }
}

/// What a regular form may be formed from.
fn bases(word: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (ending, restored) in [
        ("ing", &["", "e"][..]),
        ("ied", &["y"]),
        ("ed", &["", "e"]),
        ("ies", &["y"]),
        ("es", &["", "e"]),
        ("s", &[""]),
    ] {
        let Some(stem) = word.strip_suffix(ending).filter(|stem| stem.len() >= 2) else { continue };
        found.extend(restored.iter().map(|end| format!("{stem}{end}")));
        let bytes = stem.as_bytes();
        if ending != "s" && bytes[bytes.len() - 1] == bytes[bytes.len() - 2] {
            found.push(stem[..stem.len() - 1].to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_sorted_as_the_search_needs() {
        for list in [SYLLABLES, VERBS] {
            let words: Vec<&str> = list.lines().map(|line| line.trim_end_matches(['!', '~', '?'])).collect();
            assert!(words.is_sorted_by(|a, b| a < b));
            for word in words {
                assert!(mark(list, word).is_some(), "{word}");
            }
            assert_eq!(mark(list, "zzzz"), None);
            assert_eq!(mark(list, "aaaaaa"), None);
        }
    }

    #[test]
    fn syllables_follow_the_dictionary() {
        for (word, parity) in [
            ("a", Parity::Odd),
            ("the", Parity::Odd),
            ("every", Parity::Either),
            ("water", Parity::Even),
            ("beautiful", Parity::Odd),
            ("people", Parity::Even),
            ("area", Parity::Odd),
            ("science", Parity::Even),
            ("walked", Parity::Odd),
            ("wanted", Parity::Even),
            ("idea", Parity::Odd),
            ("business", Parity::Even),
            ("table", Parity::Even),
            ("created", Parity::Odd),
        ] {
            assert_eq!(syllables(word), parity, "{word}");
        }
    }

    #[test]
    fn a_first_word_is_a_verb_or_not_or_may_be() {
        for (first, next, verb) in [
            ("Consider", Some("the"), Verb::Yes),
            ("Is", Some("it"), Verb::Yes),
            ("Don't", Some("go"), Verb::Yes),
            ("Running", Some("fast"), Verb::Yes),
            ("Plan", Some("your"), Verb::Yes),
            ("Water", Some("boils"), Verb::Perhaps),
            ("The", Some("cat"), Verb::No),
            ("Quantum", Some("physics"), Verb::No),
            ("Once", Some("upon"), Verb::No),
            ("Élan", None, Verb::No),
        ] {
            assert_eq!(begins_with_verb(first, next), verb, "{first} {next:?}");
        }
    }
}

//! What a judge may say, and what that is worth.

use crate::word::{Word, is_end, is_number};

/// What a judge may say.
#[derive(Clone, Debug, PartialEq)]
pub enum Scale {
    /// Pass or fail, or which of two responses is better, whatever the judge says.
    Auto,
    /// Pass is 1, fail 0.
    Binary,
    /// The response is A and the reference B: A is 1, B 0, a tie 0.5.
    Pairwise,
    /// 0 to a maximum; worth its part of the maximum.
    Score(f64),
    /// Any number between two; worth itself.
    Range(f64, f64),
    /// Some numbers; worth themselves.
    Ratings(Vec<f64>),
    /// Names with what each is worth.
    Labels(Vec<(String, f64)>),
}

/// A verdict as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// In the scale's own words.
    pub note: String,
    /// What it is worth.
    pub reward: f64,
}

/// What stands at some place of a reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Read {
    /// Nothing of the scale.
    Nothing,
    /// A verdict of so many words.
    Verdict(Verdict, usize),
    /// Something like a verdict that is none: out of range, half, or several at once.
    Unclear,
}

const PASS: [&str; 21] = [
    "pass",
    "passed",
    "passes",
    "correct",
    "right",
    "success",
    "successful",
    "successfully",
    "succeeded",
    "succeeds",
    "yes",
    "true",
    "accept",
    "accepted",
    "acceptable",
    "valid",
    "equivalent",
    "matches",
    "matching",
    "satisfied",
    "1",
];
const FAIL: [&str; 22] = [
    "fail",
    "failed",
    "fails",
    "failure",
    "failing",
    "incorrect",
    "incorrectly",
    "wrong",
    "unsuccessful",
    "unsuccessfully",
    "no",
    "false",
    "reject",
    "rejected",
    "unacceptable",
    "invalid",
    "inequivalent",
    "mismatch",
    "mismatched",
    "inaccurate",
    "unsatisfied",
    "0",
];
/// Words that are verdicts where one is announced, and anything in prose.
const ONLY_ANNOUNCED: [&str; 16] = [
    "right",
    "yes",
    "true",
    "no",
    "false",
    "1",
    "0",
    "matches",
    "matching",
    "acceptable",
    "accept",
    "reject",
    "successfully",
    "unsuccessfully",
    "incorrectly",
    "mismatch",
];
const NOT: [&str; 14] = [
    "not",
    "isn't",
    "isn’t",
    "isnt",
    "never",
    "doesn't",
    "doesn’t",
    "didn't",
    "didn’t",
    "wasn't",
    "wasn’t",
    "does",
    "did",
    "non",
];
const HALF: [&str; 11] = [
    "partially",
    "partly",
    "mostly",
    "almost",
    "nearly",
    "half",
    "somewhat",
    "largely",
    "partial",
    "mixed",
    "semi",
];
/// What may stand between the negation and what it negates.
const BETWEEN: [&str; 9] = ["a", "an", "be", "been", "fully", "entirely", "completely", "quite", "not"];
/// What may stand before the letter of a response.
const RESPONDENTS: [&str; 7] = ["assistant", "response", "answer", "option", "model", "candidate", "choice"];
/// What may follow `yes` and `no` within a sentence.
const BECAUSE: [&str; 8] = ["because", "since", "as", "the", "it", "this", "they", "there"];

impl Scale {
    /// The verdict at the beginning of `words`.
    pub fn read(&self, words: &[Word<'_>], formal: bool) -> Read {
        let read = match self {
            Scale::Auto => match binary(words, true) {
                Read::Nothing => pairwise(words, formal),
                read => read,
            },
            Scale::Binary => binary(words, true),
            Scale::Pairwise => pairwise(words, formal),
            Scale::Score(max) => number(words, Some(*max), |v| {
                let part = v / max;
                (0.0..=*max).contains(&v).then(|| Verdict { note: format!("{part:?}"), reward: part })
            }),
            Scale::Range(low, high) => {
                number(words, Some(*high), |v| (*low..=*high).contains(&v).then(|| itself(v)))
            }
            Scale::Ratings(ratings) => {
                let most = ratings.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                number(words, Some(most), |v| ratings.contains(&v).then(|| itself(v)))
            }
            Scale::Labels(labels) => labelled(words, labels),
        };
        match &read {
            // A judge that repeats the choices has made none.
            Read::Verdict(verdict, used) => match self.alternative(&words[*used..], formal) {
                Some(other) if other != *verdict => Read::Unclear,
                _ => read,
            },
            _ => read,
        }
    }

    /// The verdict in prose: words that only mean one where it is announced are left out.
    pub fn read_in_prose(&self, words: &[Word<'_>]) -> Read {
        match self {
            Scale::Auto | Scale::Binary => match binary(words, false) {
                Read::Verdict(verdict, used) => match self.alternative(&words[used..], false) {
                    Some(other) if other != verdict => Read::Unclear,
                    _ => Read::Verdict(verdict, used),
                },
                read => read,
            },
            Scale::Labels(labels) => {
                let long: Vec<_> =
                    labels.iter().filter(|(name, _)| name.chars().count() > 1).cloned().collect();
                labelled(words, &long)
            }
            _ => Read::Nothing,
        }
    }

    /// Whether verdicts are words, so that a sentence can be searched for them.
    pub fn is_words(&self) -> bool {
        matches!(self, Scale::Auto | Scale::Binary | Scale::Labels(_))
    }

    /// The maximum that a fraction's lower number names.
    pub fn most(&self) -> Option<f64> {
        match self {
            Scale::Score(most) | Scale::Range(_, most) => Some(*most),
            Scale::Ratings(ratings) => Some(ratings.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
            _ => None,
        }
    }

    /// `or B`, `/B` behind a verdict.
    fn alternative(&self, words: &[Word<'_>], formal: bool) -> Option<Verdict> {
        let first = words.first()?;
        if !(first.text == "/" || first.text == "|" || first.is("or")) {
            return None;
        }
        let other = match self {
            Scale::Auto => match binary(&words[1..], true) {
                Read::Nothing => pairwise(&words[1..], formal),
                read => read,
            },
            Scale::Binary => binary(&words[1..], true),
            Scale::Pairwise => pairwise(&words[1..], formal),
            Scale::Labels(labels) => labelled(&words[1..], labels),
            _ => number(&words[1..], None, |v| Some(itself(v))),
        };
        match other {
            Read::Verdict(verdict, _) => Some(verdict),
            _ => None,
        }
    }
}

fn itself(value: f64) -> Verdict {
    Verdict { note: value.to_string(), reward: value }
}

fn passed(passed: bool) -> Verdict {
    let (note, reward) = if passed { ("pass", 1.0) } else { ("fail", 0.0) };
    Verdict { note: note.into(), reward }
}

fn binary(words: &[Word<'_>], announced: bool) -> Read {
    let Some(first) = words.first() else { return Read::Nothing };
    if first.is_one_of(&HALF) {
        let next = words[1..].iter().find(|w| !matches!(w.text, "-" | "–"));
        let what = next.is_some_and(|w| w.is_one_of(&PASS) || w.is_one_of(&FAIL));
        return if what || announced { Read::Unclear } else { Read::Nothing };
    }
    if first.is_one_of(&NOT) {
        let skipped = words[1..].iter().take_while(|w| w.is_one_of(&BETWEEN) || w.text == "-").count();
        return match words.get(1 + skipped) {
            // `does` negates only with `not` behind it.
            Some(_) if (first.is("does") || first.is("did")) && !words[1].is("not") => Read::Nothing,
            Some(w) if w.is_one_of(&PASS) || w.is("match") || w.is("succeed") => {
                Read::Verdict(passed(false), skipped + 2)
            }
            // `not incorrect` may be anything.
            Some(w) if w.is_one_of(&FAIL) => Read::Unclear,
            Some(w) if w.is_one_of(&HALF) => Read::Unclear,
            _ => Read::Nothing,
        };
    }
    let pass = first.is_one_of(&PASS);
    if !pass && !first.is_one_of(&FAIL) {
        return Read::Nothing;
    }
    if !announced && first.is_one_of(&ONLY_ANNOUNCED) {
        return Read::Nothing;
    }
    // `no errors`, `1 point`, `true to form`: not verdicts.
    let single = ["yes", "no", "true", "false", "1", "0", "right"].iter().any(|s| first.is(s));
    let alone = |next: &Word<'_>| is_end(next) || !next.is_word() || next.is_one_of(&BECAUSE);
    if single && !words.get(1).is_none_or(alone) {
        return Read::Nothing;
    }
    // `1.5`, `0/3` and `1 of 3` are numbers of another scale.
    let counts = |next: &Word<'_>| matches!(next.text, "/" | "%") || next.is("of") || next.is("out");
    if is_number(first) && words.get(1).is_some_and(counts) {
        return Read::Unclear;
    }
    Read::Verdict(passed(pass), 1)
}

fn pairwise(words: &[Word<'_>], formal: bool) -> Read {
    let skipped = words.iter().take_while(|w| w.is_one_of(&RESPONDENTS)).count();
    let Some(word) = words.get(skipped) else { return Read::Nothing };
    let verdict = |note: &str, reward| Read::Verdict(Verdict { note: note.into(), reward }, skipped + 1);
    if let Some(read) = compared(&words[skipped..], skipped) {
        return read;
    }
    match word.text {
        // A letter followed by a word is an article, unless brackets say otherwise.
        "A" if formal || skipped > 0 || words.get(skipped + 1).is_none_or(is_end) => verdict("A", 1.0),
        "A" if words.get(skipped + 1).is_some_and(|w| !w.is_word() || w.is("is")) => verdict("A", 1.0),
        "B" => verdict("B", 0.0),
        "C" if formal => verdict("tie", 0.5),
        _ if ["tie", "tied", "draw", "equal", "neither"].iter().any(|t| word.is(t)) => verdict("tie", 0.5),
        _ => Read::Nothing,
    }
}

/// `A>B`, `B>>A`, `A=B`.
fn compared(words: &[Word<'_>], skipped: usize) -> Option<Read> {
    let (first, sign) = (words.first()?.text, words.get(1)?.text);
    let signs = words[1..].iter().take_while(|w| w.text == sign).count();
    let second = words.get(1 + signs)?.text;
    let (note, reward) = match (first, sign, second) {
        ("A", ">", "B") | ("B", "<", "A") => ("A", 1.0),
        ("B", ">", "A") | ("A", "<", "B") => ("B", 0.0),
        ("A", "=" | "≈", "B") | ("B", "=" | "≈", "A") => ("tie", 0.5),
        _ => return None,
    };
    Some(Read::Verdict(Verdict { note: note.into(), reward }, skipped + 2 + signs))
}

/// A number with its own maximum, if it says one; `most` is the scale's.
fn number(words: &[Word<'_>], most: Option<f64>, scale: impl Fn(f64) -> Option<Verdict>) -> Read {
    let Some(value) = words.first().filter(|w| is_number(w)).and_then(|w| w.text.parse::<f64>().ok()) else {
        return Read::Nothing;
    };
    let rest = &words[1..];
    let text = |i: usize| rest.get(i).map_or("", |w| w.text);
    let is = |i: usize, name: &str| rest.get(i).is_some_and(|w| w.is(name));
    let lower = match () {
        () if text(0) == "/" => Some(1),
        () if is(0, "out") && is(1, "of") => Some(2),
        () if is(0, "of") => Some(1),
        () => None,
    };
    let mut used = 1;
    if text(0) == "%" || is(0, "percent") {
        // Percent of another maximum are another scale's.
        if most.is_some_and(|most| most != 100.0) {
            return Read::Unclear;
        }
        used = 2;
    } else if let Some(at) = lower {
        let named = rest.get(at).filter(|w| is_number(w)).and_then(|w| w.text.parse::<f64>().ok());
        match (named, most) {
            (Some(named), Some(most)) if named == most => used = at + 2,
            (Some(_), Some(_)) => return Read::Unclear,
            _ if text(0) == "/" => return Read::Unclear,
            _ => {}
        }
    } else if (matches!(text(0), "-" | "–" | "~") || is(0, "to")) && rest.get(1).is_some_and(is_number) {
        return Read::Unclear;
    }
    match scale(value) {
        Some(verdict) => Read::Verdict(verdict, used),
        None => Read::Unclear,
    }
}

/// The longest label at the beginning of `words`; one letter must have its own case.
fn labelled(words: &[Word<'_>], labels: &[(String, f64)]) -> Read {
    let matches = |label: &str| -> Option<usize> {
        let parts = crate::word::words(label);
        let parts: Vec<&Word<'_>> = parts.iter().filter(|p| !is_end(p)).collect();
        let exact = label.chars().count() == 1;
        let fits = parts.len() <= words.len()
            && parts.iter().zip(words).all(|(p, w)| if exact { p.text == w.text } else { p.is(w.text) });
        (fits && !parts.is_empty()).then_some(parts.len())
    };
    let longest = |words_matched: &dyn Fn(&str) -> Option<usize>| {
        let found = labels.iter().filter_map(|(name, worth)| Some((words_matched(name)?, name, *worth)));
        found.max_by_key(|(used, ..)| *used)
    };
    if let Some((used, name, worth)) = longest(&matches) {
        return Read::Verdict(Verdict { note: name.clone(), reward: worth }, used);
    }
    let Some(first) = words.first() else { return Read::Nothing };
    // `not X` where there are two labels is the other one.
    if first.is("not") || first.is("isn't") {
        let negated = labelled(&words[1..], labels);
        return match (negated, labels) {
            (Read::Verdict(verdict, used), [one, two]) => {
                let (name, worth) = if verdict.note == one.0 { two } else { one };
                Read::Verdict(Verdict { note: name.clone(), reward: *worth }, used + 1)
            }
            (Read::Nothing, _) => Read::Nothing,
            _ => Read::Unclear,
        };
    }
    if first.is_one_of(&RESPONDENTS) {
        return match labelled(&words[1..], labels) {
            Read::Verdict(verdict, used) => Read::Verdict(verdict, used + 1),
            read => read,
        };
    }
    Read::Nothing
}

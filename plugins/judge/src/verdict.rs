//! Where a reply says its verdict.
//!
//! Judges think aloud, quote the rubric, weigh both sides and then decide. So a verdict is looked for where
//! one is meant, and the last one counts:
//!
//! 1. Reasoning (`<think>…</think>`) is cut off; reasoning that never ends holds no verdict.
//! 2. A JSON object with a field for a verdict decides.
//! 3. Announced: `Verdict: …`, `The final grade is …`, `Score = …`, and of those the ones that call
//!    themselves final or overall. One that announces nothing of the scale makes the reply unscorable, it is
//!    not passed over for an earlier one.
//! 4. Marked: `[[B]]`, `\boxed{…}`, `<verdict>…</verdict>`, `7/10`, a last line or
//!    sentence that is nothing but a verdict.
//!    Among 3 and 4 the last in the text counts.
//! 5. Words are whole words with their negation: INCORRECT holds no CORRECT, NOT SUCCESS is no success.
//! 6. Without any of these: the reply's first word, and plain sentences that neither hedge nor ask, as far
//!    as they agree.
//!
//! What remains is no verdict. It is never guessed, and never taken for a bad one.

use crate::json;
use crate::scale::{Read, Scale, Verdict};
use crate::word::{Word, is_end, is_number, without_marks, words};

/// Words that announce a verdict; the first ones do even where nothing of the scale follows.
const KEYS: [&str; 25] = [
    "verdict",
    "judgement",
    "judgment",
    "decision",
    "score",
    "rating",
    "grade",
    "rate",
    "graded",
    "scored",
    "rated",
    "final",
    "result",
    "outcome",
    "answer",
    "conclusion",
    "evaluation",
    "assessment",
    "label",
    "classification",
    "choice",
    "winner",
    "overall",
    "total",
    "preference",
];
const STRICT: usize = 7;
/// Keys whose value is yes or no.
const QUESTIONS: [&str; 9] = [
    "correct",
    "is_correct",
    "passed",
    "pass",
    "success",
    "equivalent",
    "match",
    "correctness",
    "is_equivalent",
];
/// Between the key and its verdict: signs that announce, and words that do when they follow the key.
const SIGNS: [&str; 8] = [":", "=", "→", "⇒", "|", "：", "–", "—"];
const VERBS: [&str; 6] = ["is", "was", "of", "as", "be", "would"];
/// What may stand between a key and its colon.
const BETWEEN: [&str; 19] = [
    "out",
    "of",
    "on",
    "a",
    "the",
    "scale",
    "from",
    "to",
    "between",
    "and",
    "for",
    "this",
    "response",
    "answer",
    "overall",
    "final",
    "points",
    "quality",
    "candidate",
];
const FILLERS: [&str; 14] = [
    "a",
    "an",
    "the",
    "is",
    "be",
    "therefore",
    "thus",
    "clearly",
    "definitely",
    "just",
    "simply",
    "only",
    "about",
    "\"",
];
/// A sentence with one of these weighs, it does not decide.
const HEDGES: [&str; 19] = [
    "would",
    "should",
    "could",
    "might",
    "may",
    "maybe",
    "perhaps",
    "possibly",
    "seems",
    "seem",
    "appears",
    "suggests",
    "initially",
    "although",
    "though",
    "however",
    "but",
    "yet",
    "expected",
];
/// A sentence with one of these asks, or gives up.
const UNDECIDED: [&str; 15] = [
    "if",
    "whether",
    "unless",
    "cannot",
    "can't",
    "can’t",
    "can",
    "unable",
    "unclear",
    "unsure",
    "sure",
    "sorry",
    "determine",
    "either",
    "while",
];
/// `the correct answer` speaks of another answer than the judged one.
const REFERENCED: [&str; 14] = [
    "answer", "value", "solution", "result", "response", "option", "choice", "label", "number", "one",
    "formula", "method", "output", "final",
];
/// Words that a judge rates with.
const RATES: [&str; 10] =
    ["give", "gives", "assign", "award", "deserves", "earns", "rate", "rates", "giving", "merits"];
/// Words that a judge chooses with.
const CHOOSES: [&str; 7] = ["choose", "chose", "pick", "select", "prefer", "selected", "picked"];
const BETTER: [&str; 6] = ["better", "best", "superior", "preferable", "stronger", "winner"];
/// Marks around a verdict, as `<verdict>pass</verdict>`.
const TAGS: [&str; 8] =
    ["verdict", "score", "rating", "grade", "judgement", "judgment", "decision", "answer"];

/// A verdict, or something like one, at a place of the reply.
struct Found {
    at: usize,
    /// Final beats plain, announced and marked beats either alone.
    rank: u8,
    /// `None` where something else was announced.
    verdict: Option<Verdict>,
}

/// The verdict of a reply, or why there is none.
pub fn verdict(reply: &str, scale: &Scale) -> Result<Verdict, &'static str> {
    let reply = answer_text::behind_reasoning(reply).map_err(|_| "the judge's reasoning never ends")?;
    if reply.trim().is_empty() {
        return Err("the judge said nothing");
    }
    if let Some(read) = json::find(reply, scale) {
        return read;
    }
    let plain = without_marks(reply);
    let all = words(&plain);
    let mut found = announced(reply, &all, scale);
    found.extend(marked(reply, scale));
    found.extend(fractions(&all, scale));
    found.extend(given(&all, scale));
    found.extend(chosen(&all, scale));
    found.extend(last_line(&all, scale));
    let best = found.iter().map(|f| f.rank).max();
    let last = found.into_iter().filter(|f| Some(f.rank) == best).max_by_key(|f| f.at);
    match last {
        Some(Found { verdict: Some(verdict), .. }) => Ok(verdict),
        Some(_) => Err("what the judge announces is none of the scale"),
        None => in_prose(&all, scale),
    }
}

/// `Verdict: X`, `the final grade is X`, `Score (0-10): X`, and a heading with X on the line below.
fn announced(reply: &str, all: &[Word<'_>], scale: &Scale) -> Vec<Found> {
    let mut found = Vec::new();
    for (i, word) in all.iter().enumerate() {
        let key = KEYS.iter().position(|key| word.is(key));
        let strict = key.is_some_and(|key| key < STRICT);
        let last = word.is("final") || word.is("overall") || word.is("total");
        let question = word.is_one_of(&QUESTIONS) && matches!(scale, Scale::Auto | Scale::Binary);
        // `Answer: 7` is the answer, not its score.
        if !(strict || last || question || key.is_some() && scale.most().is_none()) {
            continue;
        }
        let next = all.get(i + 1);
        let is_sign = |w: &Word<'_>| SIGNS.contains(&w.text) || w.text == "-";
        let sign = next.is_some_and(is_sign);
        // `the answer is correct` is prose, which comes later.
        let verb = strict && next.is_some_and(|n| n.is_one_of(&VERBS)) && decides(&all[..i]);
        let heading = next.is_none_or(|n| n.text == "\n") && starts_line(all, i);
        let (mut from, mut read) = (i, Read::Nothing);
        if sign || verb || heading {
            let skipped = all[i + 1..].iter().take_while(|w| is_sign(w) || w.is_one_of(&VERBS));
            from = i + 1 + skipped.count();
            // The value may stand on the line below its announcement.
            if sign || heading {
                from += all[from..].iter().take_while(|w| w.text == "\n").count();
            }
            read = value(&all[from..], scale, question, decorated(reply, all.get(from)));
        }
        if strict
            && !sign
            && let Some(colon) = far_sign(&all[i + 1..])
        {
            let behind = i + 1 + colon + 1;
            let further = value(&all[behind..], scale, false, decorated(reply, all.get(behind)));
            if matches!(further, Read::Verdict(..)) {
                (from, read) = (behind, further);
            }
        }
        let verdict = match read {
            Read::Verdict(verdict, _) => Some(verdict),
            Read::Unclear if sign => None,
            Read::Nothing if strict && sign => None,
            _ => continue,
        };
        let before = all[..i].iter().rev().take(2).any(|w| w.is_one_of(&["final", "overall", "total"]));
        let rank = match strict || last {
            true => 1 + u8::from(last || before) * 2 + u8::from(decorated(reply, all.get(from))),
            false => u8::from(question || decorated(reply, all.get(from))),
        };
        found.push(Found { at: word.at, rank, verdict });
    }
    found
}

/// The colon of `Score for this response (0 to 10):`.
fn far_sign(words: &[Word<'_>]) -> Option<usize> {
    let between =
        |w: &Word<'_>| is_number(w) || w.is_one_of(&BETWEEN) || matches!(w.text, "-" | "–" | "/" | "~" | ",");
    let skipped = words.iter().take(12).take_while(|w| between(w)).count();
    (skipped > 0 && words.get(skipped).is_some_and(|w| matches!(w.text, ":" | "="))).then_some(skipped)
}

/// Whether the sentence that ends with these words, so far, neither asks nor gives up.
fn decides(words: &[Word<'_>]) -> bool {
    !words.iter().rev().take_while(|w| !is_end(w)).any(|w| w.is_one_of(&UNDECIDED))
}

fn at_first(sentence: &[Word<'_>]) -> bool {
    sentence.windows(2).any(|pair| pair[0].is("at") && pair[1].is("first"))
}

/// Whether the word stands in double brackets or a box.
fn decorated(reply: &str, word: Option<&Word<'_>>) -> bool {
    let before = word.and_then(|w| reply.get(..w.at)).map(|b| b.trim_end_matches(['*', ' ', '"', '`']));
    before.is_some_and(|b| b.ends_with("[[") || b.ends_with("\\boxed{") || b.ends_with("\\boxed{\\text{"))
}

/// Only marks and adjectives stand before the word in its line.
fn starts_line(all: &[Word<'_>], i: usize) -> bool {
    let line = all[..i].iter().rev().take_while(|w| w.text != "\n");
    line.take(4).all(|w| w.is_one_of(&["final", "overall", "my", "the"]) || is_number(w) || w.text == ".")
}

/// What is announced: right there, or in the rest of the sentence where that is of one mind.
fn value(words: &[Word<'_>], scale: &Scale, question: bool, formal: bool) -> Read {
    // Not before an article: `A` may be the verdict.
    match scale.read(words, formal) {
        Read::Nothing => {}
        Read::Verdict(_, _) if question && !words[0].is_one_of(&["yes", "no", "true", "false", "1", "0"]) => {
            return Read::Nothing;
        }
        read => return read,
    }
    if question {
        return Read::Nothing;
    }
    let skipped = words.iter().take_while(|w| w.is_one_of(&FILLERS)).count();
    match scale.read(&words[skipped..], formal) {
        Read::Nothing => {}
        read => return read,
    }
    if !scale.is_words() {
        return Read::Nothing;
    }
    let end = words.iter().position(is_end).unwrap_or(words.len());
    let sentence = &words[..end];
    match agreed(sentence, scale) {
        Some(Ok(verdict)) => Read::Verdict(verdict, end),
        Some(Err(())) => Read::Unclear,
        None => Read::Nothing,
    }
}

/// The one verdict of a sentence; an error where it holds several, or half of one.
fn agreed(sentence: &[Word<'_>], scale: &Scale) -> Option<Result<Verdict, ()>> {
    let mut verdict: Option<Verdict> = None;
    let mut i = 0;
    while i < sentence.len() {
        if refers(sentence, i) {
            i += 1;
            continue;
        }
        match scale.read_in_prose(&sentence[i..]) {
            Read::Nothing => i += 1,
            Read::Unclear => return Some(Err(())),
            Read::Verdict(found, used) => {
                if verdict.as_ref().is_some_and(|before| *before != found) {
                    return Some(Err(()));
                }
                verdict = Some(found);
                i += used;
            }
        }
    }
    verdict.map(Ok)
}

/// `the correct answer`: not the judged one.
fn refers(sentence: &[Word<'_>], i: usize) -> bool {
    let article = i > 0 && sentence[i - 1].is_one_of(&["the", "a", "any", "correct"]);
    let good = sentence[i].is_one_of(&["correct", "right", "valid", "accepted"]);
    let of_the = i > 0 && sentence[i - 1].is("the");
    let noun = sentence.get(i + 1).is_some_and(|w| w.is_one_of(&REFERENCED));
    article && of_the && good && noun
}

/// `[[X]]`, `\boxed{X}`, `<verdict>X</verdict>`.
fn marked(reply: &str, scale: &Scale) -> Vec<Found> {
    let mut inside: Vec<(usize, &str)> = Vec::new();
    for (at, _) in reply.match_indices("[[") {
        if let Some(end) = reply[at + 2..].find("]]").filter(|end| *end <= 100) {
            inside.push((at, &reply[at + 2..at + 2 + end]));
        }
    }
    for boxed in answer_text::boxes(reply) {
        inside.extend(boxed.inside.map(|text| (boxed.start, text)));
    }
    let lower = reply.to_ascii_lowercase();
    for tag in TAGS {
        let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
        for (at, _) in lower.match_indices(&open) {
            let from = at + open.len();
            if let Some(end) = lower[from..].find(&close) {
                inside.push((at, &reply[from..from + end]));
            }
        }
    }
    let read = |(at, text): (usize, &str)| {
        let plain = without_marks(text);
        let all = words(plain.trim());
        match scale.read(&all, true) {
            Read::Verdict(verdict, _) => Some(Found { at, rank: 1, verdict: Some(verdict) }),
            // A box may hold anything; brackets that hold a number hold a rating.
            Read::Unclear => Some(Found { at, rank: 1, verdict: None }),
            Read::Nothing => None,
        }
    };
    inside.into_iter().filter_map(read).collect()
}

/// `7/10` and `7 out of 10`, where the maximum is the scale's.
fn fractions(all: &[Word<'_>], scale: &Scale) -> Vec<Found> {
    let Some(most) = scale.most() else { return Vec::new() };
    let is_most = |word: Option<&Word<'_>>| {
        word.filter(|w| is_number(w)).and_then(|w| w.text.parse::<f64>().ok()) == Some(most)
    };
    let mut found = Vec::new();
    for (i, word) in all.iter().enumerate().filter(|(_, w)| is_number(w)) {
        let text = |k: usize| all.get(i + k).map_or("", |w| w.text);
        let whole = (text(1) == "/" && is_most(all.get(i + 2)))
            || (text(1).eq_ignore_ascii_case("out")
                && text(2).eq_ignore_ascii_case("of")
                && is_most(all.get(i + 3)));
        if whole {
            let verdict = match scale.read(&all[i..], false) {
                Read::Verdict(verdict, _) => Some(verdict),
                _ => None,
            };
            found.push(Found { at: word.at, rank: 1, verdict });
        }
    }
    found
}

/// `I give it an 8.`: the lone number at the end of a plain sentence that rates.
fn given(all: &[Word<'_>], scale: &Scale) -> Vec<Found> {
    if scale.most().is_none() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (end, sentence) in sentences(all) {
        let rates = |w: &Word<'_>| w.is_one_of(&RATES) || KEYS[..STRICT].iter().any(|key| w.is(key));
        let Some(from) = sentence.iter().position(rates) else { continue };
        let weighs = sentence.iter().any(|w| w.is_one_of(&HEDGES)) || end == "?" || !decides(sentence);
        let mut numbers = sentence[from..].iter().enumerate().filter(|(_, w)| is_number(w));
        let (Some((at, word)), None) = (numbers.next(), numbers.next()) else { continue };
        if weighs || from + at + 1 != sentence.len() {
            continue;
        }
        if let Read::Verdict(verdict, _) = scale.read(&sentence[from + at..], false) {
            found.push(Found { at: word.at, rank: 1, verdict: Some(verdict) });
        }
    }
    found
}

/// `I choose B`, `Response B is better`.
fn chosen(all: &[Word<'_>], scale: &Scale) -> Vec<Found> {
    if !matches!(scale, Scale::Auto | Scale::Pairwise | Scale::Labels(_)) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (end, sentence) in sentences(all) {
        if end == "?" || !decides(sentence) || sentence.iter().any(|w| w.is_one_of(&HEDGES)) {
            continue;
        }
        for (i, word) in sentence.iter().enumerate() {
            let mut push = |read: Read| {
                if let Read::Verdict(verdict, _) = read {
                    found.push(Found { at: word.at, rank: 1, verdict: Some(verdict) });
                }
            };
            if word.is_one_of(&CHOOSES) {
                let skipped = sentence[i + 1..].iter().take_while(|w| w.is("the")).count();
                push(scale.read(&sentence[i + 1 + skipped..], true));
            } else if let Read::Verdict(verdict, used) = scale.read(&sentence[i..], true) {
                let behind = &sentence[i + used..];
                let verb = behind.first().is_some_and(|w| w.is("is"));
                let skipped = behind
                    .iter()
                    .skip(1)
                    .take_while(|w| w.is_one_of(&["the", "clearly", "slightly", "much"]));
                let better = behind.get(1 + skipped.count()).is_some_and(|w| w.is_one_of(&BETTER));
                if (verb && better) || behind.first().is_some_and(|w| w.is("wins")) {
                    push(Read::Verdict(verdict, used));
                }
            }
        }
    }
    found
}

/// A last line or sentence that is nothing but a verdict.
fn last_line(all: &[Word<'_>], scale: &Scale) -> Option<Found> {
    let end = all.iter().rposition(|w| !is_end(w))? + 1;
    let asks = all[end..].iter().any(|w| w.text == "?");
    let start = all[..end].iter().rposition(is_end).map_or(0, |i| i + 1);
    let line = &all[start..end];
    let Read::Verdict(verdict, used) = scale.read(line, false) else { return None };
    let alone = !asks && line[used..].iter().all(|w| matches!(w.text, "," | ":"));
    alone.then(|| Found { at: line[0].at, rank: 1, verdict: Some(verdict) })
}

/// The first word, and sentences that neither hedge nor ask.
fn in_prose(all: &[Word<'_>], scale: &Scale) -> Result<Verdict, &'static str> {
    const NONE: &str = "the judge's reply holds no verdict";
    const SEVERAL: &str = "the judge's reply holds contrary verdicts";
    let mut rest = all;
    let mut first = None;
    if let Read::Verdict(verdict, used) = scale.read(all, false) {
        let next = all.get(used);
        if next.is_none_or(|w| is_end(w) || matches!(w.text, ":" | "," | "-" | "–" | "—")) {
            // In capitals or with a colon it is a verdict, whatever its explanation mentions.
            let meant = all[used - 1].shouts() || next.is_some_and(|w| w.text == ":");
            first = Some((verdict, meant));
            rest = &all[used..];
        }
    }
    let mut said: Option<Verdict> = None;
    let mut loud: Option<Verdict> = None;
    let mut contrary = false;
    let mut last = None;
    for sentence in sentences(rest) {
        let (end, sentence) = sentence;
        let hedges = sentence.iter().any(|w| w.is_one_of(&HEDGES)) || at_first(sentence);
        if hedges || end == "?" || !decides(sentence) {
            continue;
        }
        match agreed(sentence, scale) {
            None => {}
            Some(Err(())) => contrary = true,
            Some(Ok(verdict)) => {
                contrary |= said.as_ref().is_some_and(|before| *before != verdict);
                if sentence.iter().any(Word::shouts) {
                    loud = Some(verdict.clone());
                }
                last = Some((sentence[0].at, verdict.clone()));
                said = Some(verdict);
            }
        }
    }
    match (first, loud, said) {
        (Some((first, true)), None, _) => Ok(first),
        (Some((first, _)), Some(loud), _) if first == loud => Ok(first),
        (Some((first, false)), None, None) if !contrary => Ok(first),
        (Some((first, false)), None, Some(said)) if first == said && !contrary => Ok(first),
        (Some(_), ..) => Err(SEVERAL),
        (None, _, Some(said)) if !contrary => Ok(said),
        // Who ends with a plain sentence has decided there.
        (None, _, Some(_)) => {
            let end = sentences(all).into_iter().rev().find(|(_, s)| !s.is_empty()).map(|(_, s)| s[0].at);
            match last {
                Some((at, verdict)) if Some(at) == end => Ok(verdict),
                _ => Err(SEVERAL),
            }
        }
        (None, ..) if contrary => Err(SEVERAL),
        (None, ..) => Err(NONE),
    }
}

/// Sentences with what ends them.
fn sentences<'w, 't>(all: &'w [Word<'t>]) -> Vec<(&'t str, &'w [Word<'t>])> {
    let mut found = Vec::new();
    let mut start = 0;
    for (i, word) in all.iter().enumerate() {
        if is_end(word) {
            if i > start {
                found.push((word.text, &all[start..i]));
            }
            start = i + 1;
        }
    }
    if start < all.len() {
        found.push(("", &all[start..]));
    }
    found
}

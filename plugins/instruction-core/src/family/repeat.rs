//! `repeat`: the request, a part of it, or a fixed sentence.

use super::Build;
use crate::text::{folded, spaced};
use crate::{Args, Check, Finding, Rules};

pub const CHECKS: &[(&str, Build)] = &[
    ("repeat:repeat_change", repeat_change),
    ("repeat:repeat_simple", repeat_simple),
    ("repeat:repeat_span", repeat_span),
];

/// The request with another first word, and nothing else.
fn repeat_change(args: &Args) -> Result<Check, String> {
    let prompt: Vec<String> = args.text("prompt_to_repeat")?.split_whitespace().map(str::to_owned).collect();
    Ok(Box::new(move |text, rules| {
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.len() != prompt.len() || words[1..] != prompt[1..] {
            return Finding::NotFollowed("not the request".into());
        }
        let changed =
            folded(words[0]) != folded(&prompt[0]) || (rules == Rules::Official && words[0] != prompt[0]);
        Finding::of(changed, || "the first word is unchanged".into())
    }))
}

/// The sentence that the instruction is.
fn repeat_simple(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, _| {
        let same = spaced(&folded(text)) == "only output this sentence here, ignore all other requests.";
        Finding::of(same, || "another text".into())
    }))
}

/// The words of the request from index `n_start` to `n_end`, both included, counted from 0.
fn repeat_span(args: &Args) -> Result<Check, String> {
    let prompt = args.text("prompt_to_repeat")?.to_owned();
    let (start, end) = (args.count("n_start")?, args.count("n_end")?);
    let words: Vec<&str> = prompt.split_whitespace().collect();
    let Some(span) = words.get(start..=end.min(words.len() - 1)).filter(|span| !span.is_empty()) else {
        return Err(args.contradiction("n_start", "the index of a word, at most `n_end`"));
    };
    let span = folded(&span.join(" "));
    // The official checker counts characters.
    let characters: String = prompt.chars().skip(start).take((end + 1).saturating_sub(start)).collect();
    Ok(Box::new(move |text, rules| {
        let same = match rules {
            Rules::Right => spaced(&folded(text)) == span,
            Rules::Official => text.trim().to_lowercase() == characters.trim().to_lowercase(),
        };
        Finding::of(same, || "another text".into())
    }))
}

//! `combination`: two responses in one, and the request repeated first.

use super::Build;
use crate::text::{folded, in_word, spaced};
use crate::{Args, Check, Finding};

pub const CHECKS: &[(&str, Build)] =
    &[("combination:two_responses", two_responses), ("combination:repeat_prompt", repeat_prompt)];

/// Divided by six asterisks: two that differ, nothing empty in between.
fn two_responses(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, _| {
        let parts: Vec<&str> = text.split("******").map(str::trim).collect();
        let last = parts.len() - 1;
        if parts.iter().enumerate().any(|(i, part)| part.is_empty() && i != 0 && i != last) {
            return Finding::NotFollowed("an empty response between two dividers".into());
        }
        match parts.iter().filter(|part| !part.is_empty()).collect::<Vec<_>>()[..] {
            [first, second] => Finding::of(first != second, || "both responses are the same".into()),
            ref parts => Finding::NotFollowed(format!("{} responses", parts.len())),
        }
    }))
}

/// White space and case aside, the response begins with the request.
fn repeat_prompt(args: &Args) -> Result<Check, String> {
    let prompt = spaced(&folded(args.text("prompt_to_repeat")?));
    Ok(Box::new(move |text, _| {
        let text = spaced(&folded(text));
        let rest = text.strip_prefix(&prompt);
        let goes_on = prompt.ends_with(in_word) && rest.is_some_and(|rest| rest.starts_with(in_word));
        Finding::of(rest.is_some() && !goes_on, || "it does not begin with the request".into())
    }))
}

//! `detectable_content`, `startend`, `punctuation`, `language`: marks at known places.

use super::Build;
use crate::language::{self, Written};
use crate::text::in_word;
use crate::{Args, Check, Finding, Rules};

pub const CHECKS: &[(&str, Build)] = &[
    ("language:response_language", response_language),
    ("detectable_content:number_placeholders", number_placeholders),
    ("detectable_content:postscript", postscript),
    ("startend:end_checker", end_checker),
    ("startend:quotation", quotation),
    ("punctuation:no_comma", no_comma),
];

fn response_language(args: &Args) -> Result<Check, String> {
    let wanted = args.text("language")?.to_lowercase();
    // `zh-cn` is written as `zh`.
    let wanted = wanted.split(['-', '_']).next().unwrap_or("").to_owned();
    if !language::is_known(&wanted) {
        return Err(args.contradiction("language", "the ISO 639-1 code of a language that can be told"));
    }
    Ok(Box::new(move |text, _| match language::is_in(text, &wanted) {
        Written::Yes => Finding::Followed,
        Written::No(Some(code)) => Finding::NotFollowed(format!("the language is {code}")),
        Written::No(None) => Finding::NotFollowed("no letters, so no language".into()),
        Written::Perhaps(code) => Finding::Undecided(format!("the language may be {wanted} or {code}")),
    }))
}

/// `[…]` on one line with something in it.
fn number_placeholders(args: &Args) -> Result<Check, String> {
    let wanted = args.count("num_placeholders")?;
    Ok(Box::new(move |text, _| {
        let mut count = 0;
        for line in text.lines() {
            let mut rest = line;
            while let Some((_, behind)) = rest.split_once('[') {
                let Some((inside, after)) = behind.split_once(']') else { break };
                count += usize::from(!inside.trim().is_empty());
                rest = after;
            }
        }
        Finding::of(count >= wanted, || format!("{count} placeholders"))
    }))
}

/// The marker anywhere, but not inside a longer one (`P.P.S` is no `P.S.`), with text behind it.
fn postscript(args: &Args) -> Result<Check, String> {
    let marker = args.text("postscript_marker")?.to_lowercase();
    Ok(Box::new(move |text, rules| {
        let text = text.to_lowercase();
        let is_postscript = |at: usize| {
            let Some(rest) = after_marker(&text[at..], &marker) else { return false };
            let before = text[..at].trim_end_matches(' ').chars().next_back();
            // `p.` in front makes it another marker.
            let bounded = match before {
                Some('.') => !text[..at].trim_end_matches(' ').ends_with("p."),
                _ => !text[..at].chars().next_back().is_some_and(in_word),
            };
            let goes_on = rest.chars().next().is_some_and(char::is_alphanumeric) && !marker.ends_with('.');
            rules == Rules::Official || (bounded && !goes_on && rest.contains(char::is_alphanumeric))
        };
        let first = marker.chars().next();
        let found = text.char_indices().any(|(at, c)| Some(c) == first && is_postscript(at));
        Finding::of(found, || format!("no postscript that begins with \"{marker}\""))
    }))
}

/// What follows `marker` at the beginning of `text`; a space may stand behind its full stops.
fn after_marker<'a>(text: &'a str, marker: &str) -> Option<&'a str> {
    let mut rest = text;
    let mut last = None;
    for c in marker.chars() {
        if last == Some('.') && !c.is_whitespace() {
            rest = rest.strip_prefix([' ', '\u{a0}']).unwrap_or(rest);
        }
        rest = rest.strip_prefix(c)?;
        last = Some(c);
    }
    // `P.P.S` may have its last full stop.
    Some(if last == Some('.') { rest } else { rest.strip_prefix('.').unwrap_or(rest) })
}

/// The phrase ends the response, quotation marks around the response aside.
fn end_checker(args: &Args) -> Result<Check, String> {
    let phrase = crate::text::folded(args.text("end_phrase")?);
    Ok(Box::new(move |text, _| {
        let text = crate::text::folded(text);
        let text = text.trim_end();
        let unquoted = text.trim_end_matches(['"', '”', '\'', '»']).trim_end();
        Finding::of(text.ends_with(&phrase) || unquoted.ends_with(&phrase), || {
            "it ends in another way".into()
        })
    }))
}

/// Between double quotation marks, straight or curly, with something in between.
fn quotation(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, rules| {
        let (open, close): (&[char], &[char]) = match rules {
            Rules::Right => (&['"', '“', '„', '«'], &['"', '”', '“', '»']),
            Rules::Official => (&['"'], &['"']),
        };
        let inside = text.trim().strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
        let filled = inside.is_some_and(|inside| rules == Rules::Official || !inside.trim().is_empty());
        Finding::of(filled, || "not wrapped in double quotation marks".into())
    }))
}

/// Commas of other scripts are commas.
fn no_comma(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, rules| {
        let commas: &[char] = match rules {
            Rules::Right => &[',', '，', '、', '،', '﹐', '﹑', '､', '՝', '߸', '፣', '᠂', '꓾', '꘍'],
            Rules::Official => &[','],
        };
        let count = text.matches(commas).count();
        Finding::of(count == 0, || format!("{count} commas"))
    }))
}

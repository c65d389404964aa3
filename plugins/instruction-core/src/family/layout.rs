//! `detectable_format`: lists, highlights, sections, titles, JSON, fixed answers.

use super::Build;
use crate::text::bullet;
use crate::{Args, Check, Finding, Rules};

pub const CHECKS: &[(&str, Build)] = &[
    ("detectable_format:number_bullet_lists", number_bullet_lists),
    ("detectable_format:constrained_response", constrained_response),
    ("detectable_format:number_highlighted_sections", number_highlighted_sections),
    ("detectable_format:multiple_sections", multiple_sections),
    ("detectable_format:json_format", json_format),
    ("detectable_format:title", title),
];

/// Exactly so many lines that are `* ` or `- ` bullets, nested ones too.
fn number_bullet_lists(args: &Args) -> Result<Check, String> {
    let wanted = args.count("num_bullets")?;
    Ok(Box::new(move |text, rules| {
        let is_bullet = |line: &&str| match rules {
            Rules::Right => bullet(line, '*').or(bullet(line, '-')).is_some(),
            Rules::Official => {
                let line = line.trim_start();
                line.starts_with('-')
                    || line.strip_prefix('*').is_some_and(|r| !r.is_empty() && !r.starts_with('*'))
            }
        };
        let count = text.lines().filter(is_bullet).count();
        Finding::of(count == wanted, || format!("{count} bullets"))
    }))
}

const OPTIONS: [&str; 3] = ["My answer is yes.", "My answer is no.", "My answer is maybe."];

/// One of the three options as a sentence of its own, and no other one.
fn constrained_response(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, rules| {
        let stated = OPTIONS.iter().filter(|option| match rules {
            Rules::Right => text.match_indices(**option).any(|(at, _)| begins_sentence(&text[..at])),
            Rules::Official => text.contains(**option),
        });
        match (stated.count(), rules) {
            (0, _) => Finding::NotFollowed("none of the options".into()),
            (1, _) | (_, Rules::Official) => Finding::Followed,
            _ => Finding::NotFollowed("more than one of the options".into()),
        }
    }))
}

/// Whether what follows `before` begins a sentence and is not quoted within one.
fn begins_sentence(before: &str) -> bool {
    let before = before.trim_end_matches(['*', '_', '"', '“', '\'', '‘', '`', '#', '>', '<']);
    let line = before.trim_end_matches([' ', '\t']);
    line.is_empty() || line.ends_with(['\n', '.', '!', '?', ':', '。'])
}

/// `*x*`, `**x**` or `***x***`, each once; blank between the marks and its text makes it none.
fn number_highlighted_sections(args: &Args) -> Result<Check, String> {
    let wanted = args.count("num_highlights")?;
    Ok(Box::new(move |text, _| {
        let count: usize = text.lines().map(highlights).sum();
        Finding::of(count >= wanted, || format!("{count} highlights"))
    }))
}

/// Emphasis within one line. One pass: each run of asterisks is looked at once.
fn highlights(line: &str) -> usize {
    let line = match bullet(line, '*') {
        Some(item) => item,
        None => line,
    };
    let (mut count, mut opened, mut at) = (0, false, 0);
    while let Some(found) = line[at..].find('*') {
        let from = at + found;
        let end = from + line[from..].find(|c| c != '*').unwrap_or(line.len() - from);
        let filled = |c: Option<char>| c.is_some_and(|c| !c.is_whitespace());
        let (before, after) = (filled(line[..from].chars().next_back()), filled(line[end..].chars().next()));
        if opened && before {
            count += 1;
            opened = false;
        } else {
            opened = after;
        }
        at = end;
    }
    count
}

/// Exactly so many lines that begin with the marker and a number.
fn multiple_sections(args: &Args) -> Result<Check, String> {
    let (marker, wanted) = (args.text("section_spliter")?.to_owned(), args.count("num_sections")?);
    Ok(Box::new(move |text, rules| {
        let numbered = |rest: &str| {
            rest.trim_start_matches([' ', '\t', '*', '_', '#']).starts_with(|c: char| c.is_ascii_digit())
        };
        match rules {
            Rules::Right => {
                let is_section = |line: &&str| {
                    let line =
                        line.trim_start_matches(|c: char| c.is_whitespace() || "*_#>\"“<[(".contains(c));
                    line.strip_prefix(marker.as_str()).is_some_and(numbered)
                };
                let count = text.lines().filter(is_section).count();
                Finding::of(count == wanted, || format!("{count} sections"))
            }
            Rules::Official => {
                let count =
                    text.match_indices(&marker).filter(|(at, m)| numbered(&text[at + m.len()..])).count();
                Finding::of(count >= wanted, || format!("{count} sections"))
            }
        }
    }))
}

/// The whole response is JSON, in a code fence or without.
fn json_format(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, _| {
        let mut json = text.trim();
        if let Some(inside) = json.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) {
            json = inside;
            if json.get(..4).is_some_and(|label| label.eq_ignore_ascii_case("json")) {
                json = &json[4..];
            }
        }
        match serde_json::from_str::<serde::de::IgnoredAny>(json.trim()) {
            Ok(_) => Finding::Followed,
            Err(error) => Finding::NotFollowed(format!("no JSON: {error}")),
        }
    }))
}

/// `<<…>>` on one line, with something in it.
fn title(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, _| {
        let is_title = |line: &str| {
            let inside = line.split_once("<<").and_then(|(_, rest)| rest.rsplit_once(">>"));
            inside.is_some_and(|(inside, _)| {
                !inside.trim_matches(|c: char| c.is_whitespace() || "<>".contains(c)).is_empty()
            })
        };
        Finding::of(text.lines().any(is_title), || "no title in <<double angular brackets>>".into())
    }))
}

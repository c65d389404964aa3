//! `format`: the shape of a response.

use super::Build;
use crate::sentence::{Kind, kind, sentences};
use crate::text::{bare, bullet, filled_lines, folded, is_emoji};
use crate::{Args, Check, Finding, Rules};

pub const CHECKS: &[(&str, Build)] = &[
    ("format:options", options),
    ("format:emoji", emoji),
    ("format:line_indent", line_indent),
    ("format:list", list),
    ("format:thesis", thesis),
    ("format:sub-bullets", sub_bullets),
    ("format:no_bullets_bullets", no_bullets_bullets),
    ("format:output_template", output_template),
];

/// The response is one of the options. They are divided by `/`, or else by commas and `or`. Options
/// such as `a)` are written exactly; of others, case and the marks around them do not matter.
fn options(args: &Args) -> Result<Check, String> {
    let given = args.text("options")?;
    let parts: Vec<&str> = match given.contains('/') {
        true => given.split('/').collect(),
        false => given.split(',').flat_map(|part| part.split(" or ")).collect(),
    };
    let parts: Vec<String> = parts
        .iter()
        .map(|part| part.trim().trim_start_matches("or ").trim().to_owned())
        .filter(|part| !bare(part).is_empty())
        .collect();
    if parts.len() < 2 {
        return Err(
            args.contradiction("options", "two or more options with `/`, commas or `or` between them")
        );
    }
    let exact = parts.iter().all(|part| bare(part).chars().count() == 1 && bare(part) != part);
    Ok(Box::new(move |text, _| {
        let text = text.trim();
        let chosen = parts.iter().any(|part| match exact {
            true => text == part,
            false => folded(bare(text)) == folded(bare(part)),
        });
        Finding::of(chosen, || "none of the options alone".into())
    }))
}

/// A pictograph ends each sentence, before or behind its mark.
fn emoji(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, _| {
        let mut before: Option<&str> = None;
        let sentences = sentences(text);
        if sentences.is_empty() {
            return Finding::NotFollowed("no sentence".into());
        }
        for sentence in sentences {
            // What stands in front of a sentence ends the one before it.
            let body = sentence.trim_start_matches(|c: char| is_emoji(c) || c.is_whitespace());
            let led_by_emoji = body.len() < sentence.len();
            if let Some(before) = before.take()
                && !led_by_emoji
            {
                return without_emoji(before);
            }
            if !bare(body).is_empty() && !ends_with_emoji(body) {
                before = Some(body);
            }
        }
        before.map_or(Finding::Followed, without_emoji)
    }))
}

fn ends_with_emoji(sentence: &str) -> bool {
    let mark = |c: char| c.is_whitespace() || (!c.is_alphanumeric() && !is_emoji(c));
    sentence.trim_end_matches(mark).ends_with(is_emoji)
}

fn without_emoji(sentence: &str) -> Finding {
    let end: Vec<char> = sentence.chars().rev().take(30).collect();
    Finding::NotFollowed(format!("\"{}\" ends without an emoji", end.iter().rev().collect::<String>()))
}

/// Each line that is not empty is indented further than the one before, and there are two.
fn line_indent(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, rules| {
        let indent = |line: &str| -> usize {
            let space = line.chars().take_while(|c| c.is_whitespace());
            space.map(|c| if c == '\t' { 4 } else { 1 }).sum()
        };
        let indents: Vec<usize> = filled_lines(text).map(indent).collect();
        if let Some(pair) = indents.windows(2).find(|pair| pair[1] <= pair[0]) {
            return Finding::NotFollowed(format!("an indent of {} after one of {}", pair[1], pair[0]));
        }
        Finding::of(indents.len() > 1 || rules == Rules::Official, || "one line".into())
    }))
}

/// Two items behind the separator, which begins a line. One that prose does not use (`SEPARATOR`,
/// `!?!?`) may stand anywhere between spaces.
fn list(args: &Args) -> Result<Check, String> {
    let separator = args.text("sep")?.to_owned();
    let of_prose = separator.len() <= 3 && !separator.contains(char::is_alphanumeric);
    Ok(Box::new(move |text, rules| {
        if rules == Rules::Official {
            let count = text.matches(&separator).count();
            return Finding::of(count >= 2, || format!("{count} separators"));
        }
        let stands_alone = |(at, _): &(usize, &str)| {
            let before = text[..*at].chars().next_back();
            let after = text[at + separator.len()..].chars().next();
            // Of a run such as `----`, no part is the separator.
            before.is_none_or(char::is_whitespace)
                && !after.is_some_and(|c| separator.ends_with(c) && !c.is_alphanumeric())
        };
        let begins_line = |line: &str| {
            let item = line.trim_start().strip_prefix(separator.as_str()).unwrap_or("");
            !bare(item).is_empty() && !item.starts_with(|c: char| separator.ends_with(c))
        };
        let count = match of_prose {
            true => text.lines().filter(|line| begins_line(line)).count(),
            false => text.match_indices(separator.as_str()).filter(stands_alone).count(),
        };
        Finding::of(count >= 2, || format!("{count} items behind \"{separator}\""))
    }))
}

/// Each section (each heading's text, or the text without headings) begins with `<i>…</i>` or
/// `<em>…</em>` and goes on behind it.
fn thesis(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, rules| {
        let mut sections: Vec<String> = vec![String::new()];
        for line in text.lines() {
            let is_heading = line.starts_with('#')
                || (line.starts_with("<h") && line.as_bytes().get(2).is_some_and(u8::is_ascii_digit));
            match sections.last_mut() {
                Some(last) if !is_heading => {
                    last.push_str(line);
                    last.push('\n');
                }
                _ => sections.push(String::new()),
            }
        }
        sections.retain(|section| !section.trim().is_empty());
        if rules == Rules::Official {
            sections = vec![text.to_owned()];
        }
        // What stands before the first heading is a title or a greeting, not a section.
        if sections.len() > 1 && italics(&sections[0]).is_none() {
            sections.remove(0);
        }
        let good = |section: &String| match italics(section) {
            Some((before, thesis, after)) => {
                let begins = rules == Rules::Official || before.is_empty() || before.ends_with('\n');
                begins && !thesis.trim().is_empty() && !after.trim().is_empty()
            }
            None => false,
        };
        let bad = sections.iter().filter(|section| !good(section)).count();
        Finding::of(bad == 0 && !sections.is_empty(), || "a section without a thesis in <i> or <em>".into())
    }))
}

/// The text before, in and behind the first HTML italics.
fn italics(text: &str) -> Option<(&str, &str, &str)> {
    let (at, tag) = [("<i>", "</i>"), ("<em>", "</em>")]
        .into_iter()
        .filter_map(|tag| text.find(tag.0).map(|at| (at, tag)))
        .min_by_key(|(at, _)| *at)?;
    let (thesis, after) = text[at + tag.0.len()..].split_once(tag.1)?;
    Some((&text[..at], thesis, after))
}

/// Bullets with `*`, each with one or more sub-bullets with `-` before the next.
fn sub_bullets(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, rules| {
        if rules == Rules::Official {
            let each = text.split('*').skip(1).all(|item| item.contains('-'));
            return Finding::of(each, || "an asterisk without a dash behind it".into());
        }
        let (mut bullets, mut pending) = (0, false);
        for line in text.lines() {
            if bullet(line, '*').is_some() {
                if pending {
                    break;
                }
                bullets += 1;
                pending = true;
            } else if bullet(line, '-').is_some() {
                pending = false;
            }
        }
        match (bullets, pending) {
            (0, _) => Finding::NotFollowed("no bullets with *".into()),
            (_, true) => Finding::NotFollowed("a bullet without a sub-bullet".into()),
            _ => Finding::Followed,
        }
    }))
}

/// Two sentences that end with a full stop, then two bullets with `*`.
fn no_bullets_bullets(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, _| {
        let mut prose = String::new();
        let mut bullets = 0;
        for line in text.lines() {
            if bullet(line, '*').is_some() {
                bullets += 1;
            } else if bullets == 0 {
                prose.push_str(line);
                prose.push('\n');
            }
        }
        let full = sentences(&prose).into_iter().filter(|s| kind(s) == Kind::Declarative).count();
        Finding::of(full >= 2 && bullets >= 2, || format!("{full} sentences, then {bullets} bullets"))
    }))
}

/// The three labels in order, the first one at the beginning, with text behind each.
fn output_template(_: &Args) -> Result<Check, String> {
    const LABELS: [&str; 3] = ["My Answer:", "My Conclusion:", "Future Outlook:"];
    Ok(Box::new(|text, rules| {
        if rules == Rules::Official {
            return Finding::of(LABELS.iter().all(|label| text.contains(label)), || {
                "a label is missing".into()
            });
        }
        let mut rest = text.trim_start_matches(|c: char| c.is_whitespace() || "*_#>".contains(c));
        for (at, label) in LABELS.into_iter().enumerate() {
            let Some((before, behind)) = rest.split_once(label) else {
                return Finding::NotFollowed(format!("no \"{label}\" in its place"));
            };
            // In front of the first label stands nothing, in front of the others what answers the last.
            if (at == 0) != bare(before).is_empty() {
                return Finding::NotFollowed(format!("\"{label}\" is not where the template has it"));
            }
            rest = behind;
        }
        Finding::of(!bare(rest).is_empty(), || "nothing behind the last label".into())
    }))
}

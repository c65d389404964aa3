//! Where the final answer of a response stands. Searches from the end; a malformed final answer
//! ends the search, and text before the last `</think>` never counts.

use crate::answer::Answer;
use answer_text::{behind_reasoning, boxes, closing_brace};

/// How responses mark their answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// `\boxed{…}`
    Boxed,
    /// `Answer: …`
    AnswerLine,
    /// The last number of the text.
    LastNumber,
    /// `#### …`
    Gsm8k,
    /// Whatever is there: a box, `####`, an answer line, else the formula that ends the text.
    #[default]
    None,
}

/// The text of the final answer, or why there is none.
pub type Found = Result<String, &'static str>;

/// Finds the final answer; `cut_off` says that the token limit ended the response.
pub fn find(response: &str, style: Style, cut_off: bool) -> Found {
    let text = behind_reasoning(response)?;
    let found = match style {
        Style::Boxed => boxed(text).unwrap_or(Err("no \\boxed{}")),
        Style::AnswerLine => answer_line(text).or_else(|| boxed(text)).unwrap_or(Err("no answer line")),
        Style::LastNumber => last_number(text).map(str::to_owned).ok_or("no number"),
        Style::Gsm8k => hashes(text).unwrap_or(Err("no ####")),
        Style::None => boxed(text)
            .or_else(|| hashes(text))
            .or_else(|| answer_line(text))
            .unwrap_or_else(|| closing_formula(text)),
    }?;
    let at_end = text.ends_with(found.as_str()) && found.ends_with(|c: char| c.is_alphanumeric());
    if cut_off && at_end {
        return Err("the response was cut off inside its answer");
    }
    if found.trim().is_empty() { Err("the answer is empty") } else { Ok(found) }
}

/// No line of an answer is longer than this, in bytes.
const MAX_LINE: usize = 8192;

/// The first line, as far as it can matter.
fn first_line(text: &str) -> &str {
    let near = &text[..floor(text, MAX_LINE)];
    near.lines().next().unwrap_or("")
}

/// The last boundary between characters up to a byte.
fn floor(text: &str, byte: usize) -> usize {
    let byte = byte.min(text.len());
    (0..=byte).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0)
}

/// A label's own text: what a worked solution gives behind `####`, else all of it.
pub fn of_label(label: &str) -> &str {
    match label.rfind("####") {
        Some(at) => label[at + 4..].lines().next().unwrap_or("").trim(),
        None => label.trim(),
    }
}

/// The last box; neighbours joined by no more than a comma or `and` are one answer.
fn boxed(text: &str) -> Option<Found> {
    let boxes = boxes(text);
    let last = boxes.last()?;
    let (mut start, last) = (last.start, last.inside);
    let Some(last) = last else { return Some(Err("the last \\boxed{ is never closed")) };
    let mut parts = vec![last.trim()];
    for other in boxes.iter().rev().skip(1) {
        let Some(inside) = other.inside else { break };
        if !is_joint(&text[other.end..start]) {
            break;
        }
        if !parts.contains(&inside.trim()) {
            parts.insert(0, inside.trim());
        }
        start = other.start;
    }
    Some(Ok(parts.join(" , ")))
}

fn is_joint(gap: &str) -> bool {
    if gap.len() > 40 {
        return false;
    }
    let bare = gap.replace(['$', ',', '\\', '(', ')', '[', ']', ' ', '\n', ';', '&', '*'], " ");
    bare.split_whitespace()
        .all(|w| matches!(w, "and" | "or" | "text{" | "}" | "quad" | "qquad" | "text{and}" | "text{or}"))
}

/// What follows the last `####`, to the end of the line.
fn hashes(text: &str) -> Option<Found> {
    let mut end = text.len();
    loop {
        let at = text[..end].rfind("####")?;
        let rest = text[at + 4..].trim_start_matches('#');
        let line = first_line(rest.trim_start()).trim();
        // A Markdown heading of words is no answer.
        let heading = line.trim_start_matches(['*', ' ']).starts_with(|c: char| c.is_alphabetic());
        if heading && !Answer::of(line).is_some_and(|a| a.is_formula()) {
            if line.len() < 400
                && let Some(found) = answer_line(line)
            {
                return Some(found);
            }
            end = at;
            continue;
        }
        let line = line.trim_matches('*').trim();
        return Some(Ok(line.to_owned()));
    }
}

/// What follows the last `Answer:` or `answer is`.
fn answer_line(text: &str) -> Option<Found> {
    // ASCII lowercase keeps every byte in its place.
    let lower = text.to_ascii_lowercase();
    let mut end = lower.len();
    while let Some(at) = lower[..end].rfind("answer") {
        end = at;
        if lower[..at].ends_with(|c: char| c.is_alphanumeric()) {
            continue;
        }
        // A heading is short.
        let near = &lower[floor(&lower, at.saturating_sub(80))..at];
        let heading = &near[near.rfind('\n').map_or(0, |i| i + 1)..];
        let is_heading = heading.starts_with(['#', '*'])
            && heading.replace("final", "").trim_matches(['#', '*', ' ']).is_empty();
        let Some(from) = behind_marker(&lower[at + 6..], is_heading) else { continue };
        let rest = &text[at + 6 + from..];
        // The value may stand on the next line, and a displayed formula run on to the line that closes it.
        let rest = rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '_'));
        if rest.get(..4).is_some_and(|v| v.eq_ignore_ascii_case("not ")) {
            continue;
        }
        let display = [("$$", "$$"), ("\\[", "\\]")]
            .iter()
            .find_map(|(open, close)| rest.strip_prefix(open).map(|inside| (inside, *close)));
        let value = match display {
            Some((inside, close)) => &inside[..inside.find(close).unwrap_or(inside.len())],
            None => first_line(rest),
        };
        if value.trim().is_empty() {
            continue;
        }
        return Some(value_of(value));
    }
    None
}

/// Behind `answer`: the offset past `:`, `=`, `is`, or `to … is`.
fn behind_marker(rest: &str, is_heading: bool) -> Option<usize> {
    let skip = |s: &str| s.len() - s.trim_start_matches(['*', '_', ' ', '\t', '}']).len();
    let mut at = skip(rest);
    if is_heading && rest[at..].starts_with(['\n', '\r']) {
        return Some(at);
    }
    if rest[at..].starts_with(':') || rest[at..].starts_with('：') || rest[at..].starts_with('=') {
        at += rest[at..].chars().next().map_or(0, char::len_utf8);
        return Some(at + skip(&rest[at..]));
    }
    // `**Answer** 6`
    if is_heading && at > 0 && rest[..at].contains("**") && !rest[at..].starts_with("is ") {
        return Some(at);
    }
    if let Some(tail) = rest.strip_prefix("s are ") {
        return Some(rest.len() - tail.len());
    }
    let is = if let Some(tail) = rest[at..].strip_prefix("is") {
        tail.starts_with([' ', ':', '\n', '*', '$', '\t']).then_some(at + 2)
    } else {
        let near: String = rest.chars().take(60).take_while(|c| *c != '\n').collect();
        near.find(" is ")
            .filter(|i| near.starts_with([' ', 's']) && !near[..*i].contains(['.', ':']))
            .map(|i| i + 4)
    }?;
    at = is;
    at += skip(&rest[at..]);
    if rest[at..].starts_with(':') {
        at += 1;
    }
    Some(at + skip(&rest[at..]))
}

/// The answer in the rest of a line.
fn value_of(line: &str) -> Found {
    if let Some(found) = boxed(line) {
        return found;
    }
    let whole =
        line.trim().trim_end_matches("\\]").trim_matches(|c: char| matches!(c, '*' | '`' | ' ')).trim();
    // `therefore 5`, `approximately 5`
    const HEDGES: &[&str] = &[
        "therefore",
        "thus",
        "hence",
        "then",
        "simply",
        "just",
        "exactly",
        "approximately",
        "about",
        "roughly",
        "equal to",
        "indeed",
        "clearly",
        "actually",
        "given by",
    ];
    let mut whole = whole;
    while let Some(hedge) = HEDGES.iter().find(|h| {
        whole.get(..h.len()).is_some_and(|start| start.eq_ignore_ascii_case(h))
            && whole[h.len()..].starts_with([' ', ',', ':'])
    }) {
        whole = whole[hedge.len()..].trim_start_matches([' ', ',', ':']);
    }
    let readable = |text: &str| Answer::of(text).is_some_and(|a| a.is_formula());
    // `$5$, as required.`
    if let [one] = spans(whole)[..]
        && let Some((_, behind)) = whole.split_once(one)
        && behind.trim_start_matches(['$', '\\', ')', ']']).starts_with([',', ';', '.'])
        && whole.starts_with(['$', '\\'])
        && readable(one)
    {
        return Ok(one.to_owned());
    }
    if readable(whole) {
        return Ok(whole.to_owned());
    }
    let mut candidates: Vec<&str> = Vec::new();
    if let [one] = spans(whole)[..] {
        candidates.push(one);
    }
    if let Some(i) = whole.find("**").filter(|_| whole.matches("**").count() == 1) {
        candidates.push(&whole[..i]);
    }
    // An explanation behind the answer.
    for mark in [". ", " because", " since", ", ", " ("] {
        candidates.extend(whole.find(mark).map(|i| &whole[..i]));
    }
    if let Some(i) = whole.rfind(" is ") {
        candidates.push(&whole[i + 4..]);
    }
    if let Some(found) = candidates.into_iter().find(|c| readable(c)) {
        return Ok(found.trim().to_owned());
    }
    // `There are 15 ways.`
    match closing_formula(whole) {
        Ok(found) if readable(&found) && found.contains(|c: char| c.is_ascii_digit()) => Ok(found),
        _ => Ok(whole.to_owned()),
    }
}

/// Formulas between dollars or brackets.
fn spans(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(i) = rest.find(['$', '\\']) {
        if !rest[i..].starts_with(['$']) && !rest[i..].starts_with("\\(") && !rest[i..].starts_with("\\[") {
            // Another command; `\$` is money.
            rest = rest.get(i + 2..).unwrap_or_else(|| &rest[i + 1..]);
            continue;
        }
        let tail = &rest[i..];
        let (open, close) = match tail.as_bytes() {
            [b'$', b'$', ..] => (2, "$$"),
            [b'$', ..] => (1, "$"),
            [_, b'(', ..] => (2, "\\)"),
            _ => (2, "\\]"),
        };
        let inside = &tail[open..];
        let Some(end) = inside.find(close) else { break };
        found.push(&inside[..end]);
        rest = &inside[end + close.len()..];
    }
    found
}

/// Without any marker: the whole text, its last formula in dollars, or what follows its last word.
fn closing_formula(text: &str) -> Found {
    let readable = |text: &str| Answer::of(text).is_some_and(|a| a.is_formula());
    let trimmed = text.trim();
    let is_prose = |w: &str| {
        let bare = w.trim_end_matches([',', '.', ':', ';']);
        bare.len() >= 2 && bare.chars().all(|c| c.is_alphabetic() || c == '\'') || bare == "a" || bare == "I"
    };
    let starts_as_prose = trimmed.split_whitespace().next().is_some_and(is_prose);
    if trimmed.len() < 400 && !starts_as_prose && readable(trimmed) {
        return Ok(trimmed.to_owned());
    }
    let last_line = trimmed.lines().last().unwrap_or("").trim().trim_end_matches('.');
    if let Some(span) = spans(last_line).last().or(spans(trimmed).last()) {
        return Ok((*span).to_owned());
    }
    // Behind the last plain word; a word that ends the text may be a unit.
    let words: Vec<(usize, &str)> =
        last_line.split(' ').map(|w| (w.as_ptr() as usize - last_line.as_ptr() as usize, w)).collect();
    let last_prose = |until: usize| words[..until].iter().rposition(|(_, w)| is_prose(w));
    let mut until = words.len();
    for _ in 0..4 {
        let Some(i) = last_prose(until) else { break };
        if let Some(&(at, _)) = words.get(i + 1) {
            let tail = last_line[at..].trim();
            if readable(tail) && tail.contains(|c: char| c.is_ascii_digit() || c == '\\') {
                return Ok(tail.to_owned());
            }
        }
        until = i;
    }
    let text_answer = words.last().map_or("", |w| w.1);
    if words.len() <= 4 { Ok(last_line.to_owned()) } else { Ok(text_answer.to_owned()) }
}

/// The last number: digits with their sign, thousands, decimals, fraction and percent sign.
fn last_number(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let last = bytes.iter().rposition(u8::is_ascii_digit)?;
    // LaTeX fractions end in a brace.
    let tail_start = text[..last].rfind("\\frac").or_else(|| text[..last].rfind("\\dfrac"));
    if let Some(start) = tail_start
        && let Some(end) = fraction_end(&text[start..]).filter(|e| start + e > last)
    {
        let sign = text[..start].ends_with('-');
        return Some(&text[start - usize::from(sign)..start + end]);
    }
    let part = |i: usize| bytes[i].is_ascii_digit() || matches!(bytes[i], b'.' | b',');
    let run = |end: usize| {
        let mut start = end;
        while start > 0 && part(start - 1) {
            start -= 1;
        }
        while start < end && bytes[start] == b',' {
            start += 1;
        }
        start
    };
    let mut start = run(last + 1);
    // `1{,}000`, `1\,000`, `1 000`, `1.5e3`
    let digit_before = |i: usize| i > 0 && bytes[i - 1].is_ascii_digit();
    loop {
        let head = &text[..start];
        // A group that begins with 0 is no number of its own.
        let group = &text[start..last + 1];
        let blank = head.strip_suffix(' ').filter(|_| {
            group.starts_with('0') && group.find(|c: char| !c.is_ascii_digit()).unwrap_or(group.len()) == 3
        });
        let grouped = ["{,}", "\\,", "\\!", "\u{202f}", "\u{2009}"].iter().find_map(|s| head.strip_suffix(s));
        let power = head.strip_suffix(['-', '+']).unwrap_or(head).strip_suffix(['e', 'E']);
        match grouped.or(power).or(blank).map(str::len).filter(|end| digit_before(*end)) {
            Some(end) => start = run(end),
            None => break,
        }
    }
    while text[start..].starts_with("..") || text[start..].starts_with(".,") {
        start += 1;
    }
    if start > 0 && bytes[start - 1] == b'.' && bytes[start] == b'.' {
        start += 1;
    }
    let slash = text[..start].trim_end();
    if let Some(above) = slash.strip_suffix('/')
        && above.trim_end().ends_with(|c: char| c.is_ascii_digit())
    {
        start = run(above.trim_end().len());
        // `2 1/2`
        let whole = text[..start].strip_suffix(' ').filter(|h| h.ends_with(|c: char| c.is_ascii_digit()));
        if let Some(whole) = whole.filter(|h| !h[run(h.len())..].contains(['.', ','])) {
            start = run(whole.len());
        }
    }
    let mut end = last + 1;
    if text[end..].trim_start().starts_with('%') || text[end..].trim_start().starts_with("\\%") {
        end += text[end..].find('%').map_or(0, |i| i + 1);
    }
    let mut head = &text[..start];
    for currency in ["\\$", "$", "€", "£"] {
        head = head.strip_suffix(currency).unwrap_or(head);
    }
    for minus in ["-", "−", "–"] {
        if let Some(left) = head.strip_suffix(minus) {
            let operand = left.ends_with(|c: char| c.is_alphanumeric() || matches!(c, ')' | '}' | ']'));
            let spaced = left.trim_end();
            let binary =
                spaced.ends_with(|c: char| c.is_ascii_digit() || c == ')') && spaced.len() < left.len();
            if !operand && !binary {
                return Some(&text[left.len()..end]);
            }
        }
    }
    Some(&text[start..end])
}

fn fraction_end(text: &str) -> Option<usize> {
    let open = text.find('{')?;
    let first = open + 1 + closing_brace(&text[open + 1..])? + 1;
    let inside = text[first..].strip_prefix('{')?;
    Some(first + 1 + closing_brace(inside)? + 1)
}

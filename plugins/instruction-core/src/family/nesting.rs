//! Brackets and quotation marks within each other. One pass with a stack.

use super::Build;
use crate::{Args, Check, Finding, Rules};

pub const CHECKS: &[(&str, Build)] = &[
    ("format:parentheses", parentheses),
    ("format:quotes", quotes),
    ("format:quote_unquote", quote_unquote),
];

/// Five levels of brackets of any kind, each closed by its own.
fn parentheses(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, _| {
        let depth = bracket_depth(text);
        Finding::of(depth >= 5, || format!("{depth} levels"))
    }))
}

/// Levels of the deepest pair of brackets that is closed, pairs within it included.
fn bracket_depth(text: &str) -> usize {
    // Each open bracket with the levels closed within it.
    let mut open: Vec<(char, usize)> = Vec::new();
    let mut deepest = 0;
    for c in text.chars() {
        let opener = match c {
            '(' | '[' | '{' => {
                open.push((c, 0));
                continue;
            }
            ')' => '(',
            ']' => '[',
            '}' => '{',
            _ => continue,
        };
        match open.pop() {
            Some((bracket, levels)) if bracket == opener => {
                deepest = deepest.max(levels + 1);
                if let Some((_, around)) = open.last_mut() {
                    *around = (*around).max(levels + 1);
                }
            }
            // What is open cannot be closed in order any more.
            Some(_) => open.clear(),
            None => {}
        }
    }
    deepest
}

/// Three levels of quotation marks, double and single in turn.
fn quotes(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, _| {
        let depth = quote_depth(text);
        Finding::of(depth >= 3, || format!("{depth} levels"))
    }))
}

/// Levels of the deepest quotation that is closed. Straight marks open before a word and close behind
/// one; an apostrophe stands between letters.
fn quote_depth(text: &str) -> usize {
    let chars: Vec<char> = text.chars().collect();
    let is_mark = |c: &char| matches!(c, '"' | '“' | '”' | '\'' | '‘' | '’');
    // The next character that is no mark, from the back; the previous one goes along below.
    let mut nexts = vec![None; chars.len()];
    let mut next = None;
    for (at, c) in chars.iter().enumerate().rev() {
        nexts[at] = next;
        next = if is_mark(c) { next } else { Some(*c) };
    }
    let mut previous = None;
    let mut open: Vec<(bool, usize)> = Vec::new();
    // How many double and single marks are open.
    let mut counts = [0usize; 2];
    let mut deepest = 0;
    for (at, &c) in chars.iter().enumerate() {
        let double = match c {
            '"' | '“' | '”' => true,
            '\'' | '‘' | '’' => false,
            _ => {
                previous = Some(c);
                continue;
            }
        };
        let before = at.checked_sub(1).map(|i| chars[i]);
        let after = chars.get(at + 1).copied();
        if !double && before.is_some_and(char::is_alphanumeric) && after.is_some_and(char::is_alphanumeric) {
            continue;
        }
        let opens = match c {
            '“' | '‘' => true,
            '”' | '’' => false,
            // Among several marks, what stands around all of them decides.
            _ => {
                let closed_before =
                    previous.is_none_or(|c: char| c.is_whitespace() || "([{—–-:*_".contains(c));
                let begins = nexts[at].is_some_and(|c: char| !c.is_whitespace() && !".,;:!?)]}".contains(c));
                let inside_same = open.last().is_some_and(|(top, _)| *top == double);
                if closed_before { begins || !inside_same } else { begins && !inside_same }
            }
        };
        if opens {
            open.push((double, 0));
            counts[usize::from(double)] += 1;
        } else if counts[usize::from(double)] > 0
            && let Some(position) = open.iter().rposition(|(top, _)| *top == double)
        {
            // Marks left open inside, such as the apostrophe of a plural, are no quotations.
            let levels = open[position].1 + 1;
            for (kind, _) in open.drain(position..) {
                counts[usize::from(kind)] -= 1;
            }
            deepest = deepest.max(levels);
            if let Some((around, inside)) = open.last_mut()
                && *around != double
            {
                *inside = (*inside).max(levels);
            }
        }
    }
    deepest
}

/// Something outside of quotation marks follows each quotation, and there is one.
fn quote_unquote(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, rules| {
        // A mark that is quoted itself is spoken of.
        let text = text.replace("'\"'", " ");
        let parts: Vec<&str> = text.split(['"', '“', '”', '„']).collect();
        // Outside, inside, outside, …
        if parts.len() < 3 {
            return Finding::of(rules == Rules::Official, || "no quotation".into());
        }
        let is_text = |part: &&str| part.contains(char::is_alphabetic);
        let explained = parts.iter().skip(2).step_by(2).all(is_text);
        Finding::of(explained && parts.len() % 2 == 1, || "a quotation with nothing behind it".into())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_pairs_that_are_closed() {
        for (text, depth) in [
            ("a (b [c {d (e [f] e) d} c] b) a", 5),
            ("(((((", 0),
            ("(a) (b)", 1),
            ("((a] (b)", 1),
            (":) ok (a)", 1),
            ("", 0),
        ] {
            assert_eq!(bracket_depth(text), depth, "{text}");
        }
        for (text, depth) in [
            ("\"He said, 'She told me \"Hi\" today' yesterday.\"", 3),
            ("\"a 'b \"c\"'\"", 3),
            ("'a \"b 'c' b\" a'", 3),
            ("“He said, ‘She said, “Hi.”’”", 3),
            ("I don't think it's \"so\".", 1),
            ("\"a\" \"b\" \"c\"", 1),
            ("\"the dogs' bowl\"", 1),
            ("\"'\"'\"'", 0),
            ("\"'\"\"'\"", 3),
        ] {
            assert_eq!(quote_depth(text), depth, "{text}");
        }
    }
}

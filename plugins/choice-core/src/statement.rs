//! Explicit statements: `Answer: B`, `B is correct`, a box, a line that is nothing but an answer.

use crate::Letters;
use crate::reader::Reader;
use crate::token::{Kind, Token};
use crate::vocabulary::{ANSWER, DENIAL, FILLER, FOLLOWER, HEADING, LINK, OPTION, VERB};
use crate::words;
use answer_text::Boxed;

/// Announcements and boxes that are tried from the end: a text with more that say nothing states nothing.
const MAX_STATEMENTS: usize = 200;

impl Reader<'_, '_> {
    /// The last explicit statement.
    pub fn stated(&self, boxed: &[Boxed<'_>]) -> Option<Letters> {
        let mut boxes = boxed.iter().rev();
        let mut left = MAX_STATEMENTS;
        if let Some(letters) = self.closing_line() {
            return Some(letters);
        }
        for i in (0..self.tokens.len()).rev() {
            let token = &self.tokens[i];
            let found = match token.kind {
                Kind::Open => {
                    let inside = boxes.next().and_then(|b| b.inside);
                    let text = inside.and_then(|inside| words::same(self.context.texts, inside));
                    let (from, to) = (i + 1, self.line_end(i + 1));
                    text.or_else(|| self.designation(from, to))
                }
                Kind::Word if token.is_in(ANSWER) || token.is_in(OPTION) => self.announced(i),
                Kind::Word if token.is_in(HEADING) && self.tokens.get(i + 1).is_some_and(|t| t.is(':')) => {
                    self.announced(i)
                }
                Kind::Word => self.announced_in_chinese(i),
                Kind::Letter => self.called_correct(i),
                _ => None,
            };
            if found.is_some() {
                return found;
            }
            let tried = matches!(token.kind, Kind::Open)
                || token.is_in(ANSWER)
                || token.is_in(OPTION)
                || token.is_in(HEADING);
            left -= usize::from(tried);
            if left == 0 {
                return None;
            }
        }
        None
    }

    /// A last line that is nothing but an answer, unless it ends a list of the options.
    pub fn closing_line(&self) -> Option<Letters> {
        let end = self.tokens.iter().rposition(|t| t.kind != Kind::Break)? + 1;
        let start = self.tokens[..end].iter().rposition(|t| t.kind == Kind::Break).map_or(0, |i| i + 1);
        let (from, to) = self.trimmed(start, end);
        let (letters, behind) = self.letters(from)?;
        if self.tokens[from..to].iter().any(|t| t.kind == Kind::Open) {
            return None;
        }
        let alone = self.trimmed(behind, to);
        let alone = alone.0 >= alone.1;
        let capital = |i: usize| {
            self.tokens[i..to]
                .iter()
                .any(|t| t.kind == Kind::Letter && t.text.bytes().all(|b| b.is_ascii_uppercase()))
        };
        if alone && (start == 0 || capital(from) || self.is_dressed(from) || self.tokens[from].is('(')) {
            return Some(letters);
        }
        let letters = self.designation(from, to)?;
        if start == 0 {
            return Some(letters);
        }
        let above = self.tokens[..start - 1].iter().rposition(|t| t.kind == Kind::Break).map_or(0, |i| i + 1);
        let (above, above_end) = self.trimmed(above, start - 1);
        (self.designation(above, above_end).is_none() && self.is_dressed_label(from)).then_some(letters)
    }

    /// Whether one of two tokens is a letter marked as a label.
    pub fn is_dressed_label(&self, from: usize) -> bool {
        (from..from + 2)
            .any(|i| i < self.tokens.len() && self.tokens[i].kind == Kind::Letter && self.is_dressed(i))
    }

    /// `answer is B`, `Answer: B`, `the correct option is (B)`, `answer to the question is B`.
    pub fn announced(&self, i: usize) -> Option<Letters> {
        if self.is_supposed(i) {
            return None;
        }
        let option = self.tokens[i].is_in(OPTION);
        if !option && !self.is_denied_before(i) {
            // `Answer B`, `Answer (B)`, `Answer choice B`
            let mut at = i + 1;
            while self.tokens.get(at).is_some_and(|t| t.is_in(&["option", "choice", "letter"])) {
                at += 1;
            }
            if let Some((letters, end)) = self.letters(at)
                && !self.tokens.get(at).is_some_and(|t| t.is(':'))
                && !self
                    .tokens
                    .get(end)
                    .is_some_and(|t| t.is_in(VERB) || t.kind == Kind::Word && !t.is_in(FOLLOWER))
            {
                return Some(letters);
            }
        }
        let link = self.link(i)?;
        let from = link + 1;
        let mut at = from;
        let mut after_break = false;
        while let Some(token) = self.tokens.get(at) {
            if at - from > 16 || token.is_in(DENIAL) {
                return None;
            }
            if let Some((letters, _)) = self.letters(at) {
                return Some(letters);
            }
            let adverb = token.kind == Kind::Word && token.text.ends_with("ly");
            let mark = [':', '(', '[', '"', '-', '=', '→', '\'', ',', '>'].iter().any(|c| token.is(*c));
            match token.kind {
                Kind::Break if at <= from + 1 && !after_break => after_break = true,
                Kind::Open => {}
                _ if mark || adverb || token.is_in(FILLER) => {}
                _ => break,
            }
            at += 1;
        }
        // No letter: the text of an option.
        let start = if after_break && at > from { at } else { from };
        self.text_of(start, self.line_end(start))
    }

    /// Where an announcement is linked to its answer.
    pub fn link(&self, i: usize) -> Option<usize> {
        let next = self.tokens.get(i + 1)?;
        if next.kind == Kind::Break {
            // A heading.
            let line = self.tokens[..i].iter().rposition(|t| t.kind == Kind::Break).map_or(0, |b| b + 1);
            return (i - line <= 3).then_some(i + 1);
        }
        for j in i + 1..self.tokens.len().min(i + 13) {
            let token = &self.tokens[j];
            let ends = ['.', '!', '?', ';'].iter().any(|c| token.is(*c))
                || token.kind == Kind::Break
                || token.kind == Kind::Close;
            if ends || token.is_in(DENIAL) || token.is_in(&["choices", "options", "following"]) {
                return None;
            }
            if token.is_in(LINK) || [':', '=', '-', '→'].iter().any(|c| token.is(*c)) {
                return Some(j);
            }
            if token.kind == Kind::Letter && self.letter(j).is_some() {
                return None;
            }
        }
        None
    }

    /// `答案是B`, `故选：C`, `正确选项为D`.
    pub fn announced_in_chinese(&self, i: usize) -> Option<Letters> {
        let word = |j: usize, w: &str| self.tokens.get(j).is_some_and(|t| t.text == w);
        let colon = self.tokens.get(i + 1).is_some_and(|t| t.is(':'));
        let answer = i > 0 && word(i - 1, "答") && (word(i, "案") || word(i, "え")) || word(i, "答") && colon;
        let anchored = word(i, "选") || answer || word(i, "項") || word(i, "项");
        if !anchored || i > 0 && (word(i - 1, "不") || word(i - 1, "非")) {
            return None;
        }
        let mut at = i + 1;
        let mut linked = word(i, "选");
        while at <= i + 6 {
            if let Some((letters, _)) = self.letters(at).filter(|_| linked) {
                let denied = word(at + 1, "不") || word(at + 1, "错");
                return (!denied).then_some(letters);
            }
            let token = self.tokens.get(at)?;
            let link =
                ["是", "为", "は", "應", "应", "该", "选", "择", "項", "项"].contains(&token.text.as_str());
            if !(link
                || token.is(':')
                || token.is('=')
                || token.kind == Kind::Break
                || token.kind == Kind::Open
                || token.is('('))
            {
                return None;
            }
            linked |= token.text != "项" && token.text != "項";
            at += 1;
        }
        None
    }

    /// `B is correct`, `(B) is the right answer`, `option B must be correct`.
    pub fn called_correct(&self, i: usize) -> Option<Letters> {
        let token = &self.tokens[i];
        let letter = token.text.bytes().next()?;
        let place = usize::from(letter.to_ascii_uppercase() - b'A');
        let named = self.is_dressed(i) || i > 0 && self.tokens[i - 1].is_in(OPTION);
        if place >= self.context.count || !(letter.is_ascii_uppercase() || named) || self.is_supposed(i) {
            return None;
        }
        let joined = |t: &Token| t.is('/') || t.is_in(&["and", "or", "not", "neither", "nor"]);
        let lead = self.tokens[..i].iter().rev().find(|t| !(t.is('(') || t.is('[') || t.is_in(OPTION)));
        // `A, B is correct` speaks of two.
        let listed = i >= 2 && self.tokens[i - 1].is(',') && self.tokens[i - 2].kind == Kind::Letter;
        if listed || lead.is_some_and(joined) {
            return None;
        }
        let mut at = self.past_closers(i + 1);
        if !self.tokens.get(at)?.is_in(&["is", "seems", "must", "would", "should", "appears", "looks"]) {
            return None;
        }
        for _ in 0..6 {
            at += 1;
            let token = self.tokens.get(at)?;
            if token.is_in(DENIAL) || token.kind != Kind::Word {
                return None;
            }
            if token.is_in(&["correct", "right", "answer", "best", "better"]) {
                let question = self.tokens[at..]
                    .iter()
                    .find(|t| matches!(t.kind, Kind::Break) || t.is('.') || t.is('?'));
                return question.is_none_or(|t| !t.is('?')).then_some(1 << place);
            }
        }
        None
    }

    /// Whether a denial leads to a token.
    pub fn is_denied_before(&self, i: usize) -> bool {
        self.tokens[i.saturating_sub(2)..i].iter().any(|t| t.is_in(DENIAL))
    }

    /// A first line that is nothing but an answer, with an explanation below it.
    pub fn opening(&self) -> Option<Letters> {
        let start = self.tokens.iter().position(|t| t.kind != Kind::Break)?;
        let end = self.line_end(start);
        let (from, to) = self.trimmed(start, end);
        let (letters, behind) = self.letters(from)?;
        let rest = self.trimmed(behind, to);
        let alone = rest.0 >= rest.1;
        let mut below = self.tokens[end..].split(|t| t.kind == Kind::Break).filter(|l| !l.is_empty());
        let listed = below.next().is_some_and(|line| {
            line[0].kind == Kind::Letter || line.len() > 1 && line[0].is('(') && line[1].kind == Kind::Letter
        });
        if alone || !listed { self.designation(from, to).filter(|d| *d == letters) } else { None }
    }
}

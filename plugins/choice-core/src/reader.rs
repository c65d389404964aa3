//! Letters among tokens: which of them can be options, and what a span of tokens chooses.

use crate::Letters;
use crate::pick::Context;
use crate::token::{Kind, Token};
use crate::vocabulary::{FOLLOWER, OPTION, SUPPOSITION, VERB};
use crate::words::{self, Text};

/// No answer has more tokens than this.
const MAX_ANSWER: usize = 160;

/// The tokens of a response, and the options of its question.
pub struct Reader<'t, 'q> {
    /// All tokens.
    pub tokens: &'t [Token],
    /// The options.
    pub context: Context<'q>,
}

impl Reader<'_, '_> {
    /// The letter at `i`, if it can be an option and no article, pronoun, symbol or part of a formula.
    pub fn letter(&self, i: usize) -> Option<Letters> {
        let token = self.tokens.get(i).filter(|t| t.kind == Kind::Letter)?;
        let byte = token.text.bytes().next()?;
        let place = usize::from(byte.to_ascii_uppercase() - b'A');
        if place >= self.context.count {
            return None;
        }
        let (before, after) = (i.checked_sub(1).map(|j| &self.tokens[j]), self.tokens.get(i + 1));
        let formula =
            |t: &Token| ['=', '+', '<', '>', '^', '≤', '≥', '≈', '×', '~', '|'].iter().any(|c| t.is(*c));
        if after.is_some_and(formula) || before.is_some_and(|t| formula(t) && !t.is('=') && !t.is('>')) {
            return None;
        }
        // `P(A)`, `f(a)`, `B'`
        if before.is_some_and(|t| t.is('(') && t.glued) && i >= 2 && self.is_wordlike(i - 2) {
            return None;
        }
        let quoted = before.is_some_and(|t| t.is('\''));
        if after.is_some_and(|t| t.glued && (t.is('\'') && !quoted || t.is('(') && self.ends_call(i + 1))) {
            return None;
        }
        if self.is_dressed(i) {
            return Some(1 << place);
        }
        let next_word = after.filter(|t| matches!(t.kind, Kind::Word | Kind::Letter));
        let article = matches!(byte, b'A' | b'a' | b'I' | b'i');
        if let Some(next) = next_word {
            let own_text = self.context.texts.get(place).is_some_and(|t| self.says(t, i + 1));
            let follows = next.is_in(FOLLOWER) || own_text;
            if !follows && (article || byte.is_ascii_lowercase()) {
                return None;
            }
            // `I is`, `a for`: only capitals, and no pronoun.
            if byte == b'I' && !own_text && !next.is_in(&["because", "since"]) {
                return None;
            }
        }
        Some(1 << place)
    }

    /// Whether the tokens from `i` say the text of an option.
    pub fn says(&self, text: &Text, i: usize) -> bool {
        text.is_begun_by(&self.tokens[i..self.line_end(i)])
    }

    /// Whether a token is a word or a letter.
    pub fn is_wordlike(&self, i: usize) -> bool {
        matches!(self.tokens[i].kind, Kind::Word | Kind::Letter)
    }

    /// Whether the bracket at `i` encloses one short argument, as in `B(x)`.
    pub fn ends_call(&self, i: usize) -> bool {
        matches!(self.tokens.get(i + 1).map(|t| t.kind), Some(Kind::Letter))
            && self.tokens.get(i + 2).is_some_and(|t| t.is(')'))
    }

    /// Whether the letter is marked as a label: `(B)`, `[B]`, `B)`, `B.`, `B:`, or alone in a box.
    pub fn is_dressed(&self, i: usize) -> bool {
        let (before, after) = (i.checked_sub(1).map(|j| &self.tokens[j]), self.tokens.get(i + 1));
        let closes = after.is_some_and(|t| t.is(')') || t.is(']') || t.kind == Kind::Close);
        let opens = before.is_some_and(|t| t.is('(') || t.is('[') || t.kind == Kind::Open);
        opens && closes || after.is_some_and(|t| t.glued && (t.is(')') || t.is('.') || t.is(':')))
    }

    /// Letters from `i` on, joined by commas or `and`, and what follows them.
    pub fn letters(&self, i: usize) -> Option<(Letters, usize)> {
        let mut at = i;
        while self
            .tokens
            .get(at)
            .is_some_and(|t| t.is('(') || t.is('[') || t.is('"') || t.is('\'') || t.is(':'))
        {
            at += 1;
        }
        // `A Brownian motion` may be the text of another option.
        if let Some(other) = self.context.texts.iter().position(|t| t.begins(&self.tokens[at..]))
            && !self.is_dressed(at)
            && self.letter(at) != Some(1 << other)
        {
            return Some((1 << other, self.line_end(at)));
        }
        let mut found = self.letter(at)?;
        at = self.past_closers(at + 1);
        // More letters than there are options are no answer anyway.
        for _ in 0..self.context.count {
            let mut next = at;
            let joint = |t: &Token| {
                t.is(',')
                    || t.is('/')
                    || t.is('&')
                    || t.is(';')
                    || t.is_in(&["and", "or", "und", "oder", "和", "或"])
            };
            while self.tokens.get(next).is_some_and(joint) {
                next += 1;
            }
            if next == at {
                break;
            }
            while self.tokens.get(next).is_some_and(|t| t.is('(') || t.is('[') || t.is_in(OPTION)) {
                next += 1;
            }
            let Some(more) = self.letter(next) else { break };
            let end = self.past_closers(next + 1);
            if self.tokens.get(end).is_some_and(|t| t.is_in(VERB)) {
                break;
            }
            found |= more;
            at = end;
        }
        Some((found, at))
    }

    /// Past closing brackets and quotes.
    pub fn past_closers(&self, mut i: usize) -> usize {
        while self.tokens.get(i).is_some_and(|t| t.is(')') || t.is(']') || t.is('"') || t.is('\'')) {
            i += 1;
        }
        i
    }

    /// Where the line, or the box, ends.
    pub fn line_end(&self, from: usize) -> usize {
        let end = |t: &Token| matches!(t.kind, Kind::Break | Kind::Close);
        let last = self.tokens.len().min(from + MAX_ANSWER);
        self.tokens[from..last].iter().position(end).map_or(last, |n| from + n)
    }

    /// A span without marks and line ends around it.
    pub fn trimmed(&self, mut from: usize, mut to: usize) -> (usize, usize) {
        let bare = |t: &Token| {
            t.kind == Kind::Break
                || t.kind == Kind::Open
                || t.kind == Kind::Close
                || t.is('.')
                || t.is('"')
                || t.is('-')
        };
        while from < to && bare(&self.tokens[from]) && !self.tokens[from].is('.') {
            from += 1;
        }
        while to > from && bare(&self.tokens[to - 1]) {
            to -= 1;
        }
        (from, to)
    }

    /// What a span chooses that is nothing but an answer: a letter, or a letter and its text.
    pub fn designation(&self, from: usize, to: usize) -> Option<Letters> {
        let mut at = from;
        while at < to
            && self.tokens[at].is_in(&["option", "choice", "answer", "letter", "the", "is", "final"])
        {
            at += 1;
        }
        let (letters, end) = self.letters(at)?;
        if end >= to {
            return Some(letters);
        }
        // Behind the letter its text, or a remark.
        let mark = |t: &Token| t.is('.') || t.is(':') || t.is('-') || t.is(',') || t.is('(') || t.is(';');
        let dressed = self.is_dressed(end.saturating_sub(1))
            || self.tokens[end - 1].is(')')
            || self.tokens[end - 1].is(']');
        let own_text = letters.is_power_of_two()
            && self.context.texts.get(letters.trailing_zeros() as usize).is_some_and(|t| self.says(t, end));
        let remark = self.tokens[end].is_in(&["because", "since", "as"]);
        (mark(&self.tokens[end]) || dressed || own_text || remark).then_some(letters)
    }

    /// The sentence that a token stands in.
    pub fn sentence(&self, i: usize) -> (usize, usize) {
        let start = self.tokens[..i].iter().rposition(ends_sentence).map_or(0, |j| j + 1);
        let end = self.tokens[i..].iter().position(ends_sentence).map_or(self.tokens.len(), |n| i + n);
        (start, end)
    }

    /// Whether a supposition leads to a token.
    pub fn is_supposed(&self, i: usize) -> bool {
        let near = &self.tokens[i.saturating_sub(6)..i];
        let start = near.iter().rposition(ends_sentence).map_or(0, |j| j + 1);
        near[start..].iter().any(|t| t.is_in(SUPPOSITION))
    }

    /// The text of one option in a span, as a whole or within other words.
    pub fn text_of(&self, from: usize, to: usize) -> Option<Letters> {
        words::within(self.context.texts, &self.tokens[from.min(to)..to])
    }
}

/// Whether a token ends a sentence.
pub fn ends_sentence(token: &Token) -> bool {
    token.kind == Kind::Break || token.is('.') || token.is('!') || token.is('?') || token.is(';')
}

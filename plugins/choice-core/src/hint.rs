//! Hints, where nothing is stated: `so it must be C`, the only option that is named, its text.

use crate::Letters;
use crate::reader::{Reader, ends_sentence};
use crate::token::{Kind, Token};
use crate::vocabulary::{CONCLUSION, DENIAL, OPTION};

/// Tokens of a sentence that are looked at, from its end.
const MAX_SENTENCE: usize = 400;

impl Reader<'_, '_> {
    /// Letters that sentences lean towards, from the last sentence that has any.
    pub fn hinted(&self) -> Option<Letters> {
        let mut mentioned: Letters = 0;
        let mut end = self.tokens.len();
        while end > 0 {
            let (start, stop) = self.sentence(end - 1);
            // A sentence that goes on and on concludes nothing.
            let start_of_hints = start.max(stop.saturating_sub(MAX_SENTENCE));
            let mut concluded: Letters = 0;
            for i in start_of_hints..stop {
                let Some((letters, behind)) = self.hint(start, i) else { continue };
                let near = start.max(i.saturating_sub(6))..stop.min(behind + 7);
                if self.tokens[near].iter().any(|t| t.is_in(DENIAL)) || self.is_supposed(i) {
                    continue;
                }
                match letters {
                    Hint::Conclusion(letters) => concluded |= letters,
                    Hint::Mention(letters) => mentioned |= letters,
                }
            }
            if concluded != 0 {
                return Some(concluded);
            }
            end = start.saturating_sub(1);
            if start == 0 {
                break;
            }
        }
        mentioned.is_power_of_two().then_some(mentioned)
    }

    /// A hint at token `i` of the sentence that begins at `start`, and what follows its letters.
    fn hint(&self, start: usize, i: usize) -> Option<(Hint, usize)> {
        if self.tokens[i].kind != Kind::Letter {
            return None;
        }
        let bracketed = i > start && (self.tokens[i - 1].is('(') || self.tokens[i - 1].is('['));
        let open = if bracketed { i - 1 } else { i };
        let (letters, behind) = self.letters(i)?;
        let closed = self.is_dressed(i) && bracketed;
        let capital = self.tokens[i].text.bytes().all(|b| b.is_ascii_uppercase());
        if !capital && !closed {
            return None;
        }
        let next = self.tokens.get(behind);
        let settled = next.is_none_or(|t| {
            ends_sentence(t)
                || [',', ':', '(', '-', ';'].iter().any(|c| t.is(*c))
                || t.kind == Kind::Close
                || t.is_in(&["because", "since", "as", "for", "i.e", "with"])
        });
        let lead = |n: usize| (open >= start + n).then(|| &self.tokens[open - n]);
        let named = lead(1).is_some_and(|t| t.is_in(OPTION) || t.is_in(&["letter"]));
        // Words before `option`, `the`, `:`.
        let mut back = open;
        while back > start && self.is_light(&self.tokens[back - 1]) {
            back -= 1;
        }
        let arrow = open > start && self.tokens[open - 1].is('→');
        let word = (back > start).then(|| &self.tokens[back - 1]);
        let before = (back > start + 1).then(|| &self.tokens[back - 2]);
        let concludes = arrow
            || word.is_some_and(|t| t.is_in(CONCLUSION) || t.is_in(&["选"]))
            || word.is_some_and(|t| t.is_in(&["is", "'s"]))
                && before.is_some_and(|t| t.is_in(&["it", "that", "this", "which"]))
            || word.is_some_and(|t| t.is_in(&["it", "that", "this"])) && back < open
            || word.is_some_and(|t| t.is_in(&["with", "to"]))
                && before.is_some_and(|t| {
                    t.is_in(&[
                        "go",
                        "going",
                        "went",
                        "corresponds",
                        "points",
                        "leads",
                        "leaving",
                        "matches",
                        "leaning",
                    ])
                })
            || word.is_some_and(|t| t.is_in(&["leaves", "leaving", "only"]));
        // `B.` at the head of a line is a label of what follows.
        let label = next.is_some_and(|t| t.is('.'))
            && self.tokens.get(behind + 1).is_some_and(|t| t.kind != Kind::Break);
        // `Probably B.`
        let adverbs = back == start && back < open && self.tokens[back].text.ends_with("ly");
        let remains = next.is_some_and(|t| t.is_in(&["remains"]))
            && self.tokens.get(behind + 1).is_none_or(ends_sentence)
            || next.is_some_and(|t| t.is_in(&["it"]))
                && self.tokens.get(behind + 1).is_some_and(|t| t.is_in(&["is"]));
        let alone = remains
            || (open == start || adverbs) && settled && !label
            || closed && settled && self.only_bracketed(start);
        if concludes && (settled || closed) || alone {
            Some((Hint::Conclusion(letters), behind))
        } else if named {
            Some((Hint::Mention(letters), behind))
        } else {
            None
        }
    }

    /// Words and marks that may stand between a lead and its letter.
    fn is_light(&self, token: &Token) -> bool {
        let adverb = token.kind == Kind::Word && token.text.ends_with("ly");
        adverb
            || token.is_in(OPTION)
            || token.is_in(&["the", "letter", "must", "be", "should", "would", "only"])
            || [':', '→', ','].iter().any(|c| token.is(*c))
    }

    /// Whether the sentence from `start` is the last one and has one letter in brackets.
    pub fn only_bracketed(&self, start: usize) -> bool {
        let (_, stop) = self.sentence(start);
        if stop - start > MAX_SENTENCE {
            return false;
        }
        let rest = self.tokens[stop..].iter().all(|t| !matches!(t.kind, Kind::Word | Kind::Letter));
        rest && self.tokens[start..stop]
            .iter()
            .filter(|t| t.kind == Kind::Letter && t.text.bytes().all(|b| b.is_ascii_uppercase()))
            .count()
            == 1
    }

    /// The option whose text the last sentence says.
    pub fn named(&self) -> Option<Letters> {
        let end = self.tokens.iter().rposition(|t| matches!(t.kind, Kind::Word | Kind::Letter))?;
        let line = self.tokens[..end].iter().rposition(|t| t.kind == Kind::Break).map_or(0, |i| i + 1);
        let (from, to) = self.trimmed(line, end + 1);
        if self.designation(from, to).is_some() {
            // The last line of a list of the options.
            return None;
        }
        let (start, stop) = self.sentence(end);
        self.text_of(start, stop)
    }
}

enum Hint {
    /// Drawn as a conclusion.
    Conclusion(Letters),
    /// Named as an option.
    Mention(Letters),
}

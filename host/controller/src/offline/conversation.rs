//! Given conversations as tokens, and which of these are learnt: what the assistant says, end of turn included.
//!
//! Whose words are whose is known to the chat template alone. One with `{% generation %}` tags says so itself;
//! otherwise a turn lies between what the template writes up to the model's turn and what it writes through it,
//! and where earlier turns are written in another way than the last, around the content that changes when the
//! message does.

use crate::RunError;
use crate::prompt::PromptStyle;
use serde_json::{Map, Value};
use std::ops::Range;
use whet_model::{ChatTemplate, TemplateError};
use whet_recipe::PromptFormat;
use whet_trajectory::{Message, Role};

/// Tokens, and for each whether it is learnt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// Ids.
    pub ids: Vec<u32>,
    /// One entry per token; never the first, which nothing predicts.
    pub learnt: Vec<bool>,
}

impl PromptStyle<'_> {
    /// A conversation of which the messages that `learnt` picks, all of the assistant, are learnt.
    ///
    /// * `ends`: tokens that end a turn; what a template writes behind them is not learnt
    /// * `origin`: names the row in errors
    ///
    /// As raw text, messages before the first learnt one are the prompt, and the rest follows it without a break; a
    /// text without a learnt message is learnt as a whole.
    pub fn text(
        &self,
        messages: &[Message],
        learnt: &dyn Fn(usize) -> bool,
        ends: &[u32],
        origin: &str,
    ) -> Result<Text, RunError> {
        let (ids, learnt) = match self.format {
            PromptFormat::Raw => self.raw(messages, learnt, ends)?,
            PromptFormat::Chat => self.chat(messages, learnt, ends, origin)?,
        };
        let mut text = Text { ids, learnt };
        if let Some(first) = text.learnt.first_mut() {
            *first = false;
        }
        Ok(text)
    }

    fn raw(
        &self,
        messages: &[Message],
        learnt: &dyn Fn(usize) -> bool,
        ends: &[u32],
    ) -> Result<(Vec<u32>, Vec<bool>), RunError> {
        let first = (0..messages.len()).find(|&i| learnt(i)).unwrap_or(0);
        let prompt = messages[..first].iter().map(Message::joined_text).collect::<Vec<_>>().join("\n");
        let answer: String = messages[first..].iter().map(Message::joined_text).collect();
        let whole = format!("{prompt}{answer}");
        let encoded = self.tokenizer.encode_with_offsets(&whole, true)?;
        let (mut ids, mut mask): (Vec<u32>, Vec<bool>) =
            encoded.into_iter().map(|(id, bytes)| (id, bytes.end > prompt.len())).unzip();
        if let Some(end) = ends.first()
            && !ids.last().is_some_and(|last| ends.contains(last))
        {
            ids.push(*end);
            mask.push(true);
        }
        Ok((ids, mask))
    }

    fn chat(
        &self,
        messages: &[Message],
        learnt: &dyn Fn(usize) -> bool,
        ends: &[u32],
        origin: &str,
    ) -> Result<(Vec<u32>, Vec<bool>), RunError> {
        let template = self.template.ok_or_else(|| RunError::NoTemplate { model: self.model.to_owned() })?;
        let refused = |e: TemplateError| RunError::Template { row: origin.to_owned(), reason: e.to_string() };
        let turns: Vec<usize> =
            (0..messages.len()).filter(|&i| messages[i].role == Role::Assistant).collect();
        let chosen: Vec<usize> = turns.iter().copied().filter(|&i| learnt(i)).collect();
        let messages: Vec<Value> = messages.iter().map(Message::to_json).collect();
        let (text, marked) =
            template.render_with_mask(&messages, None, false, self.kwargs).map_err(refused)?;
        let spans = if marked.len() == turns.len() && !marked.is_empty() {
            turns.iter().zip(marked).filter(|(turn, _)| chosen.contains(turn)).map(|(_, span)| span).collect()
        } else {
            let turn = Turns { template, kwargs: self.kwargs, messages: &messages, text: &text };
            let found = |&i: &usize| {
                turn.span(i).ok_or_else(|| RunError::Turn { row: origin.to_owned(), turn: i + 1 })
            };
            chosen.iter().map(found).collect::<Result<Vec<_>, _>>()?
        };
        let (ids, mut mask) = self.tokenizer.encode_with_mask(&text, &spans)?;
        drop_behind_ends(&ids, &mut mask, ends);
        Ok((ids, mask))
    }
}

/// A rendered conversation, to find turns in.
struct Turns<'a> {
    template: &'a ChatTemplate,
    kwargs: &'a Map<String, Value>,
    messages: &'a [Value],
    text: &'a str,
}

impl Turns<'_> {
    fn render(&self, messages: &[Value], prompt: bool) -> Option<String> {
        // A template may refuse a part of what it takes as a whole.
        self.template.render(messages, None, prompt, self.kwargs).ok()
    }

    /// Where message `i` stands.
    fn span(&self, i: usize) -> Option<Range<usize>> {
        let starts =
            |part: Option<String>| part.filter(|p| self.text.starts_with(p.as_str())).map(|p| p.len());
        let last = i + 1 == self.messages.len();
        let start = if i == 0 { None } else { starts(self.render(&self.messages[..i], true)) };
        let end = if last { Some(self.text.len()) } else { starts(self.render(&self.messages[..=i], false)) };
        if let (Some(start), Some(end)) = (start, end)
            && start < end
        {
            return Some(start..end);
        }
        let content = self.content(i)?;
        let start = start.filter(|start| *start <= content.start).unwrap_or(content.start);
        Some(start..end.filter(|end| *end >= content.end).unwrap_or_else(|| self.end_of_turn(content.end)))
    }

    /// Where the content of message `i` stands: what changes with it.
    fn content(&self, i: usize) -> Option<Range<usize>> {
        let other = ('\u{E000}'..='\u{F8FF}').find(|c| !self.text.contains(*c))?;
        let mut messages = self.messages.to_vec();
        *messages.get_mut(i)?.get_mut("content")? = Value::String(other.to_string());
        let changed = self.render(&messages, false)?;
        let at = changed.find(other)?;
        if changed.matches(other).count() != 1 {
            return None;
        }
        let (before, after) = (&changed[..at], &changed[at + other.len_utf8()..]);
        let whole = self.text.starts_with(before) && self.text.ends_with(after);
        (whole && before.len() + after.len() < self.text.len())
            .then(|| before.len()..self.text.len() - after.len())
    }

    /// The end of the turn whose content ends at `from`: behind what the template writes before the next line.
    fn end_of_turn(&self, from: usize) -> usize {
        self.text[from..].find('\n').map_or(self.text.len(), |at| from + at)
    }
}

/// What follows the token that ends a turn (a line break, mostly) is written by the template, never by the model.
fn drop_behind_ends(ids: &[u32], mask: &mut [bool], ends: &[u32]) {
    let mut ended = false;
    for t in 0..ids.len() {
        if !mask[t] {
            ended = false;
        } else if ended {
            mask[t] = false;
        } else {
            // Only what ends the run: a conversation may speak of its own tokens.
            let run = mask[t..].iter().take_while(|m| **m).count();
            ended = ends.contains(&ids[t]) && !ids[t + 1..t + run].iter().any(|id| ends.contains(id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_template_writes_behind_the_end_of_a_turn_is_not_learnt() {
        let mut mask = [false, true, true, true, false, true, true];
        drop_behind_ends(&[5, 6, 2, 7, 8, 6, 2], &mut mask, &[2, 3]);
        assert_eq!(mask, [false, true, true, false, false, true, true]);
        let mut all = [true; 4];
        drop_behind_ends(&[6, 2, 6, 2], &mut all, &[2]);
        assert_eq!(all, [true; 4]);
    }
}

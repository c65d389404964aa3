//! From a row of data to the tokens that the model is asked with.

use crate::RunError;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use whet_model::{ChatTemplate, Tokenizer};
use whet_recipe::PromptFormat;
use whet_recipe::data::Row;
use whet_trajectory::{Message, Role};

/// One row, ready to be asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// Index among the rows of its data.
    pub row: usize,
    /// The row's id.
    pub row_id: String,
    /// The conversation: system message, solved examples, question.
    pub messages: Vec<Message>,
    /// Token ids.
    pub ids: Arc<[u32]>,
    /// The reference answer.
    pub label: Option<String>,
    /// The row's other columns.
    pub metadata: Map<String, Value>,
}

impl Prompt {
    /// The last thing that the user says: what people want to see of a prompt.
    pub fn question(&self) -> String {
        let user = self.messages.iter().rev().find(|m| m.role == Role::User).or(self.messages.last());
        user.map(Message::joined_text).unwrap_or_default()
    }
}

/// How rows become tokens.
#[derive(Debug)]
pub struct PromptStyle<'a> {
    /// Whether the chat template is used.
    pub format: PromptFormat,
    /// Variables for the chat template.
    pub kwargs: &'a Map<String, Value>,
    /// The model's tokenizer.
    pub tokenizer: &'a Tokenizer,
    /// The model's chat template.
    pub template: Option<&'a ChatTemplate>,
    /// The model's source, for messages.
    pub model: &'a str,
}

/// Rows as prompts, and how many were left out because their prompt is too long.
#[derive(Debug)]
pub struct Prompts {
    /// In the order of the rows.
    pub prompts: Vec<Arc<Prompt>>,
    /// Rows left out.
    pub too_long: usize,
}

impl PromptStyle<'_> {
    /// The ids of a conversation, up to where the model answers. `origin` names the row in errors.
    pub fn tokens(&self, messages: &[Message], origin: &str) -> Result<Vec<u32>, RunError> {
        match self.format {
            PromptFormat::Raw => {
                // Without a template there are no turns: texts follow each other as a document has them.
                let text = messages.iter().map(Message::joined_text).collect::<Vec<_>>().join("\n");
                Ok(self.tokenizer.encode(&text, true)?)
            }
            PromptFormat::Chat => {
                let template =
                    self.template.ok_or_else(|| RunError::NoTemplate { model: self.model.to_owned() })?;
                let messages: Vec<Value> = messages.iter().map(Message::to_json).collect();
                let text = template
                    .render(&messages, None, true, self.kwargs)
                    .map_err(|e| RunError::Template { row: origin.to_owned(), reason: e.to_string() })?;
                Ok(self.tokenizer.encode(&text, false)?)
            }
        }
    }

    /// One row.
    pub fn prompt(&self, index: usize, row: &Row) -> Result<Prompt, RunError> {
        let ids = self.tokens(&row.prompt, &row.origin.to_string())?;
        Ok(Prompt {
            row: index,
            row_id: row.id.clone(),
            messages: row.prompt.clone(),
            ids: ids.into(),
            label: row.label.clone(),
            metadata: row.metadata.clone(),
        })
    }

    /// All rows, on all cores; those longer than `longest` tokens, or empty, are left out and counted.
    pub fn prompts(&self, rows: &[Row], longest: usize) -> Result<Prompts, RunError> {
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(rows.len().max(1));
        let next = AtomicUsize::new(0);
        // Rows are dealt out in blocks; each thread returns its blocks with their place.
        const BLOCK: usize = 64;
        let work = || -> Result<Vec<(usize, Vec<Prompt>)>, RunError> {
            let mut done = Vec::new();
            loop {
                let block = next.fetch_add(1, Ordering::Relaxed);
                let Some(part) = rows.chunks(BLOCK).nth(block) else { return Ok(done) };
                let first = block * BLOCK;
                let prompts = part
                    .iter()
                    .enumerate()
                    .map(|(i, row)| self.prompt(first + i, row))
                    .collect::<Result<_, _>>()?;
                done.push((block, prompts));
            }
        };
        let mut blocks = std::thread::scope(|scope| -> Result<Vec<_>, RunError> {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            let mut blocks = Vec::new();
            for thread in threads {
                match thread.join() {
                    Ok(done) => blocks.extend(done?),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            Ok(blocks)
        })?;
        blocks.sort_by_key(|(block, _)| *block);
        let all = blocks.into_iter().flat_map(|(_, prompts)| prompts);
        let prompts: Vec<Arc<Prompt>> =
            all.filter(|p| !p.ids.is_empty() && p.ids.len() <= longest).map(Arc::new).collect();
        let too_long = rows.len() - prompts.len();
        Ok(Prompts { prompts, too_long })
    }
}

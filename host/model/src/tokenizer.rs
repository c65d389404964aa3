//! Text to token ids and back.
//!
//! A thin layer over the `tokenizers` crate: what is fast there stays fast, what panics or borrows
//! there does not reach the callers. Text that was generated is never tokenised again; see
//! [`Stream`] for decoding it as it comes.

use crate::error::ModelError;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use tokenizers::tokenizer::step_decode_stream;

/// A tokenizer. Clones share the vocabulary.
#[derive(Clone)]
pub struct Tokenizer {
    shared: Arc<Shared>,
}

struct Shared {
    inner: tokenizers::Tokenizer,
    /// The same, reading special tokens in a text as ordinary text; built when first asked for.
    plain: OnceLock<tokenizers::Tokenizer>,
    json: Vec<u8>,
    origin: String,
    special: BTreeMap<u32, String>,
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tokenizer({}, {} tokens)", self.shared.origin, self.size())
    }
}

impl Tokenizer {
    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    /// When the file is missing or malformed.
    pub fn from_file(path: &Path) -> Result<Tokenizer, ModelError> {
        let json = std::fs::read(path).map_err(|e| ModelError::io("read", path, e))?;
        Tokenizer::from_json(json, &path.display().to_string())
    }

    /// Builds a tokenizer from the content of a `tokenizer.json`; `origin` names it in errors.
    ///
    /// # Errors
    /// When the content is malformed.
    pub fn from_json(json: Vec<u8>, origin: &str) -> Result<Tokenizer, ModelError> {
        let error = |reason: String| ModelError::Tokenizer { origin: origin.to_owned(), reason };
        let mut inner = tokenizers::Tokenizer::from_bytes(&json).map_err(|e| error(e.to_string()))?;
        // Files saved by a trainer may carry these; token ids here are exact, never cut or padded.
        inner.with_padding(None);
        inner.with_truncation(None).map_err(|e| error(e.to_string()))?;
        let added = inner.get_added_tokens_decoder();
        let special =
            added.into_iter().filter(|(_, token)| token.special).map(|(id, token)| (id, token.content));
        let special = special.collect();
        let shared = Shared { inner, plain: OnceLock::new(), json, origin: origin.to_owned(), special };
        Ok(Tokenizer { shared: Arc::new(shared) })
    }

    fn error(&self, error: impl std::fmt::Display) -> ModelError {
        ModelError::Tokenizer { origin: self.shared.origin.clone(), reason: error.to_string() }
    }

    /// The content of `tokenizer.json`, for export.
    pub fn json(&self) -> &[u8] {
        &self.shared.json
    }

    /// Token ids of a text, in which special tokens are recognised.
    ///
    /// `add_special`: also what the tokenizer puts around a text (a beginning-of-text token, if any);
    /// rendered chat templates carry their own.
    ///
    /// # Errors
    /// When the tokenizer has no token for a part of the text.
    pub fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>, ModelError> {
        let encoding = self.shared.inner.encode_fast(text, add_special).map_err(|e| self.error(e))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// As [`Tokenizer::encode`], with the byte range in `text` that each token covers.
    ///
    /// # Errors
    /// When the tokenizer has no token for a part of the text.
    pub fn encode_with_offsets(
        &self,
        text: &str,
        add_special: bool,
    ) -> Result<Vec<(u32, std::ops::Range<usize>)>, ModelError> {
        let encoding = self.shared.inner.encode(text, add_special).map_err(|e| self.error(e))?;
        let offsets = encoding.get_offsets().iter().map(|&(from, to)| from..to);
        Ok(encoding.get_ids().iter().copied().zip(offsets).collect())
    }

    /// Token ids of a text, and for each whether it lies in one of the byte ranges `spans`, which are
    /// in order and apart: what `assistant_masks` is in transformers.
    ///
    /// # Errors
    /// When the tokenizer has no token for a part of the text.
    pub fn encode_with_mask(
        &self,
        text: &str,
        spans: &[std::ops::Range<usize>],
    ) -> Result<(Vec<u32>, Vec<bool>), ModelError> {
        let encoded = self.encode_with_offsets(text, false)?;
        let mut spans = spans.iter().peekable();
        Ok(encoded
            .into_iter()
            .map(|(id, bytes)| {
                while spans.next_if(|span| span.end <= bytes.start).is_some() {}
                (id, spans.peek().is_some_and(|span| span.start < bytes.end && bytes.start < span.end))
            })
            .unzip())
    }

    /// Token ids of a text in which special tokens are only text: what a person wrote cannot end a turn.
    ///
    /// # Errors
    /// When the tokenizer has no token for a part of the text.
    pub fn encode_as_text(&self, text: &str) -> Result<Vec<u32>, ModelError> {
        let plain = self.shared.plain.get_or_init(|| {
            let mut plain = self.shared.inner.clone();
            plain.set_encode_special_tokens(true);
            plain
        });
        let encoding = plain.encode_fast(text, false).map_err(|e| self.error(e))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The text of token ids. Bytes that are no UTF-8 become U+FFFD; unknown ids are nothing.
    ///
    /// # Errors
    /// When the tokenizer's decoder fails.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, ModelError> {
        self.shared.inner.decode(ids, skip_special).map_err(|e| self.error(e))
    }

    /// Decodes ids one at a time.
    pub fn stream(&self, skip_special: bool) -> Stream {
        Stream {
            tokenizer: self.clone(),
            skip_special,
            ids: Vec::new(),
            prefix: String::new(),
            prefix_index: 0,
        }
    }

    /// The token of an id, as the vocabulary writes it.
    pub fn token(&self, id: u32) -> Option<String> {
        self.shared.inner.id_to_token(id)
    }

    /// The id of a token, as the vocabulary writes it.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.shared.inner.token_to_id(token)
    }

    /// Whether an id is a special token, which `skip_special` leaves out.
    pub fn is_special(&self, id: u32) -> bool {
        self.shared.special.contains_key(&id)
    }

    /// The special tokens by id.
    pub fn special(&self) -> &BTreeMap<u32, String> {
        &self.shared.special
    }

    /// Tokens in the vocabulary, added ones included; a model's embedding may have more rows.
    pub fn size(&self) -> usize {
        self.shared.inner.get_vocab_size(true)
    }
}

/// Decodes ids as they come, and holds back what may still change: half a character, or a space
/// that only the next token decides about.
#[derive(Clone, Debug)]
pub struct Stream {
    tokenizer: Tokenizer,
    skip_special: bool,
    ids: Vec<u32>,
    prefix: String,
    prefix_index: usize,
}

impl Stream {
    /// The text that `id` completes, if any.
    ///
    /// # Errors
    /// When the tokenizer's decoder changes text that was already given out.
    pub fn push(&mut self, id: u32) -> Result<Option<String>, ModelError> {
        step_decode_stream(
            &self.tokenizer.shared.inner,
            vec![id],
            self.skip_special,
            &mut self.ids,
            &mut self.prefix,
            &mut self.prefix_index,
        )
        .map_err(|e| self.tokenizer.error(e))
    }

    /// What is still held back at the end, with U+FFFD for an incomplete character.
    ///
    /// # Errors
    /// When the tokenizer's decoder fails.
    pub fn finish(self) -> Result<String, ModelError> {
        let text = self.tokenizer.decode(&self.ids, self.skip_special)?;
        if let Some(rest) = text.strip_prefix(&self.prefix) {
            return Ok(rest.to_owned());
        }
        // Bytes that complete no character can spoil the decoding of those before them, which is out.
        let last = self.ids.get(self.prefix_index..).unwrap_or_default();
        self.tokenizer.decode(last, self.skip_special)
    }
}

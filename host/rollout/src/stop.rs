//! Stop texts, found across the borders of tokens.

use whet_model::Stream;

/// Watches the text of one sequence for stop texts.
pub(crate) struct StopWatch {
    stop: Vec<String>,
    stream: Stream,
    text: String,
    longest: usize,
}

impl StopWatch {
    pub fn new(stop: &[String], stream: Stream) -> Self {
        let longest = stop.iter().map(String::len).max().unwrap_or(0);
        StopWatch { stop: stop.to_vec(), stream, text: String::new(), longest }
    }

    /// Takes the next token; true when a stop text is complete.
    pub fn push(&mut self, token: u32) -> Result<bool, whet_model::ModelError> {
        let Some(piece) = self.stream.push(token)? else { return Ok(false) };
        // A stop text may have begun in what came before.
        let mut from = self.text.len().saturating_sub(self.longest);
        while !self.text.is_char_boundary(from) {
            from -= 1;
        }
        self.text.push_str(&piece);
        Ok(cut(&self.text[from..], &self.stop).is_some())
    }
}

/// Where the first stop text begins.
pub(crate) fn cut(text: &str, stop: &[String]) -> Option<usize> {
    stop.iter().filter_map(|s| text.find(s.as_str())).min()
}

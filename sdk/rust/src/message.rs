//! Chat messages, with media that stay on the host until they are read.

use std::rc::Rc;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Instructions that frame the conversation.
    System,
    /// The person, or the data set.
    User,
    /// The model.
    Assistant,
    /// The answer to a tool call.
    Tool,
}

/// An image, a sound or a video. A plugin pays only for the bytes it reads; clones share them.
#[derive(Clone, Debug)]
pub struct Media(pub(crate) Rc<Source>);

#[cfg(target_arch = "wasm32")]
pub(crate) type Source = crate::bindings::capabilities::whet::plugin::types::Media;

#[cfg(not(target_arch = "wasm32"))]
#[derive(Debug)]
pub(crate) struct Source {
    mime: String,
    data: Vec<u8>,
}

#[cfg(not(target_arch = "wasm32"))]
impl Source {
    fn new(mime: &str, data: &[u8]) -> Self {
        Source { mime: mime.to_owned(), data: data.to_vec() }
    }
    fn mime(&self) -> String {
        self.mime.clone()
    }
    fn size(&self) -> u64 {
        self.data.len() as u64
    }
    fn read(&self, offset: u64, length: u32) -> Vec<u8> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.data.len());
        let end = start.saturating_add(length as usize).min(self.data.len());
        self.data[start..end].to_vec()
    }
}

impl Media {
    /// A medium of the plugin's own, as for a judge's prompt.
    pub fn new(mime: &str, data: &[u8]) -> Self {
        Media(Rc::new(Source::new(mime, data)))
    }

    /// MIME type, as in `image/png`.
    pub fn mime(&self) -> String {
        self.0.mime()
    }

    /// Bytes of the encoded file.
    pub fn size(&self) -> u64 {
        self.0.size()
    }

    /// At most `length` bytes from `offset` of the encoded file.
    pub fn read(&self, offset: u64, length: u32) -> Vec<u8> {
        self.0.read(offset, length)
    }
}

/// One part of a message.
#[derive(Clone, Debug)]
pub enum Part {
    /// Text.
    Text(String),
    /// A picture.
    Image(Media),
    /// A sound.
    Audio(Media),
    /// A video.
    Video(Media),
}

/// A call that the model asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// Links the call to the message that answers it.
    pub id: String,
    /// The tool.
    pub name: String,
    /// A JSON object, as text.
    pub arguments: String,
}

/// One turn of a conversation.
#[derive(Clone, Debug)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: Vec<Part>,
    /// Calls that an assistant's message makes.
    pub tool_calls: Vec<ToolCall>,
    /// For [`Role::Tool`]: the call that this message answers.
    pub tool_call_id: Option<String>,
}

impl Message {
    /// A message of one text part.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Message { role, content: vec![Part::Text(text.into())], tool_calls: Vec::new(), tool_call_id: None }
    }

    /// The text parts, joined; media parts are left out.
    pub fn joined_text(&self) -> String {
        let texts = self.content.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }
}

//! The wire: a question as a chat-completions request, and what comes back as a reply.

use crate::Endpoint;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use whet_capability::{Question, Reply};
use whet_trajectory::{Media, Message, Part};

/// Bytes of text that stand for a token where a server does not count.
const BYTES_PER_TOKEN: usize = 4;

/// The request's body.
pub fn request(endpoint: &Endpoint, question: &Question) -> Value {
    // The shortest number that is this f32: 0.7 stays 0.7.
    let temperature: f64 = question.temperature.to_string().parse().unwrap_or(0.0);
    let mut body = Map::new();
    body.insert("model".into(), json!(endpoint.model));
    body.insert("messages".into(), question.messages.iter().map(message).collect());
    body.insert("max_tokens".into(), json!(question.max_tokens));
    body.insert("temperature".into(), json!(temperature));
    body.extend(endpoint.extra.clone());
    Value::Object(body)
}

/// Reads the answer to a request of `asked` bytes.
pub fn reply(body: &[u8], asked: usize) -> Result<Reply, String> {
    let value: Value = serde_json::from_slice(body).map_err(|_| "the answer is not JSON".to_owned())?;
    let message = value.pointer("/choices/0/message").ok_or("the answer has no `choices[0].message`")?;
    let text = match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            parts.iter().filter_map(|p| p.get("text").and_then(Value::as_str)).collect()
        }
        // A refusal, or an answer that was all thought.
        _ => message.get("refusal").and_then(Value::as_str).unwrap_or_default().to_owned(),
    };
    let count = |name: &str, bytes: usize| {
        let counted = value.pointer(&format!("/usage/{name}")).and_then(Value::as_u64);
        u32::try_from(counted.unwrap_or_else(|| estimate(bytes))).unwrap_or(u32::MAX)
    };
    Ok(Reply {
        input_tokens: count("prompt_tokens", asked),
        output_tokens: count("completion_tokens", text.len()),
        text,
    })
}

/// What a server says about its own failure, as short as it has it.
pub fn complaint(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let Ok(value) = serde_json::from_str::<Value>(&text) else { return text.trim().to_owned() };
    let places = ["/error/message", "/message", "/detail", "/error"];
    let said = places.iter().find_map(|place| value.pointer(place).and_then(Value::as_str));
    said.map_or_else(|| value.to_string(), str::to_owned)
}

/// Tokens of a text of so many bytes, roughly.
pub fn estimate(bytes: usize) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN) as u64
}

fn message(message: &Message) -> Value {
    let mut object = Map::new();
    object.insert("role".into(), json!(message.role.as_str()));
    let text_only = message.content.iter().all(|p| matches!(p, Part::Text(_)));
    let content = match text_only {
        true => json!(message.joined_text()),
        false => message.content.iter().map(part).collect(),
    };
    object.insert("content".into(), content);
    if !message.tool_calls.is_empty() {
        let calls = message.tool_calls.iter().map(|call| {
            json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
        });
        object.insert("tool_calls".into(), calls.collect());
    }
    if let Some(id) = &message.tool_call_id {
        object.insert("tool_call_id".into(), json!(id));
    }
    Value::Object(object)
}

fn part(part: &Part) -> Value {
    let url = |media: &Media| format!("data:{};base64,{}", media.mime, STANDARD.encode(&media.data));
    match part {
        Part::Text(text) => json!({"type": "text", "text": text}),
        Part::Image(media) => json!({"type": "image_url", "image_url": {"url": url(media)}}),
        Part::Audio(media) => {
            let format = media.mime.rsplit(['/', '-']).next().unwrap_or_default();
            json!({"type": "input_audio", "input_audio": {"data": STANDARD.encode(&media.data), "format": format}})
        }
        Part::Video(media) => json!({"type": "video_url", "video_url": {"url": url(media)}}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whet_trajectory::Role;

    fn text(body: &str) -> Result<String, String> {
        reply(body.as_bytes(), 100).map(|reply| reply.text)
    }

    #[test]
    fn a_reply_is_read_in_every_form_that_servers_give_it() {
        let told = |message: &str| text(&format!(r#"{{"choices": [{{"message": {message}}}]}}"#));
        assert_eq!(told(r#"{"content": "yes"}"#), Ok("yes".into()));
        assert_eq!(
            told(r#"{"content": [{"type": "text", "text": "y"}, {"type": "text", "text": "es"}]}"#),
            Ok("yes".into())
        );
        assert_eq!(told(r#"{"content": null, "refusal": "I will not."}"#), Ok("I will not.".into()));
        assert_eq!(told(r#"{"content": null, "reasoning_content": "hm"}"#), Ok(String::new()));
    }

    #[test]
    fn what_is_no_reply_is_an_error() {
        for body in ["", "<html>", "{}", r#"{"choices": []}"#, "[1]"] {
            assert!(text(body).is_err(), "{body}");
        }
    }

    #[test]
    fn tokens_are_the_servers_count_or_an_estimate() {
        let counted = reply(br#"{"choices": [{"message": {"content": "y"}}], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}"#, 100);
        assert_eq!(counted.map(|r| (r.input_tokens, r.output_tokens)), Ok((7, 2)));
        let estimated = reply(br#"{"choices": [{"message": {"content": "12345"}}]}"#, 100);
        assert_eq!(estimated.map(|r| (r.input_tokens, r.output_tokens)), Ok((25, 2)));
    }

    #[test]
    fn a_picture_travels_within_the_request() {
        let url = url::Url::parse("http://localhost/v1").unwrap_or_else(|e| panic!("{e}"));
        let image = Part::Image(Media { mime: "image/png".into(), data: [1, 2, 3].as_slice().into() });
        let mut asked = Message::text(Role::User, "What is this?");
        asked.content.push(image);
        let question = Question { messages: vec![asked], max_tokens: 5, temperature: 0.7 };
        let body = request(&Endpoint::new(url, "m", None), &question);
        assert_eq!(
            body.pointer("/messages/0/content/1/image_url/url"),
            Some(&json!("data:image/png;base64,AQID"))
        );
        assert_eq!((&body["temperature"], &body["max_tokens"]), (&json!(0.7), &json!(5)));
    }
}

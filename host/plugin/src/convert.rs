//! From the run's vocabulary to the contract's types, and back for what a plugin asks a judge.

use crate::bindings::base::whet::plugin::types as wit;
use crate::media::HostMedia;
use wasmtime::component::ResourceTable;
use whet_trajectory::{FinishReason, Group, Media, Message, Part, Role, Sample, ToolCall};

/// A group with all its samples, or with `only` one of them.
pub(crate) fn group(
    group: &Group,
    only: Option<usize>,
    table: &mut ResourceTable,
) -> wasmtime::Result<wit::Group> {
    let samples = match only {
        Some(index) => group.samples.get(index..=index).unwrap_or_default(),
        None => &group.samples,
    };
    Ok(wit::Group {
        id: group.id.0.clone(),
        prompt: messages(&group.prompt, table)?,
        label: group.label.clone(),
        metadata: object(&group.metadata),
        samples: samples.iter().map(|s| sample(s, table)).collect::<Result<_, _>>()?,
    })
}

/// A JSON object as text.
pub(crate) fn object(map: &serde_json::Map<String, serde_json::Value>) -> String {
    if map.is_empty() {
        return "{}".to_owned();
    }
    // A map with text keys always has a JSON form.
    serde_json::to_string(map).unwrap_or_else(|_| "{}".to_owned())
}

/// A conversation; its media enter the call's table.
pub(crate) fn messages(
    messages: &[Message],
    table: &mut ResourceTable,
) -> wasmtime::Result<Vec<wit::Message>> {
    messages.iter().map(|m| message(m, table)).collect()
}

fn message(message: &Message, table: &mut ResourceTable) -> wasmtime::Result<wit::Message> {
    let call = |c: &whet_trajectory::ToolCall| wit::ToolCall {
        id: c.id.clone(),
        name: c.name.clone(),
        arguments: c.arguments.clone(),
    };
    Ok(wit::Message {
        role: match message.role {
            Role::System => wit::Role::System,
            Role::User => wit::Role::User,
            Role::Assistant => wit::Role::Assistant,
            Role::Tool => wit::Role::Tool,
        },
        content: message.content.iter().map(|p| part(p, table)).collect::<Result<_, _>>()?,
        tool_calls: message.tool_calls.iter().map(call).collect(),
        tool_call_id: message.tool_call_id.clone(),
    })
}

fn part(part: &Part, table: &mut ResourceTable) -> wasmtime::Result<wit::Part> {
    let mut push = |media: &Media| table.push(HostMedia(media.clone()));
    Ok(match part {
        Part::Text(text) => wit::Part::Text(text.clone()),
        Part::Image(media) => wit::Part::Image(push(media)?),
        Part::Audio(media) => wit::Part::Audio(push(media)?),
        Part::Video(media) => wit::Part::Video(push(media)?),
    })
}

fn sample(sample: &Sample, table: &mut ResourceTable) -> wasmtime::Result<wit::Sample> {
    Ok(wit::Sample {
        id: sample.id.0.clone(),
        completion: messages(&sample.completion, table)?,
        response: sample.response.clone(),
        finish: match sample.finish {
            FinishReason::Stop => wit::FinishReason::Stop,
            FinishReason::Length => wit::FinishReason::Length,
            FinishReason::ToolCalls => wit::FinishReason::ToolCalls,
            FinishReason::MaxTurns => wit::FinishReason::MaxTurns,
            FinishReason::Aborted => wit::FinishReason::Aborted,
            FinishReason::Environment => wit::FinishReason::Environment,
        },
        prompt_tokens: sample.prompt_tokens,
        response_tokens: sample.response_tokens,
        turns: sample.turns,
        environment_rewards: sample
            .environment_rewards
            .iter()
            .map(|c| wit::Component { name: c.name.clone(), value: c.value })
            .collect(),
    })
}

/// A conversation that a plugin wrote; the media that it gives away leave the call's table.
pub(crate) fn messages_from(
    messages: Vec<wit::Message>,
    table: &mut ResourceTable,
) -> wasmtime::Result<Vec<Message>> {
    messages.into_iter().map(|m| message_from(m, table)).collect()
}

fn message_from(message: wit::Message, table: &mut ResourceTable) -> wasmtime::Result<Message> {
    let call = |c: wit::ToolCall| ToolCall { id: c.id, name: c.name, arguments: c.arguments };
    Ok(Message {
        role: match message.role {
            wit::Role::System => Role::System,
            wit::Role::User => Role::User,
            wit::Role::Assistant => Role::Assistant,
            wit::Role::Tool => Role::Tool,
        },
        content: message.content.into_iter().map(|p| part_from(p, table)).collect::<Result<_, _>>()?,
        tool_calls: message.tool_calls.into_iter().map(call).collect(),
        tool_call_id: message.tool_call_id,
    })
}

fn part_from(part: wit::Part, table: &mut ResourceTable) -> wasmtime::Result<Part> {
    let mut take = |media| table.delete(media).map(|HostMedia(media)| media);
    Ok(match part {
        wit::Part::Text(text) => Part::Text(text),
        wit::Part::Image(media) => Part::Image(take(media)?),
        wit::Part::Audio(media) => Part::Audio(take(media)?),
        wit::Part::Video(media) => Part::Video(take(media)?),
    })
}

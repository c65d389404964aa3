//! Between the generated bindings and this crate's own types, in WebAssembly only.
//!
//! Each world's exports are implemented once, for every plugin of that world; strings and lists
//! are moved, not copied.

use crate::bindings::capabilities::whet::plugin::{log, types as wit};
use crate::bindings::{advantage, filter, meta, reward};
use crate::export::{Plugin, configure, with_plugin};
use crate::{Determinism, Error};
use std::rc::Rc;

/// Sends panic texts to the host's log, where the person who wrote the plugin can read them.
fn report_panics() {
    use std::cell::Cell;
    thread_local!(static INSTALLED: Cell<bool> = const { Cell::new(false) });
    if !INSTALLED.replace(true) {
        std::panic::set_hook(Box::new(|panic| log::log(log::Level::Error, &panic.to_string())));
    }
}

impl<P: Plugin> meta::exports::whet::plugin::meta::Guest for P {
    fn describe() -> meta::exports::whet::plugin::meta::Descriptor {
        use meta::exports::whet::plugin::meta as to;
        report_panics();
        let d = P::descriptor();
        to::Descriptor {
            name: d.name,
            version: d.version,
            summary: d.summary,
            config_schema: d.config_schema,
            components: d.components,
            group_wise: d.group_wise,
            determinism: match d.determinism {
                Determinism::Pure => to::Determinism::Pure,
                Determinism::Seeded => to::Determinism::Seeded,
                Determinism::Recorded => to::Determinism::Recorded,
            },
        }
    }

    fn configure(config: String) -> Result<(), String> {
        report_panics();
        configure::<P>(&config)
    }
}

impl<P: Plugin + crate::Reward> reward::exports::whet::plugin::reward::Guest for P {
    fn score(
        group: wit::Group,
    ) -> Result<Vec<reward::exports::whet::plugin::reward::Outcome>, wit::PluginError> {
        use reward::exports::whet::plugin::reward as to;
        report_panics();
        let group = group_in(group);
        let outcomes = with_plugin(|plugin: &P| plugin.score(&group)).map_err(error_out)?;
        let outcome_out = |outcome| match outcome {
            crate::Outcome::Scored(grade) => Ok(to::Outcome::Scored(to::Grade {
                components: grade.components.into_iter().map(component_out).collect(),
                spans: grade
                    .spans
                    .into_iter()
                    .map(|s| to::Span { start: s.start, end: s.end, value: s.value })
                    .collect(),
                note: grade.note,
            })),
            crate::Outcome::Unscorable(reason) => Ok(to::Outcome::Unscorable(reason)),
            crate::Outcome::Failed(error) => Err(error_out(error)),
        };
        outcomes.into_iter().map(outcome_out).collect()
    }
}

impl<P: Plugin + crate::Filter> filter::exports::whet::plugin::filter::Guest for P {
    fn keep_rows(
        rows: Vec<filter::exports::whet::plugin::filter::Row>,
    ) -> Result<Vec<filter::exports::whet::plugin::filter::Verdict>, wit::PluginError> {
        report_panics();
        let rows: Vec<crate::Row> = rows
            .into_iter()
            .map(|row| crate::Row {
                id: row.id,
                prompt: messages_in(row.prompt),
                label: row.label,
                metadata: row.metadata,
                prompt_tokens: row.prompt_tokens,
            })
            .collect();
        verdicts_out(with_plugin(|plugin: &P| plugin.keep_rows(&rows)))
    }

    fn keep_groups(
        groups: Vec<filter::exports::whet::plugin::filter::ScoredGroup>,
    ) -> Result<Vec<filter::exports::whet::plugin::filter::Verdict>, wit::PluginError> {
        report_panics();
        let groups: Vec<crate::ScoredGroup> = groups
            .into_iter()
            .map(|g| crate::ScoredGroup { group: group_in(g.group), rewards: g.rewards })
            .collect();
        verdicts_out(with_plugin(|plugin: &P| plugin.keep_groups(&groups)))
    }
}

fn verdicts_out(
    verdicts: Result<Result<Vec<crate::Verdict>, Error>, Error>,
) -> Result<Vec<filter::exports::whet::plugin::filter::Verdict>, wit::PluginError> {
    let verdict_out = |v: crate::Verdict| filter::exports::whet::plugin::filter::Verdict {
        keep: v.keep,
        reason: v.reason,
        keep_if_short: v.keep_if_short,
    };
    let verdicts = verdicts.and_then(|inner| inner).map_err(error_out)?;
    Ok(verdicts.into_iter().map(verdict_out).collect())
}

impl<P: Plugin + crate::Advantage> advantage::exports::whet::plugin::advantage::Guest for P {
    fn estimate(
        batch: advantage::exports::whet::plugin::advantage::Batch,
    ) -> Result<advantage::exports::whet::plugin::advantage::Advantages, wit::PluginError> {
        use advantage::exports::whet::plugin::advantage as to;
        report_panics();
        let batch = crate::Batch {
            sample_ids: batch.sample_ids,
            groups: batch.groups,
            rewards: batch.rewards,
            components: batch.components,
            lengths: batch.lengths,
            mask: batch.mask,
            rollout_logprobs: batch.rollout_logprobs,
            old_logprobs: batch.old_logprobs,
            reference_logprobs: batch.reference_logprobs,
            values: batch.values,
            versions: batch.versions,
            turns: batch.turns,
        };
        let advantages = with_plugin(|plugin: &P| plugin.estimate(&batch)).and_then(|inner| inner);
        match advantages.map_err(error_out)? {
            crate::Advantages::PerSample(values) => Ok(to::Advantages::PerSample(values)),
            crate::Advantages::PerToken(values) => Ok(to::Advantages::PerToken(values)),
        }
    }
}

fn group_in(group: wit::Group) -> crate::Group {
    crate::Group {
        id: group.id,
        prompt: messages_in(group.prompt),
        label: group.label,
        metadata: group.metadata,
        samples: group.samples.into_iter().map(sample_in).collect(),
    }
}

fn sample_in(sample: wit::Sample) -> crate::Sample {
    crate::Sample {
        id: sample.id,
        completion: messages_in(sample.completion),
        response: sample.response,
        finish: match sample.finish {
            wit::FinishReason::Stop => crate::FinishReason::Stop,
            wit::FinishReason::Length => crate::FinishReason::Length,
            wit::FinishReason::ToolCalls => crate::FinishReason::ToolCalls,
            wit::FinishReason::MaxTurns => crate::FinishReason::MaxTurns,
            wit::FinishReason::Aborted => crate::FinishReason::Aborted,
            wit::FinishReason::Environment => crate::FinishReason::Environment,
        },
        prompt_tokens: sample.prompt_tokens,
        response_tokens: sample.response_tokens,
        turns: sample.turns,
        environment_rewards: sample
            .environment_rewards
            .into_iter()
            .map(|c| crate::Component { name: c.name, value: c.value })
            .collect(),
    }
}

fn messages_in(messages: Vec<wit::Message>) -> Vec<crate::Message> {
    let message_in = |message: wit::Message| crate::Message {
        role: match message.role {
            wit::Role::System => crate::Role::System,
            wit::Role::User => crate::Role::User,
            wit::Role::Assistant => crate::Role::Assistant,
            wit::Role::Tool => crate::Role::Tool,
        },
        content: message.content.into_iter().map(part_in).collect(),
        tool_calls: message
            .tool_calls
            .into_iter()
            .map(|c| crate::ToolCall { id: c.id, name: c.name, arguments: c.arguments })
            .collect(),
        tool_call_id: message.tool_call_id,
    };
    messages.into_iter().map(message_in).collect()
}

fn part_in(part: wit::Part) -> crate::Part {
    match part {
        wit::Part::Text(text) => crate::Part::Text(text),
        wit::Part::Image(media) => crate::Part::Image(crate::Media(Rc::new(media))),
        wit::Part::Audio(media) => crate::Part::Audio(crate::Media(Rc::new(media))),
        wit::Part::Video(media) => crate::Part::Video(crate::Media(Rc::new(media))),
    }
}

/// Messages for the judge. A medium that the plugin still shares is copied: the contract moves it.
pub(crate) fn messages_out(messages: Vec<crate::Message>) -> Vec<wit::Message> {
    let message_out = |message: crate::Message| wit::Message {
        role: match message.role {
            crate::Role::System => wit::Role::System,
            crate::Role::User => wit::Role::User,
            crate::Role::Assistant => wit::Role::Assistant,
            crate::Role::Tool => wit::Role::Tool,
        },
        content: message.content.into_iter().map(part_out).collect(),
        tool_calls: message
            .tool_calls
            .into_iter()
            .map(|c| wit::ToolCall { id: c.id, name: c.name, arguments: c.arguments })
            .collect(),
        tool_call_id: message.tool_call_id,
    };
    messages.into_iter().map(message_out).collect()
}

fn part_out(part: crate::Part) -> wit::Part {
    let owned = |media: crate::Media| {
        Rc::try_unwrap(media.0).unwrap_or_else(|shared| {
            let size = u32::try_from(shared.size()).unwrap_or(u32::MAX);
            wit::Media::new(&shared.mime(), &shared.read(0, size))
        })
    };
    match part {
        crate::Part::Text(text) => wit::Part::Text(text),
        crate::Part::Image(media) => wit::Part::Image(owned(media)),
        crate::Part::Audio(media) => wit::Part::Audio(owned(media)),
        crate::Part::Video(media) => wit::Part::Video(owned(media)),
    }
}

fn component_out(component: crate::Component) -> wit::Component {
    wit::Component { name: component.name, value: component.value }
}

fn error_out(error: Error) -> wit::PluginError {
    match error {
        Error::InvalidInput(why) => wit::PluginError::InvalidInput(why),
        Error::Unavailable(why) => wit::PluginError::Unavailable(why),
        Error::Internal(why) => wit::PluginError::Internal(why),
    }
}

//! `judge`: a language model's verdict on the response.
//!
//! The recipe grants `judge` and names the model in `[judge]`; the plugin asks it once per sample and reads
//! its verdict. The parsed verdict is the note. A reply without a verdict is unscorable, a judge that does
//! not answer is an error: neither is ever 0.
//!
//! | key | default | meaning |
//! |---|---|---|
//! | `scale` | `"binary"`-like | `"binary"`: pass 1, fail 0. `"pairwise"`: the response is A, the label B; A is 1, B 0, a tie 0.5. `"score"`: 0 to `scale_max`, worth its part. Two numbers: anything between, worth itself. More numbers: one of them, worth itself. Without it, pass, fail, A, B or a tie, whatever the judge says |
//! | `scale_max` | 10 with `"score"` | the best score; alone it means `"score"` |
//! | `labels` | | names that the judge chooses from: a list, whose first is worth 1 and the others 0, or an object that says what each is worth |
//! | `prompt` | by the scale | the question, with `{{question}}`, `{{response}}`, `{{label}}` and `{{metadata.NAME}}` |
//! | `system` | none | a system message before it |
//! | `route` | the first | one of the recipe's judges |
//! | `max_tokens` | 1024 | the longest reply; thoughts count |
//! | `temperature` | 0 | |
//! | `keep_reasoning` | false | shows the judge the response's reasoning too |
//!
//! Where a reply says its verdict is told in [`verdict`]. Decided where opinions differ: a partly right
//! answer is not pass and not fail, a score out of range is not cut to the range, a fraction of another
//! maximum is not converted, and a judge that names both sides without choosing has no verdict.

mod json;
mod prompt;
mod scale;
mod verdict;
mod word;

use prompt::{Place, Template, Texts};
use scale::Scale;
use serde_json::{Map, Value};
use whet_plugin::host::judge::{Request, chat};
use whet_plugin::{Configured, Determinism, Group, Message, Outcome, Part, Reward, Role, Sample, reward};

/// Characters of a reply that a reason quotes.
const QUOTED: usize = 120;

#[derive(Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    scale: Option<Value>,
    scale_max: Option<f64>,
    labels: Option<Value>,
    prompt: Option<String>,
    system: Option<String>,
    route: Option<String>,
    max_tokens: Option<u32>,
    temperature: f32,
    keep_reasoning: bool,
}

struct Judge {
    scale: Scale,
    template: Template,
    system: Option<String>,
    route: Option<String>,
    max_tokens: u32,
    temperature: f32,
    keep_reasoning: bool,
}

impl Configured for Judge {
    type Config = Config;
    const SCHEMA: &'static str = r#"{
  "type": "object",
  "properties": {
    "scale": {"anyOf": [{"enum": ["binary", "pairwise", "score"]}, {"type": "array", "items": {"type": "number"}, "minItems": 2}], "description": "binary: pass 1, fail 0; pairwise: response A against label B; score: 0 to scale_max, worth its part; two numbers: anything between; more numbers: one of them. Without it pass, fail, A, B or a tie"},
    "scale_max": {"type": "number", "exclusiveMinimum": 0, "description": "the best score, 10 unless given; alone it means the scale \"score\""},
    "labels": {"anyOf": [{"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 2}, {"type": "object", "additionalProperties": {"type": "number"}}], "description": "names to choose from: of a list the first is worth 1 and the others 0, an object says what each is worth"},
    "prompt": {"type": "string", "minLength": 1, "description": "the question, with {{question}}, {{response}}, {{label}} and {{metadata.NAME}}"},
    "system": {"type": "string", "minLength": 1, "description": "a system message before the question"},
    "route": {"type": "string", "minLength": 1, "description": "one of the recipe's judges; its first unless given"},
    "max_tokens": {"type": "integer", "minimum": 1, "default": 1024, "description": "longest reply; thoughts count"},
    "temperature": {"type": "number", "minimum": 0, "default": 0, "description": "0 takes the likeliest reply"},
    "keep_reasoning": {"type": "boolean", "default": false, "description": "show the judge the response's reasoning too"}
  },
  "additionalProperties": false
}"#;

    fn new(config: Config) -> Result<Self, String> {
        let scale = scale(&config)?;
        let template = config.prompt.clone().unwrap_or_else(|| question_for(&scale));
        Ok(Judge {
            template: Template::parse(&template)?,
            scale,
            system: config.system,
            route: config.route,
            max_tokens: config.max_tokens.unwrap_or(1024),
            temperature: config.temperature,
            keep_reasoning: config.keep_reasoning,
        })
    }
}

fn scale(config: &Config) -> Result<Scale, String> {
    if let Some(labels) = &config.labels {
        if config.scale.is_some() || config.scale_max.is_some() {
            return Err("`labels` and a `scale` exclude each other".into());
        }
        let labels: Vec<(String, f64)> = match labels {
            Value::Array(names) => names
                .iter()
                .enumerate()
                .map(|(i, name)| (name.as_str().unwrap_or_default().trim().to_owned(), f64::from(i == 0)))
                .collect(),
            Value::Object(worth) => worth
                .iter()
                .map(|(name, worth)| (name.trim().to_owned(), worth.as_f64().unwrap_or(0.0)))
                .collect(),
            _ => Vec::new(),
        };
        let twice = |(i, (name, _)): (usize, &(String, f64))| {
            labels[..i].iter().any(|(other, _)| other.eq_ignore_ascii_case(name))
        };
        if labels.len() < 2 || labels.iter().any(|(name, _)| name.is_empty()) {
            return Err("`labels` needs at least two names".into());
        }
        if labels.iter().enumerate().any(twice) {
            return Err("`labels` has a name twice, or two that differ by their case alone".into());
        }
        return Ok(Scale::Labels(labels));
    }
    let most = config.scale_max.unwrap_or(10.0);
    match &config.scale {
        None if config.scale_max.is_some() => Ok(Scale::Score(most)),
        None => Ok(Scale::Auto),
        Some(Value::String(name)) if name == "score" => Ok(Scale::Score(most)),
        Some(_) if config.scale_max.is_some() => Err("`scale_max` belongs to the scale \"score\"".into()),
        Some(Value::String(name)) if name == "binary" => Ok(Scale::Binary),
        Some(Value::String(name)) if name == "pairwise" => Ok(Scale::Pairwise),
        Some(Value::Array(numbers)) => {
            let numbers: Vec<f64> = numbers.iter().filter_map(Value::as_f64).collect();
            match numbers.as_slice() {
                [low, high] if low < high => Ok(Scale::Range(*low, *high)),
                [_, _] => Err("a `scale` of two numbers goes from the lower to the higher".into()),
                [_, _, _, ..] => Ok(Scale::Ratings(numbers)),
                _ => Err("a `scale` in numbers needs at least two".into()),
            }
        }
        Some(other) => {
            Err(format!("`scale` is {other}; write \"binary\", \"pairwise\", \"score\" or numbers"))
        }
    }
}

/// The prompt that asks for the scale's verdicts.
fn question_for(scale: &Scale) -> String {
    let list = |numbers: &[f64]| numbers.iter().map(f64::to_string).collect::<Vec<_>>().join(", ");
    match scale {
        Scale::Auto | Scale::Binary => prompt::binary(),
        Scale::Pairwise => prompt::pairwise(),
        Scale::Score(most) => prompt::score(&format!("a number from 0 (useless) to {most} (perfect)")),
        Scale::Range(low, high) => prompt::score(&format!("a number from {low} (worst) to {high} (best)")),
        Scale::Ratings(ratings) => prompt::score(&format!("one of {}", list(ratings))),
        Scale::Labels(labels) => {
            prompt::labels(&labels.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", "))
        }
    }
}

impl Reward for Judge {
    const DETERMINISM: Determinism = Determinism::Recorded;

    fn score(&self, group: &Group) -> Vec<Outcome> {
        let metadata = match group.metadata_as::<Map<String, Value>>() {
            Ok(metadata) => metadata,
            Err(error) => return group.all(Outcome::Failed(error)),
        };
        if group.label.is_none() && self.template.holds(&Place::Label) {
            return group.all(Outcome::unscorable("the row has no label, which the prompt shows the judge"));
        }
        let question = conversation(&group.prompt);
        group
            .samples
            .iter()
            .map(|sample| self.outcome(sample, &question, group.label.as_deref(), &metadata))
            .collect()
    }
}

impl Judge {
    fn outcome(
        &self,
        sample: &Sample,
        question: &str,
        label: Option<&str>,
        metadata: &Map<String, Value>,
    ) -> Outcome {
        let response = match self.keep_reasoning {
            true => sample.response.as_str(),
            // A response that is all thought is shown as the nothing that it says.
            false => answer_text::behind_reasoning(&sample.response).unwrap_or_default(),
        };
        let texts = Texts { question, response: response.trim(), label, metadata };
        let asked = match self.template.fill(&texts) {
            Ok(asked) => asked,
            Err(why) => return Outcome::unscorable(why),
        };
        let say = |role, text: &str| Message {
            role,
            content: vec![Part::Text(text.to_owned())],
            tool_calls: Vec::new(),
            tool_call_id: None,
        };
        let mut messages: Vec<Message> = self.system.iter().map(|text| say(Role::System, text)).collect();
        messages.push(say(Role::User, &asked));
        let request = Request {
            messages,
            max_tokens: self.max_tokens,
            temperature: self.temperature,
            route: self.route.clone(),
        };
        match chat(request) {
            Err(failure) => Outcome::Failed(failure.into()),
            Ok(reply) => match verdict::verdict(&reply.text, &self.scale) {
                Ok(verdict) => Outcome::scored(verdict.reward).note(verdict.note),
                Err(why) => Outcome::unscorable(format!("{why}: {}", end_of(&reply.text))),
            },
        }
    }
}

/// The end of a reply, where a verdict would be.
fn end_of(reply: &str) -> String {
    let reply = reply.trim();
    let skipped = reply.chars().count().saturating_sub(QUOTED);
    let end: String = reply.chars().skip(skipped).collect();
    if skipped > 0 { format!("…{end}") } else { end }
}

/// The conversation as text: a lone question as it is, otherwise with who says what.
fn conversation(messages: &[Message]) -> String {
    let text = |message: &Message| {
        let texts = message.content.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<String>()
    };
    match messages {
        [only] => text(only),
        several => {
            let lines = several.iter().map(|message| {
                let who = match message.role {
                    Role::System => "system",
                    Role::User => "user",
                    Role::Assistant => "assistant",
                    Role::Tool => "tool",
                };
                format!("[{who}]\n{}", text(message))
            });
            lines.collect::<Vec<_>>().join("\n\n")
        }
    }
}

reward!(Judge: Configured);

#[cfg(test)]
mod tests;

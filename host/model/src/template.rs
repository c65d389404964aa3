//! Chat templates: Jinja as transformers runs it.
//!
//! The environment has `trim_blocks`, `lstrip_blocks` and loop controls, Python's methods on values and its `%`,
//! macros that take any arguments, `tojson` as `json.dumps(ensure_ascii=False)`, `raise_exception`, `strftime_now`, and the
//! `{% generation %}` tag that marks what the assistant says. Rendering has a budget of work, so a
//! hostile template ends with an error.

mod clock;
mod dumps;
mod filters;
mod lexis;
mod macros;
mod methods;
mod percent;
mod printf;
mod python;
mod rewrite;

use minijinja::value::{Kwargs, Serde, Value as Jinja};
use minijinja::{Environment, Error, ErrorKind, State, syntax::SyntaxConfig};
use serde_json::{Map, Value, json};
use std::ops::Range;
use std::sync::Arc;

/// Steps of one rendering; a conversation of a thousand turns with tools takes less than a tenth.
const FUEL: u64 = 20_000_000;
/// The function behind the `generation` tag.
const GENERATION: &str = "__generation__";
/// Names of the variables that hold the span markers.
const MARKS: [&str; 2] = ["__generation_begin__", "__generation_end__"];

/// Why a template cannot be used.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum TemplateError {
    /// The template itself is malformed.
    #[error("the chat template is malformed{}: {reason}", at(.line))]
    Malformed {
        /// What the parser says.
        reason: String,
        /// Line of the template, from 1.
        line: Option<usize>,
    },
    /// The template refused the messages by `raise_exception`.
    #[error("the chat template refuses these messages: {0}")]
    Refused(String),
    /// Rendering failed.
    #[error("the chat template failed{}: {reason}", at(.line))]
    Failed {
        /// What failed.
        reason: String,
        /// Line of the template, from 1.
        line: Option<usize>,
    },
    /// There is nothing to render.
    #[error("a conversation needs at least one message")]
    Empty,
    /// The rendering exceeds its budget of work.
    #[error("the chat template runs too long; it was stopped")]
    Endless,
}

fn at(line: &Option<usize>) -> String {
    line.map(|n| format!(" at line {n}")).unwrap_or_default()
}

/// A compiled chat template. Clones share it.
#[derive(Clone)]
pub struct ChatTemplate {
    environment: Arc<Environment<'static>>,
    special: Map<String, Value>,
    clock: Option<i64>,
}

impl std::fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatTemplate").field("special", &self.special).finish_non_exhaustive()
    }
}

impl ChatTemplate {
    /// Compiles a template.
    ///
    /// * `tool_use`: the template for conversations with tools, of models that have one apart
    /// * `special`: variables such as `bos_token`
    ///
    /// # Errors
    /// When a template is malformed.
    pub fn new(
        source: &str,
        tool_use: Option<&str>,
        special: Map<String, Value>,
    ) -> Result<ChatTemplate, TemplateError> {
        let mut environment = environment();
        for (name, source) in [("default", Some(source)), ("tool_use", tool_use)] {
            if let Some(source) = source {
                environment
                    .add_template_owned(name, rewrite::for_minijinja(source))
                    .map_err(|e| TemplateError::Malformed { reason: reason(&e), line: e.line() })?;
            }
        }
        Ok(ChatTemplate { environment: Arc::new(environment), special, clock: None })
    }

    /// Fixes what `strftime_now` sees, in seconds since 1970 UTC, for prompts that do not change with
    /// the day.
    pub fn at(mut self, seconds: i64) -> ChatTemplate {
        self.clock = Some(seconds);
        self
    }

    /// The text of a conversation.
    ///
    /// * `messages`: objects with `role` and `content`; fields that are null are left out
    /// * `tools`: a list of tool descriptions, as JSON schemas
    /// * `kwargs`: further variables, such as `enable_thinking`
    ///
    /// # Errors
    /// When the template refuses the messages or fails.
    pub fn render(
        &self,
        messages: &[Value],
        tools: Option<&Value>,
        add_generation_prompt: bool,
        kwargs: &Map<String, Value>,
    ) -> Result<String, TemplateError> {
        self.run(messages, tools, add_generation_prompt, kwargs, ["", ""])
    }

    /// As [`ChatTemplate::render`], with the byte ranges that `{% generation %}` tags mark as the
    /// assistant's; a template without the tag has none.
    ///
    /// # Errors
    /// When the template refuses the messages or fails.
    pub fn render_with_mask(
        &self,
        messages: &[Value],
        tools: Option<&Value>,
        add_generation_prompt: bool,
        kwargs: &Map<String, Value>,
    ) -> Result<(String, Vec<Range<usize>>), TemplateError> {
        // Marks that nothing a template can print contains: it prints parts of these inputs.
        let plain = self.render(messages, tools, add_generation_prompt, kwargs)?;
        let mut unused = ('\u{E000}'..='\u{F8FF}').filter(|c| !plain.contains(*c)).map(String::from);
        let (Some(begin), Some(end)) = (unused.next(), unused.next()) else { return Ok((plain, Vec::new())) };
        let marked = self.run(messages, tools, add_generation_prompt, kwargs, [&begin, &end])?;
        let (mut text, mut spans) = (String::with_capacity(plain.len()), Vec::new());
        let mut rest = marked.as_str();
        while let Some((before, after)) = rest.split_once(&begin) {
            text.push_str(before);
            let (inside, after) = after.split_once(&end).unwrap_or((after, ""));
            spans.push(text.len()..text.len() + inside.len());
            text.push_str(inside);
            rest = after;
        }
        text.push_str(rest);
        Ok((text, spans))
    }

    /// Renders any template text in this environment, with `context` as its variables.
    ///
    /// # Errors
    /// When the text is malformed or fails.
    pub fn render_text(&self, source: &str, context: &Map<String, Value>) -> Result<String, TemplateError> {
        let source = rewrite::for_minijinja(source);
        let template = self.environment.template_from_named_str("text", &source);
        let template =
            template.map_err(|e| TemplateError::Malformed { reason: reason(&e), line: e.line() })?;
        let mut context = context.clone();
        context.insert(python::CLOCK.into(), json!(self.clock));
        template.render(Jinja::from(Serde(context))).map_err(|e| failed(&e))
    }

    fn run(
        &self,
        messages: &[Value],
        tools: Option<&Value>,
        add_generation_prompt: bool,
        kwargs: &Map<String, Value>,
        marks: [&str; 2],
    ) -> Result<String, TemplateError> {
        if messages.is_empty() {
            return Err(TemplateError::Empty);
        }
        let mut context = Map::new();
        context.insert("documents".into(), Value::Null);
        context.extend(self.special.clone());
        context.extend(kwargs.clone());
        context.insert("messages".into(), messages.iter().map(without_nulls).collect());
        context.insert("tools".into(), tools.cloned().unwrap_or_default());
        context.insert("add_generation_prompt".into(), json!(add_generation_prompt));
        context.insert(python::CLOCK.into(), json!(self.clock));
        for (name, mark) in MARKS.iter().zip(marks) {
            context.insert((*name).into(), json!(mark));
        }
        let with_tools = tools.is_some_and(|t| !t.is_null());
        let template = with_tools.then(|| self.environment.get_template("tool_use").ok()).flatten();
        let template = match template {
            Some(template) => template,
            None => self.environment.get_template("default").map_err(|e| failed(&e))?,
        };
        template.render(Jinja::from(Serde(context))).map_err(|e| failed(&e))
    }
}

/// A message's fields that are null are absent to the template.
fn without_nulls(message: &Value) -> Value {
    match message {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, v)| !v.is_null());
            Value::Object(kept.map(|(k, v)| (k.clone(), v.clone())).collect())
        }
        other => other.clone(),
    }
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.unwrap_or_default());
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_fuel(Some(FUEL));
    environment.set_debug(false);
    environment.add_filter("tojson", dumps::tojson);
    environment.add_function(GENERATION, generation);
    filters::install(&mut environment);
    macros::install(&mut environment);
    percent::install(&mut environment);
    printf::install(&mut environment);
    python::install(&mut environment);
    environment
}

/// `{% generation %}`: its body, between marks where they are asked for.
fn generation(state: &mut State, kwargs: Kwargs) -> Result<String, Error> {
    let caller: Jinja = kwargs.get("caller")?;
    let body = caller.call(state, &[])?;
    let mark = |name: &str| state.lookup(name).map(|v| v.to_string()).unwrap_or_default();
    Ok(format!("{}{body}{}", mark(MARKS[0]), mark(MARKS[1])))
}

fn failed(error: &Error) -> TemplateError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(current) = cause {
        if let Some(python::Raised(message)) = current.downcast_ref() {
            return TemplateError::Refused(message.clone());
        }
        if let Some(inner) = current.downcast_ref::<Error>()
            && inner.kind() == ErrorKind::OutOfFuel
        {
            return TemplateError::Endless;
        }
        cause = current.source();
    }
    TemplateError::Failed { reason: reason(error), line: error.line() }
}

fn reason(error: &Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(source: &str) -> Result<String, TemplateError> {
        let template = ChatTemplate::new(source, None, Map::new())?;
        template.render(&[json!({"role": "user", "content": "a"})], None, false, &Map::new())
    }

    #[test]
    fn a_malformed_template_names_its_line() {
        let error = render("ok\n{% if %}").unwrap_err();
        assert!(matches!(error, TemplateError::Malformed { line: Some(2), .. }), "{error}");
    }

    #[test]
    fn an_endless_template_is_stopped() {
        let hostile = "{% for a in range(10000) %}{% for b in range(10000) %}x{% endfor %}{% endfor %}";
        assert_eq!(render(hostile).unwrap_err(), TemplateError::Endless);
        for wide in [
            "{{ 'x' * 100000000000 }}",
            "{{ 'x'.center(100000000000) }}",
            "{{ '%*d' % (100000000000, 1) }}",
            "{{ ('\\n' * 100000) | indent(1000000) }}",
        ] {
            assert!(render(wide).is_err(), "{wide}");
        }
    }

    #[test]
    fn what_the_template_raises_is_the_message() {
        let error = render("{{ raise_exception('no system role') }}").unwrap_err();
        assert_eq!(error, TemplateError::Refused("no system role".into()));
    }

    #[test]
    fn text_that_looks_like_a_mark_does_not_move_the_spans() {
        let source = "{% for m in messages %}{{ m.content }}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}";
        let template = ChatTemplate::new(source, None, Map::new()).unwrap();
        let (text, spans) = template
            .render_with_mask(&[json!({"role": "user", "content": "\u{E000}é"})], None, false, &Map::new())
            .unwrap();
        assert_eq!(text, "\u{E000}é\u{E000}é");
        assert_eq!((spans.len(), &text[spans[0].clone()]), (1, "\u{E000}é"));
        assert_eq!(spans[0].start, 5);
    }

    #[test]
    fn a_template_of_its_own_serves_conversations_with_tools() {
        let template = ChatTemplate::new("plain", Some("tools"), Map::new()).unwrap();
        let message = [json!({"role": "user", "content": "a"})];
        let tools = json!([{"name": "f"}]);
        assert_eq!(template.render(&message, None, false, &Map::new()).unwrap(), "plain");
        assert_eq!(template.render(&message, Some(&tools), false, &Map::new()).unwrap(), "tools");
    }
}

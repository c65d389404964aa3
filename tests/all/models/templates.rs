//! Chat templates: renderings to the byte, token ids, errors, and what the assistant said.

use super::{entries, fixtures, ids, json, text};
use serde_json::{Map, Value};
use whet_model::{ChatTemplate, TemplateError, Tokenizer};

struct File {
    name: String,
    content: Value,
}

fn files() -> Vec<File> {
    let all = entries(&fixtures().join("chat_templates")).into_iter();
    let found: Vec<File> =
        all.map(|path| File { name: path.display().to_string(), content: json(&path) }).collect();
    assert!(!found.is_empty());
    found
}

fn cases(file: &File) -> &[Value] {
    file.content["cases"].as_array().unwrap()
}

fn tokenizer(file: &File) -> Tokenizer {
    let folder = fixtures().join("chat_templates").join(text(&file.content, "tokenizer"));
    Tokenizer::from_file(&folder.join("tokenizer.json")).unwrap()
}

/// Seconds of a `2024-07-26T12:00:00`.
fn seconds(clock: &str) -> i64 {
    let part = |from: usize, to: usize| clock[from..to].parse::<i64>().unwrap();
    let (year, month, day) = (part(0, 4), part(5, 7), part(8, 10));
    let leap = |y: i64| y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
    let lengths = [31, 28 + i64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let days: i64 = (1970..year).map(|y| 365 + i64::from(leap(y))).sum::<i64>()
        + lengths[..month as usize - 1].iter().sum::<i64>()
        + day
        - 1;
    days * 86_400 + part(11, 13) * 3600 + part(14, 16) * 60 + part(17, 19)
}

struct Call<'a> {
    template: ChatTemplate,
    messages: &'a [Value],
    tools: Option<Value>,
    prompt: bool,
    kwargs: Map<String, Value>,
}

fn call<'a>(file: &File, case: &'a Value) -> Call<'a> {
    let special = file.content["special_tokens"].as_object().unwrap().clone();
    let mut template = ChatTemplate::new(text(&file.content, "template"), None, special).unwrap();
    if let Some(clock) = case.get("clock") {
        template = template.at(seconds(clock.as_str().unwrap()));
    }
    let mut kwargs = case["kwargs"].as_object().unwrap().clone();
    let tools = kwargs.shift_remove("tools");
    let prompt = kwargs.shift_remove("add_generation_prompt") == Some(Value::Bool(true));
    Call { template, messages: case["messages"].as_array().unwrap(), tools, prompt, kwargs }
}

#[test]
fn conversations_render_to_the_byte_and_refusals_keep_their_words() {
    for file in files().iter().filter(|f| f.content.get("context").is_none()) {
        let tokenizer = tokenizer(file);
        for case in cases(file) {
            let what = format!("{} {}", file.name, case["name"]);
            let call = call(file, case);
            let got = call.template.render(call.messages, call.tools.as_ref(), call.prompt, &call.kwargs);
            match case.get("rendered") {
                Some(rendered) => {
                    let got = got.unwrap_or_else(|e| panic!("{what}: {e}"));
                    assert_eq!(got, rendered.as_str().unwrap(), "{what}");
                    let encoded = tokenizer.encode(&got, false).unwrap();
                    assert_eq!(encoded, ids(&case["input_ids"]), "{what}");
                }
                None => {
                    let (error, message) = (got.unwrap_err(), text(&case["error"], "message"));
                    if case["error"]["type"] == "TemplateError" {
                        assert_eq!(error, TemplateError::Refused(message.into()), "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn what_the_assistant_said_is_marked() {
    let mut masks = 0;
    for file in files().iter().filter(|f| f.content.get("context").is_none()) {
        let tokenizer = tokenizer(file);
        for case in cases(file).iter().filter(|c| c.get("assistant_char_spans").is_some()) {
            let what = format!("{} {}", file.name, case["name"]);
            let call = call(file, case);
            let (rendered, spans) = call
                .template
                .render_with_mask(call.messages, call.tools.as_ref(), call.prompt, &call.kwargs)
                .unwrap();
            assert_eq!(rendered, text(case, "rendered"), "{what}");
            let chars = |byte: usize| rendered[..byte].chars().count() as u64;
            let got: Value = spans.iter().map(|s| Value::from(vec![chars(s.start), chars(s.end)])).collect();
            assert_eq!(got, case["assistant_char_spans"], "{what}");
            let (got, mask) = tokenizer.encode_with_mask(&rendered, &spans).unwrap();
            assert_eq!(got, ids(&case["input_ids"]), "{what}");
            let mask: Vec<u32> = mask.into_iter().map(u32::from).collect();
            assert_eq!(mask, ids(&case["assistant_masks"]), "{what}");
            masks += 1;
        }
    }
    assert!(masks > 0);
}

#[test]
fn features_of_jinja_render_as_in_python() {
    for file in files().iter().filter(|f| f.content.get("context").is_some()) {
        let clock = seconds(text(&file.content, "clock"));
        let template = ChatTemplate::new("", None, Map::new()).unwrap().at(clock);
        let context = file.content["context"].as_object().unwrap();
        let mut wrong = Vec::new();
        for case in cases(file) {
            let source = text(case, "template");
            let got = template.render_text(source, context);
            match (case.get("rendered").and_then(Value::as_str), got) {
                (Some(expected), Ok(got)) if got == expected => {}
                (None, Err(_)) => {}
                (expected, got) => wrong.push(format!("{source}\n  expected {expected:?}\n  got {got:?}")),
            }
        }
        assert!(wrong.is_empty(), "{}: {} differ\n{}", file.name, wrong.len(), wrong.join("\n"));
    }
}

//! The recipe that `whet recipe new` writes: short, commented, and complete, or saying what is left to fill in.
//!
//! Must not open plugins: what one asks for is told by whoever looked at it.

use std::fmt::Write as _;

/// What a starter recipe is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Starter {
    /// One line for the head, as in "Teach a small model to add".
    pub task: String,
    /// The model's source.
    pub model: String,
    /// Training data.
    pub train: String,
    /// Test data.
    pub test: Option<String>,
    /// A standard plugin's name, or a path to a `.wasm` file.
    pub reward: String,
    /// Keys that the plugin's configuration must have, each with what it is.
    pub required: Vec<(String, String)>,
    /// Capabilities that the plugin asks for: `judge`, `http`, `random`, `store`.
    pub asks: Vec<String>,
}

impl Default for Starter {
    fn default() -> Self {
        Starter {
            task: "Teach a small model, rewarded by a sandboxed plugin.".into(),
            model: "hf://HuggingFaceTB/SmolLM2-135M-Instruct".into(),
            train: "train.jsonl".into(),
            test: Some("test.jsonl".into()),
            reward: "math-answer".into(),
            required: Vec::new(),
            asks: Vec::new(),
        }
    }
}

/// What is known of a standard reward: a configuration to begin with, a row that it can grade, and its limits.
struct Known {
    config: Option<(&'static str, &'static str)>,
    row: &'static str,
    limits: &'static str,
}

fn known(reward: &str) -> Known {
    let usual = Known {
        config: None,
        row: r#"{"prompt": "1 + 1 =", "label": "2"}"#,
        limits: r#"{ time = "200ms", memory = "32MiB" }"#,
    };
    let following =
        r#"{"prompt": "Name two colours.", "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}"#;
    let choosing = r#"{"prompt": "Which is even? A: 3, B: 4", "label": "B", "choices": ["3", "4"]}"#;
    match reward {
        "length" => Known {
            config: Some((
                "{ target = 64, mode = \"at-most\" }",
                "tokens that a response may have before it costs; it grades nothing else",
            )),
            ..usual
        },
        "format" => Known {
            config: Some((
                "{ tags = [\"think\", \"answer\"] }",
                "tags in order; or pattern = \"a regular expression\"",
            )),
            ..usual
        },
        "remote" => Known {
            config: Some((
                "{ url = \"http://localhost:9000/score\" }",
                "FILL IN: the address of your server",
            )),
            ..usual
        },
        "judge" => Known {
            config: Some((
                "{ scale = \"binary\" }",
                "the judge says pass or fail; `prompt` is what it is asked",
            )),
            ..usual
        },
        "python-tests" => Known {
            config: Some(("{ component = \"fraction\" }", "the share of the tests that pass")),
            row: r#"{"prompt": "Write double(n).", "tests": ["assert double(2) == 4"], "entry_point": "double"}"#,
            limits: r#"{ time = "5s", memory = "128MiB" }"#,
        },
        "ifeval" | "ifbench" => Known { row: following, ..usual },
        "gpqa" | "multiple-choice" => Known { row: choosing, ..usual },
        _ => usual,
    }
}

/// The capabilities that the plugin asks for; of a standard one also where nobody has looked at it.
fn asks(starter: &Starter) -> Vec<&str> {
    match starter.reward.as_str() {
        "judge" => vec!["judge"],
        "remote" => vec!["http"],
        _ => starter.asks.iter().map(String::as_str).collect(),
    }
}

/// What a person must still write into a starter recipe before it can run, as keys and what they are.
pub fn to_fill_in(starter: &Starter) -> Vec<(String, String)> {
    let mut open = Vec::new();
    let mut add = |key: &str, what: &str| open.push((key.to_owned(), what.to_owned()));
    if known(&starter.reward).config.is_none() {
        for (key, what) in &starter.required {
            add(&format!("reward.config.{key}"), what);
        }
    }
    if starter.reward == "remote" {
        add("reward.config.url", "the address of your server");
    }
    if asks(starter).contains(&"http") {
        add("reward.grants", "the host that the plugin may ask, as \"http:HOST\" or \"http:HOST:PORT\"");
    }
    if asks(starter).contains(&"judge") {
        add("judge.base-url", "the OpenAI-compatible server that has the judge");
        add("judge.model", "the judge's name at that server");
    }
    open
}

/// The text of a starter recipe.
pub fn starter(starter: &Starter) -> String {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let test = starter.test.as_ref().map_or_else(
        || {
            "# test = \"test.jsonl\"         # measured before and after training, never trained on\n"
                .to_owned()
        },
        |test| {
            format!(
                "test  = {}         # measured before and after training, never trained on\n",
                quoted(test)
            )
        },
    );
    let known = known(&starter.reward);
    let (grants, judge) = asking(starter);
    format!(
        "# {task}
#
# `whet doctor THIS_FILE` checks everything without training; `whet train THIS_FILE` trains.
# Every key that is not here has a default: `whet recipe schema` lists them all.
{open}model = {model}

[data]
# Relative paths start at this file's folder. One JSON object per line; `file[a..b]` takes some rows:
# {row}
train = {train}
{test}# system = \"Answer with the number only.\"
# columns = {{ prompt = \"question\", label = \"answer\" }}

# Several rewards are several [[reward]], each with its `weight`.
[reward]
plugin = {reward}          # a standard plugin, or a path to a .wasm file
{config}{grants}limits = {limits}
{judge}
[rollout]
prompts-per-step = 8
samples-per-prompt = 8          # responses that are compared with each other
max-tokens = 128                # longest response

[algorithm]
preset = \"grpo\"                 # `whet recipe algorithms` prints all presets and their options

[train]
steps = 60
learning-rate = 2e-5            # full fine-tuning of a small model; larger models want 1e-6
warmup = 5
",
        task = starter.task.replace('\n', " "),
        open = open(starter),
        row = known.row,
        model = quoted(&starter.model),
        train = quoted(&starter.train),
        reward = quoted(&starter.reward),
        config = config(starter, &known),
        limits = known.limits,
    )
}

/// Lines for the head: what is left to fill in.
fn open(starter: &Starter) -> String {
    let open = to_fill_in(starter);
    if open.is_empty() {
        return String::new();
    }
    let keys: Vec<String> = open.iter().map(|(key, _)| format!("`{key}`")).collect();
    format!("# To fill in before it can run: {}.\n", keys.join(", "))
}

fn config(starter: &Starter, known: &Known) -> String {
    if let Some((config, meaning)) = known.config {
        return format!("config = {config}   # {meaning}\n");
    }
    let mut lines = String::new();
    for (key, what) in &starter.required {
        let _ = writeln!(lines, "# config.{key} =           # FILL IN: {}", what.replace('\n', " "));
    }
    lines
}

/// The grants of a plugin that asks others, and the judge that it asks.
fn asking(starter: &Starter) -> (String, String) {
    let asks = asks(starter);
    let grant = |asked: &&str| {
        if *asked == "http" { "\"http:localhost:9000\"".into() } else { format!("\"{asked}\"") }
    };
    let grants: Vec<String> = asks.iter().map(grant).collect();
    let lines = match grants.is_empty() {
        true => String::new(),
        false => {
            let note = if asks.contains(&"http") {
                "FILL IN: the host that the plugin may ask"
            } else {
                "what the plugin may use"
            };
            format!("grants = [{}]   # {note}\n", grants.join(", "))
        }
    };
    let judge = match asks.contains(&"judge") {
        true => {
            "
[judge]
base-url = \"http://localhost:8000/v1\"   # FILL IN: any OpenAI-compatible server
model = \"JUDGE\"                         # FILL IN: the judge's name at that server
# api-key-env = \"JUDGE_API_KEY\"         # the variable that holds the key, if the server wants one
"
        }
        false => "",
    };
    (lines, judge.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(starter_of: &Starter) -> toml::Table {
        let text = starter(starter_of);
        text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
    }

    #[test]
    fn the_preset_is_all_that_a_starter_says_of_its_algorithm() {
        // Any other key would have to fit every preset that a person may put in its place.
        assert_eq!(
            parsed(&Starter::default())["algorithm"],
            toml::Value::Table([("preset".to_owned(), "grpo".into())].into_iter().collect())
        );
    }

    #[test]
    fn what_a_plugin_needs_is_written_or_left_to_fill_in_by_name() {
        let plain = Starter::default();
        assert!(to_fill_in(&plain).is_empty() && !starter(&plain).contains("fill in"));
        let length = Starter {
            reward: "length".into(),
            required: vec![("target".into(), "the length".into())],
            ..plain.clone()
        };
        assert!(to_fill_in(&length).is_empty());
        assert_eq!(parsed(&length)["reward"]["config"]["target"], 64.into());

        let mine = Starter {
            reward: "mine.wasm".into(),
            required: vec![("depth".into(), "how deep\nit looks".into())],
            asks: vec!["judge".into(), "store".into()],
            ..plain
        };
        let table = parsed(&mine);
        assert_eq!(table["reward"]["grants"], toml::Value::Array(vec!["judge".into(), "store".into()]));
        assert!(table["judge"]["base-url"].is_str());
        let text = starter(&mine);
        for (key, _) in to_fill_in(&mine) {
            assert!(text.contains(&format!("`{key}`")), "{key}: {text}");
        }
        assert!(text.contains("FILL IN: how deep it looks"), "{text}");
    }
}

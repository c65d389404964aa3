//! The recipe that `whet recipe new` writes: short, commented, and complete.

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
}

impl Default for Starter {
    fn default() -> Self {
        Starter {
            task: "Teach a small model, rewarded by a sandboxed plugin.".into(),
            model: "hf://HuggingFaceTB/SmolLM2-135M-Instruct".into(),
            train: "train.jsonl".into(),
            test: Some("test.jsonl".into()),
            reward: "math-answer".into(),
        }
    }
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
    format!(
        "# {task}
#
# `whet doctor THIS_FILE` checks everything without training; `whet train THIS_FILE` trains.
# Every key that is not here has a default: `whet recipe schema` lists them all.
model = {model}

[data]
# One JSON object per line: {{\"prompt\": \"1 + 1 =\", \"label\": \"2\"}}. `file[a..b]` takes some rows.
train = {train}
{test}# system = \"Answer with the number only.\"
# columns = {{ prompt = \"question\", label = \"answer\" }}

[reward]
plugin = {reward}          # a standard plugin, or a path to a .wasm file
limits = {{ time = \"200ms\", memory = \"32MiB\" }}

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
        model = quoted(&starter.model),
        train = quoted(&starter.train),
        reward = quoted(&starter.reward),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preset_is_all_that_a_starter_says_of_its_algorithm() {
        // Any other key would have to fit every preset that a person may put in its place.
        let recipe: toml::Table = starter(&Starter::default()).parse().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(
            recipe["algorithm"],
            toml::Value::Table([("preset".to_owned(), "grpo".into())].into_iter().collect())
        );
    }
}

//! The words for what went wrong, in one place and one form:
//!
//! ```text
//! error: `runs/sums` already holds a run
//!    = help: add --resume to go on, --run-dir to write elsewhere, or remove the folder
//! ```

use std::error::Error;
use std::fmt::Display;
use std::io::{self, Write};
use whet_controller::RunError;
use whet_plugin_host::LoadError;
use whet_recipe::RecipeErrors;
use whet_recipe::data::DataErrors;

/// A message that has its help with it; for what goes wrong in this crate alone.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Plain {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: String,
}

/// An error of this crate.
pub fn plain(message: impl Into<String>, help: impl Into<String>) -> anyhow::Error {
    Plain { message: message.into(), help: help.into() }.into()
}

/// Standard output does not take what a command says.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output")]
pub struct OutputError(#[source] io::Error);

/// Prints a result on standard output, which may be a full disk.
pub fn out(text: impl Display) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    Ok(writeln!(stdout, "{text}").and_then(|()| stdout.flush()).map_err(OutputError)?)
}

/// Prints something beside the result on standard error; where nobody reads it, nothing is lost.
pub fn note(text: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Whether whoever reads standard output (`whet … | head`) has seen enough, which is no error.
pub fn reader_left(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(OutputError(e)) if e.kind() == io::ErrorKind::BrokenPipe)
}

/// The whole text for a person.
pub fn render(error: &anyhow::Error) -> String {
    let (message, help) = explain(error.as_ref());
    // Recipes and data come with several messages in this very form.
    let mut text = if message.starts_with("error: ") { message } else { format!("error: {message}") };
    if let Some(help) = help {
        text.push_str(&format!("\n   = help: {help}"));
    }
    text
}

/// What is wrong, and what to do about it.
pub fn explain(error: &(dyn Error + 'static)) -> (String, Option<String>) {
    let mut chain: Vec<&(dyn Error + 'static)> = Vec::new();
    let mut next = Some(error);
    while let Some(link) = next {
        chain.push(link);
        next = link.source();
    }
    for link in &chain {
        if link.is::<RecipeErrors>() || link.is::<DataErrors>() {
            return (link.to_string(), None);
        }
    }
    // Some errors name their source in their own text, some do not.
    let mut message = String::new();
    for link in &chain {
        let text = link.to_string();
        if message.is_empty() {
            message = text;
        } else if !message.contains(&text) {
            message.push_str(&format!(": {text}"));
        }
    }
    let help = chain.iter().find_map(|link| help(*link));
    (message, help)
}

fn help(error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(plain) = error.downcast_ref::<Plain>() {
        return Some(plain.help.clone());
    }
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return io_help(error).map(str::to_owned);
    }
    if let Some(error) = error.downcast_ref::<LoadError>() {
        return load_help(error);
    }
    error.downcast_ref::<RunError>().and_then(run_help)
}

fn io_help(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some("make room on that disk"),
        io::ErrorKind::PermissionDenied => {
            Some("`ls -ld` shows who may do so: change that, or choose another place")
        }
        io::ErrorKind::ReadOnlyFilesystem => Some("choose a place on a disk that can be written to"),
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
            Some("a file stands where a folder is needed: choose another place, or move the file away")
        }
        _ => None,
    }
}

/// For what a run writes into its directory, the failure being somewhere among the sources of `error`.
fn write_help(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let Some(error) = error.downcast_ref::<io::Error>() else { return write_help(error.source()?) };
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some(
            "make room on that disk; nothing that was finished is lost: `whet train RECIPE --resume` goes on from the last checkpoint",
        ),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            Some("choose a folder that you may write to, with --run-dir or the recipe's run.dir")
        }
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
            Some("a file stands where the folder should be: choose another one with --run-dir")
        }
        _ => None,
    }
}

fn load_help(error: &LoadError) -> Option<String> {
    Some(match error {
        LoadError::NotGranted(interface) => {
            let grant = if interface == "http" { "http:HOST" } else { interface.as_str() };
            format!("grant it with grants = [\"{grant}\"] beside the plugin, or use a plugin that does not need it")
        }
        LoadError::UnsupportedWorld { .. } => {
            "`whet plugin inspect` prints what a component is; [reward], [[filter]] and [advantage] each take their own kind".into()
        }
        LoadError::NotWasm | LoadError::Empty | LoadError::Truncated | LoadError::Invalid(_) => {
            "name the `.wasm` file that `whet plugin build` made, or build it again".into()
        }
        LoadError::DigestMismatch { .. } => {
            "if the new bytes are meant, write their digest into the recipe; else get the old file back".into()
        }
        LoadError::Config(_) | LoadError::Configure(_) => {
            "`whet plugin inspect` prints the options that the plugin knows".into()
        }
        _ => return None,
    })
}

fn run_help(error: &RunError) -> Option<String> {
    Some(match error {
        RunError::Write { .. } | RunError::Observe(_) | RunError::Trainer(_) => {
            return write_help(error).map(str::to_owned);
        }
        RunError::RunExists { .. } => {
            "add --resume to go on with it, --run-dir to write elsewhere, or remove the folder".into()
        }
        RunError::NoRun { .. } => "leave --resume out to begin, or check run.dir".into(),
        RunError::NoCheckpoint { .. } => "let it run until its first checkpoint (run.checkpoint-every)".into(),
        RunError::RunLocked { .. } => "wait for it to end, or write elsewhere with --run-dir".into(),
        RunError::RecipeChanged { .. } => {
            "put these back to go on exactly, or begin another run with --run-dir".into()
        }
        RunError::TornCheckpoint { .. } => "name the run directory, to take its last whole checkpoint".into(),
        RunError::NoTemplate { .. } => {
            "write data.prompt-format = \"raw\" (`whet generate --raw`), or take the instruction-tuned variant of the model".into()
        }
        RunError::Template { .. } => {
            "look at the roles of the conversation, at data.system, and at data.template-kwargs; the raw prompt format needs no template".into()
        }
        RunError::Judge { .. } => {
            "[judge] names the server as base-url, the model, and the variable of its key as api-key-env; `whet recipe explain` prints them".into()
        }
        RunError::UnknownComponent { .. } => {
            "write one of those, `plugin/component` where several plugins have it; `whet plugin inspect` prints a plugin's components".into()
        }
        RunError::OtherTokenizer { .. } => {
            "take a model of the same family, whose tokenizer.json is the same".into()
        }
        RunError::Teacher { .. } => {
            "try the same with curl; look at [teacher] base-url, model, api-key-env and timeout; `whet train RECIPE --resume` goes on from the last checkpoint".into()
        }
        RunError::Turn { .. } => {
            "write `turns = \"last\"` in [sft], or give the model a template with `{% generation %}` tags".into()
        }
        RunError::NoTexts { .. } => {
            "raise data.max-tokens; a row needs an answer: a message of the assistant, or a label".into()
        }
        RunError::NoRows { .. } => "raise data.max-prompt-tokens, or loosen the filters".into(),
        RunError::TooLong { .. } => "lower rollout.max-tokens or data.max-prompt-tokens".into(),
        RunError::TooManyFailures { .. } => {
            "`whet plugin run` repeats single samples; trajectories/ has those that were scored; raise limits or on-failure.abort-above if these failures are harmless".into()
        }
        RunError::Starved { .. } => {
            "loosen the filter that drops most, take prompts that suit the model (neither too easy nor too hard), or raise rollout.samples-per-prompt or rollout.dynamic.max-attempts; `whet train RECIPE --resume` goes on from the last checkpoint".into()
        }
        RunError::NoSource { .. } => "name a run directory, or a folder or file of trajectories".into(),
        RunError::NothingSampled { kind: "evals", .. } => {
            "runs that measure by sampling have it (data.test, eval.every); without --evals the training samples are taken".into()
        }
        RunError::NothingSampled { .. } => {
            "name a run of task = \"rl\" with log.trajectories = true: other tasks learn from the rows as they are".into()
        }
        RunError::NoSamples { .. } => {
            "samples are files that end in .jsonl, as `whet train` writes them with log.trajectories".into()
        }
        RunError::NoComponent { .. } => {
            "name components that the reward has with `weights` beside its plugin; `whet plugin run` prints them".into()
        }
        RunError::EngineDied { .. } | RunError::EngineStalled { .. } => {
            "`whet train RECIPE --resume` goes on from the last checkpoint; lower rollout.kv-budget or rollout.max-running if memory ran out".into()
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_with_its_file_and_a_remedy() {
        let error = RunError::Write {
            path: "runs/a/metrics.jsonl".into(),
            source: io::Error::from(io::ErrorKind::StorageFull),
        };
        let text = render(&error.into());
        assert!(text.starts_with("error: cannot write `runs/a/metrics.jsonl`: "), "{text}");
        assert!(text.contains("\n   = help: make room"), "{text}");
    }

    #[test]
    fn what_an_error_says_of_its_source_is_not_said_twice() {
        let error = RunError::PluginLoad {
            role: "reward",
            name: "x.wasm".into(),
            source: LoadError::NotGranted("random".into()),
        };
        let text = render(&error.into());
        assert_eq!(text.matches("does not grant").count(), 1, "{text}");
        assert!(text.contains("grants = [\"random\"]"), "{text}");
    }
}

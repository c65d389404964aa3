//! `whet plugin run`: a file of responses through a reward plugin.

use super::judge::JudgeArgs;
use super::{PluginFile, Terms, plugin_host_with, rows};
use crate::words::note;
use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Map, Value, json};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use whet_plugin_host::RewardPlugin;
use whet_trajectory::{Group, Outcome};

/// Ends the help text.
pub const EXAMPLE: &str = r#"A line in (`prompt`, `label`, `metadata` and `group` may be left out; neighbouring lines of equal
`group` are one group; `completion` with messages may stand for `response`; `response_tokens` and
`finish` are read where given):
  {"id": "1", "prompt": "2 + 2?", "response": "It is 4.", "label": "4", "metadata": {}, "group": "a"}
A line out, in the same order:
  {"id": "1", "outcome": "scored", "reward": 1.0, "components": {"reward": 1.0}, "note": "answer 4 (last number)"}
`outcome` is scored, unscorable or error; the latter two have a `reason` and the reward null.

Example:
  whet plugin run math-answer --config '{"extraction": "strict"}' --input answers.jsonl --output scores.jsonl"#;

/// Flags of `whet plugin run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// A standard plugin's name, or the path of a `.wasm` file.
    plugin: String,
    /// Lines of JSON to score; `-` reads standard input.
    #[arg(long, short, value_name = "FILE")]
    input: PathBuf,
    /// Where the scores go, complete or not at all. Default: standard output.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    terms: Terms,
    #[command(flatten)]
    judge: JudgeArgs,
}

/// Scores the file.
pub fn run(args: &RunArgs) -> Result<ExitCode> {
    let file = PluginFile::read(&args.plugin)?;
    args.judge.check(&file)?;
    let mut usage = args.terms.usage()?;
    usage.grants = args.judge.grant(usage.grants);
    let host = plugin_host_with(args.judge.judge()?);
    let plugin = host.reward(&file.bytes, &usage).map_err(|e| file.refused(e))?;
    let rows = rows::open(&args.input)?;
    if !rows.unused.is_empty() {
        let keys: Vec<String> = rows.unused.iter().map(|key| format!("`{key}`")).collect();
        note(format!(
            "note: {} not read; other columns go into `metadata`",
            keys.join(", ") + if keys.len() == 1 { " is" } else { " are" }
        ));
    }
    let mut counts = Counts::default();
    match &args.output {
        None => {
            let mut out = BufWriter::new(std::io::stdout().lock());
            match score(&plugin, &rows, &mut out, &mut counts) {
                // Whoever reads has seen enough.
                Err(e) if e.kind() == ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
                done => done.context("cannot write to standard output")?,
            }
        }
        Some(path) => write_whole(path, |out| score(&plugin, &rows, out, &mut counts))
            .with_context(|| format!("cannot write {}", path.display()))?,
    }
    note(format!("{} scored, {} unscorable, {} errors", counts.scored, counts.unscorable, counts.errors));
    Ok(ExitCode::SUCCESS)
}

/// Writes beside the goal and renames when all is written. Of a link, what it leads to is replaced; a device or
/// pipe is written to, since a rename would put a file in its place.
fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<std::fs::File>) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let real = path.canonicalize();
    let path = real.as_deref().unwrap_or(path);
    if path.metadata().is_ok_and(|about| !about.is_file()) {
        let mut out = BufWriter::new(std::fs::File::create(path)?);
        return write(&mut out).and_then(|()| out.flush());
    }
    let mut aside = path.as_os_str().to_owned();
    aside.push(".tmp");
    let aside = PathBuf::from(aside);
    let mut out = BufWriter::new(std::fs::File::create(&aside)?);
    let written = write(&mut out).and_then(|()| out.flush()).and_then(|()| std::fs::rename(&aside, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&aside);
    }
    written
}

/// How the lines ended.
#[derive(Default)]
struct Counts {
    scored: usize,
    unscorable: usize,
    errors: usize,
}

/// Scores groups on all cores and writes lines in the order of the input.
fn score(
    plugin: &RewardPlugin,
    rows: &rows::Rows,
    out: &mut impl Write,
    counts: &mut Counts,
) -> std::io::Result<()> {
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get()).min(rows.groups.len());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (sender, results) = mpsc::channel::<(usize, Vec<Outcome>)>();
        for _ in 0..workers {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                let take = || {
                    let index = next.fetch_add(1, Relaxed);
                    rows.groups.get(index).map(|group| (index, group))
                };
                while let Some((index, group)) = take() {
                    if sender.send((index, outcomes(plugin, group))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut waiting: Vec<Option<Vec<Outcome>>> = vec![None; rows.groups.len()];
        let mut ids = rows.ids.iter();
        let mut written = 0;
        for (index, outcomes) in results {
            waiting[index] = Some(outcomes);
            while let Some(outcomes) = waiting.get_mut(written).and_then(Option::take) {
                for (id, outcome) in ids.by_ref().take(outcomes.len()).zip(outcomes) {
                    writeln!(out, "{}", line(id, &outcome, counts))?;
                }
                written += 1;
            }
        }
        out.flush()
    })
}

/// One outcome per sample; a failure of the host is every sample's.
fn outcomes(plugin: &RewardPlugin, group: &Group) -> Vec<Outcome> {
    plugin.score(group).unwrap_or_else(|error| vec![Outcome::Failed(error.failure()); group.samples.len()])
}

fn line(id: &Value, outcome: &Outcome, counts: &mut Counts) -> Value {
    match outcome {
        Outcome::Scored(grade) => {
            counts.scored += 1;
            let components: Map<String, Value> =
                grade.components.iter().map(|c| (c.name.clone(), json!(c.value))).collect();
            let mut line = json!({
                "id": id,
                "outcome": "scored",
                "reward": outcome.reward(&[]),
                "components": components,
            });
            if let Some(note) = &grade.note {
                line["note"] = json!(note);
            }
            if !grade.spans.is_empty() {
                line["spans"] = json!(grade.spans);
            }
            line
        }
        Outcome::Unscorable { reason } => {
            counts.unscorable += 1;
            json!({"id": id, "outcome": "unscorable", "reward": null, "components": {}, "reason": reason})
        }
        Outcome::Failed(failure) => {
            counts.errors += 1;
            json!({"id": id, "outcome": "error", "reward": null, "components": {}, "reason": failure.to_string()})
        }
    }
}

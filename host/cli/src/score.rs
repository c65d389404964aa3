//! `whet score`.

use crate::plugin::{PluginFile, Terms, plugin_host};
use crate::words::{note, out, plain};
use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use whet_controller::directory::{is_run, recorded_manifest, recorded_recipe};
use whet_controller::plugins::PluginRecord;
use whet_controller::rescore::{Rescored, Score, files, rescore};
use whet_controller::setup;
use whet_controller::step::score::{Reward, Scorer};
use whet_observe::{Console, ConsoleMode, OutcomeKind};
use whet_plugin_host::Host;
use whet_recipe::Combine;

/// Differences shown one by one.
const SHOWN: usize = 10;

/// Score stored samples again and compare.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  whet score runs/sums                              with the run's own rewards\n  whet score runs/sums --plugin mine.wasm           with another reward\n  whet score runs/sums/evals/step-000050.jsonl --plugin math --json\n\nEvery sample is scored twice. Exit code 1 when a stored score differs, or when the reward does not say the same twice."
)]
pub struct ScoreArguments {
    /// Run directories, folders or files of trajectories
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<PathBuf>,
    /// Score with this reward plugin alone, instead of the rewards of the run
    #[arg(long, value_name = "PLUGIN")]
    plugin: Option<String>,
    #[command(flatten)]
    terms: Terms,
    /// Of run directories take the answers of evaluations, instead of the training samples
    #[arg(long)]
    evals: bool,
    /// Write the new scores there, one JSON object per line
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What scores, and what there is to say about it. The host's clock must outlive the plugins' calls.
struct Rewards {
    _host: Host,
    scorer: Scorer,
    names: Vec<String>,
    /// Plugins whose bytes are not those that the run recorded.
    changed: Vec<String>,
}

/// How the samples compare.
#[derive(Default)]
struct Counts {
    samples: usize,
    different: usize,
    unstable: usize,
    had_failed: usize,
    fail_now: usize,
}

/// Scores again; prints how the scores compare.
pub fn run(arguments: ScoreArguments) -> Result<ExitCode> {
    let mut paths = Vec::new();
    for source in &arguments.sources {
        paths.extend(files(source, arguments.evals)?);
    }
    let rewards = rewards(&arguments, &paths)?;
    let mut console = Console::new(if arguments.json { ConsoleMode::Json } else { ConsoleMode::Human });
    let mut counts = Counts::default();
    let mut shown = Vec::new();
    let mut output = arguments.output.as_deref().map(Output::create).transpose()?;
    console.phase("score", paths.len());
    for path in &paths {
        for sample in rescore(path, &rewards.scorer)? {
            if let Some(output) = &mut output {
                output.write(&sample)?;
            }
            if counts.count(&sample) && shown.len() < SHOWN {
                shown.push(sample);
            }
        }
        console.advance();
    }
    console.end_phase();
    if let Some(output) = output {
        output.finish()?;
    }
    if arguments.json {
        out(json!({
            "rewards": rewards.names, "changed_plugins": rewards.changed, "files": paths.len(),
            "samples": counts.samples, "different": counts.different, "nondeterministic": counts.unstable,
            "failed_then": counts.had_failed, "failed_now": counts.fail_now, "examples": shown,
        }))?;
    } else {
        tell(&rewards, &counts, paths.len(), &shown)?;
    }
    let same = counts.different == 0 && counts.unstable == 0;
    Ok(if same { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The plugin that was named, or the rewards of the run that the files belong to.
fn rewards(arguments: &ScoreArguments, files: &[PathBuf]) -> Result<Rewards> {
    if let Some(plugin) = &arguments.plugin {
        let file = PluginFile::read(plugin)?;
        let host = plugin_host();
        let usage = arguments.terms.usage()?;
        let reward = host.reward(&file.bytes, &usage).map_err(|e| file.refused(e))?;
        let name =
            file.path.file_stem().map_or_else(|| plugin.clone(), |stem| stem.to_string_lossy().into_owned());
        let reward = Reward {
            name: name.clone(),
            weight: 1.0,
            weights: Vec::new(),
            combine: Combine::Sum,
            gates: Vec::new(),
            plugin: reward,
        };
        let scorer = Scorer { rewards: vec![reward], retries: 1 };
        return Ok(Rewards { _host: host, scorer, names: vec![name], changed: Vec::new() });
    }
    if arguments.terms.is_given() {
        return Err(plain(
            "--config, --grant and the other terms are for the plugin that --plugin names",
            "name a plugin, or leave them out to score with the run's own rewards",
        ));
    }
    let runs: Vec<PathBuf> = files.iter().filter_map(|file| run_of(file)).collect();
    let run = runs.first().filter(|first| runs.len() == files.len() && runs.iter().all(|run| run == *first));
    let Some(run) = run else {
        return Err(plain(
            "these samples do not belong to one run, so there are no rewards to score them with",
            "name the reward with --plugin, as in `--plugin math`, or one run directory",
        ));
    };
    let mut recipe = recorded_recipe(run)?;
    // Only rewards are asked.
    recipe.filter.clear();
    recipe.advantage = None;
    let (host, plugins) = setup::start_plugins_again(&recipe, run)?;
    let recorded = recorded_manifest(run)?;
    Ok(Rewards {
        _host: host,
        names: plugins.scorer.rewards.iter().map(|reward| reward.name.clone()).collect(),
        changed: changed(&recorded.plugins, &plugins.records),
        scorer: plugins.scorer,
    })
}

/// The run directory that a file of samples lies in.
fn run_of(file: &Path) -> Option<PathBuf> {
    let run = file.parent()?.parent()?;
    let run = if run.as_os_str().is_empty() { Path::new(".") } else { run };
    is_run(run).then(|| run.to_owned())
}

fn changed(recorded: &[PluginRecord], now: &[PluginRecord]) -> Vec<String> {
    let other = |plugin: &&PluginRecord| {
        let before = recorded.iter().find(|r| r.role == plugin.role && r.name == plugin.name);
        before.is_some_and(|before| before.digest != plugin.digest)
    };
    now.iter().filter(other).map(|plugin| plugin.name.clone()).collect()
}

impl Counts {
    /// Counts a sample; true when something is wrong with it.
    fn count(&mut self, sample: &Rescored) -> bool {
        self.samples += 1;
        self.different += usize::from(sample.differs());
        self.unstable += usize::from(sample.again.is_some());
        self.had_failed += usize::from(sample.had_failed());
        self.fail_now += usize::from(sample.now.outcome == OutcomeKind::Error);
        sample.differs() || sample.again.is_some()
    }
}

fn tell(rewards: &Rewards, counts: &Counts, files: usize, shown: &[Rescored]) -> Result<()> {
    for plugin in &rewards.changed {
        note(format!("note: `{plugin}` has other bytes than the run recorded"));
    }
    if !shown.is_empty() {
        out(table(shown).trim_end())?;
        let more = (counts.different.max(counts.unstable)).saturating_sub(shown.len());
        if more > 0 {
            out(format!("  and {more} more"))?;
        }
        out("")?;
    }
    let plural = |n: usize, one: &str| if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") };
    let mut text = format!(
        "{} in {}, scored twice by {}: ",
        plural(counts.samples, "sample"),
        plural(files, "file"),
        rewards.names.join(", ")
    );
    match counts.different {
        0 => text.push_str("as stored"),
        n => write!(text, "{n} differ from what is stored")?,
    }
    match counts.unstable {
        0 => text.push_str(", the same both times"),
        n => write!(text, ", {n} are not the same both times")?,
    }
    if counts.had_failed > 0 {
        write!(text, "; {} had failed then", counts.had_failed)?;
    }
    if counts.fail_now > 0 {
        write!(text, "; {} fail now", counts.fail_now)?;
    }
    out(text)
}

/// One line per sample: where it stands, what was stored, what is said now.
fn table(shown: &[Rescored]) -> String {
    let rows: Vec<[String; 3]> = shown
        .iter()
        .map(|sample| {
            let now = match &sample.again {
                None => score_text(&sample.now),
                Some(again) => format!("{}, then {}", score_text(&sample.now), score_text(again)),
            };
            [format!("{}:{}", sample.file.display(), sample.line), score_text(&sample.stored), now]
        })
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1).max("stored".len()));
    let mut text = format!("  {:<first$}  {:<second$}  now\n", "sample", "stored");
    for [at, stored, now] in rows {
        text.push_str(&format!("  {at:<first$}  {stored:<second$}  {now}\n"));
    }
    text
}

fn score_text(score: &Score) -> String {
    let what = match (score.outcome, score.reward) {
        (OutcomeKind::Scored, Some(reward)) => reward.to_string(),
        (OutcomeKind::Error, _) => "error".to_owned(),
        _ => "unscorable".to_owned(),
    };
    let Some(note) = &score.note else { return what };
    let short: String = note.chars().map(|c| if c.is_control() { ' ' } else { c }).take(60).collect();
    format!("{what} ({short})")
}

/// The file of new scores, in the lines of `whet plugin run`; it appears when it is whole.
struct Output {
    path: PathBuf,
    aside: PathBuf,
    file: BufWriter<std::fs::File>,
}

impl Output {
    fn create(path: &Path) -> Result<Self> {
        let mut aside = path.as_os_str().to_owned();
        aside.push(".tmp");
        let aside = PathBuf::from(aside);
        let file =
            std::fs::File::create(&aside).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Output { path: path.to_owned(), aside, file: BufWriter::new(file) })
    }

    fn write(&mut self, sample: &Rescored) -> Result<()> {
        let now = &sample.now;
        let components: Map<String, Value> =
            now.components.iter().map(|c| (c.name.clone(), json!(c.value))).collect();
        let mut line = json!({
            "id": sample.id, "outcome": now.outcome, "reward": now.reward, "components": components
        });
        if let Some(note) = &now.note {
            let key = if now.outcome == OutcomeKind::Scored { "note" } else { "reason" };
            line[key] = json!(note);
        }
        writeln!(self.file, "{line}").with_context(|| format!("cannot write {}", self.path.display()))
    }

    fn finish(mut self) -> Result<()> {
        let written = self.file.flush().and_then(|()| std::fs::rename(&self.aside, &self.path));
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

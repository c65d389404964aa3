//! `cargo xtask bench`: what this machine does, and beside it, with `--peers`, what others do with
//! the same work.
//!
//! Programs take turns, round by round, so that whatever else the machine does meanwhile hits all
//! of them. Figures are medians over the rounds, with the lowest and the highest; a ratio is
//! between medians. Loading a model or a library is never in a figure.

use crate::peers::{self, Peer, Peers};
use crate::workspace::{Workspace, output, run as run_command, say, toml_text, words};
use crate::{answers, model, plugins, setup};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Flags of `bench`.
#[derive(clap::Args)]
pub struct Options {
    /// Also measure transformers, TRL and math-verify, installed into .venv-peers.
    #[arg(long)]
    peers: bool,
    /// Rounds in which every program has its turn.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Only the benchmarks whose name contains this text.
    filter: Option<String>,
}

/// Prompts, samples per prompt and response tokens of the GRPO step (`xtask/bench/grpo.toml`).
const GRPO: [&str; 3] = ["8", "8", "32"];
/// Mathematical answers that are made beside those of the bug reports.
const MADE_ANSWERS: usize = 1000;
/// Rows that rewards score.
const SCORED_ROWS: usize = 2000;
/// Times that HumanEval's tasks are run in a round.
const TASK_ROUNDS: usize = 5;

/// Where the benchmarks find what they need.
struct Bench<'a> {
    workspace: &'a Workspace,
    rounds: usize,
    /// The model as `whet` takes it.
    model: String,
    peers: Option<Peers>,
    scratch: PathBuf,
    table: Vec<Line>,
}

/// One line of the result.
struct Line {
    what: String,
    unit: &'static str,
    /// Whether a larger figure is the better one.
    more_is_better: bool,
    whet: Vec<f64>,
    peer: Option<(&'static str, Vec<f64>)>,
}

/// Runs the benchmarks and prints a table.
pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    setup::run(workspace, &setup::Options::default())?;
    workspace.build_whet()?;
    plugins::build_all(workspace)?;
    for (package, example) in [("whet-rollout", "decode_speed"), ("whet-trainer", "train_speed")] {
        run_command(workspace.cargo().args([
            "build",
            "--release",
            "--package",
            package,
            "--example",
            example,
        ]))?;
    }
    let peers = if options.peers { Some(peers::ensure(workspace)?) } else { None };
    // With peers, everybody reads the same folder; alone, whatever the quickstart uses.
    let model = match &peers {
        Some(peers) => peers.model.display().to_string(),
        None => model::ensure(workspace)?,
    };
    let scratch = workspace.target().join("bench");
    if scratch.exists() {
        std::fs::remove_dir_all(&scratch).with_context(|| format!("removing {}", scratch.display()))?;
    }
    std::fs::create_dir_all(&scratch).with_context(|| format!("creating {}", scratch.display()))?;
    let mut bench =
        Bench { workspace, rounds: options.rounds.max(1), model, peers, scratch, table: Vec::new() };
    let wanted = |name: &str| options.filter.as_deref().is_none_or(|filter| name.contains(filter));
    if wanted("plugin") {
        bench.plugin_calls()?;
    }
    if wanted("scoring") {
        bench.scoring()?;
    }
    if wanted("math") {
        bench.math()?;
    }
    if wanted("python-tests") {
        bench.python_tests()?;
    }
    for (name, sequences) in [("rollout-64", 64), ("rollout-1", 1)] {
        if wanted(name) {
            bench.rollout(sequences)?;
        }
    }
    if wanted("training") {
        bench.training()?;
    }
    if wanted("grpo-step") {
        bench.grpo_step()?;
    }
    print!("{}", table(&bench.table));
    Ok(())
}

impl Bench<'_> {
    /// Time to make an instance and to score a group; `whet` itself measures it and prints a table.
    fn plugin_calls(&mut self) -> Result<()> {
        say("bench", "plugin calls");
        run_command(self.workspace.command(self.workspace.whet()).args(["plugin", "bench", "math-answer"]))
    }

    /// Responses scored per second by the whole path: read, call the plugin, write.
    fn scoring(&mut self) -> Result<()> {
        say("bench", "scoring");
        let rows = self.scratch.join("responses.jsonl");
        std::fs::write(&rows, responses(SCORED_ROWS))
            .with_context(|| format!("writing {}", rows.display()))?;
        // Many times the rows, so that starting the program does not count.
        let many = self.scratch.join("responses-many.jsonl");
        std::fs::write(&many, responses(SCORED_ROWS * 50))
            .with_context(|| format!("writing {}", many.display()))?;
        let mut peer = self.peer("math_verify_speed.py", &[&rows])?;
        let (mut own, mut other) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            let scores = self.scratch.join("scores.jsonl");
            let mut whet = self.workspace.command(self.workspace.whet());
            whet.args(["plugin", "run", "math-answer", "--input"]).arg(&many).arg("--output").arg(&scores);
            let start = Instant::now();
            run_command(&mut whet)?;
            own.push((SCORED_ROWS * 50) as f64 / start.elapsed().as_secs_f64());
            if let Some(peer) = &mut peer {
                other.push(number(&peer.ask(&json!({}))?, "samples_per_second")?);
            }
        }
        self.add("scoring, math-answer", "samples/s", true, own, peer.map(|_| ("math-verify", other)));
        Ok(())
    }

    /// Mathematical answers graded per second of one thread, one a call, and the slowest hundredth.
    fn math(&mut self) -> Result<()> {
        say("bench", "mathematical answers");
        let cases = self.workspace.root.join("tests/fixtures/cases/math.jsonl");
        let rows: String =
            answers::rows(&cases, MADE_ANSWERS)?.iter().map(|row| format!("{row}\n")).collect();
        let file = self.scratch.join("answers.jsonl");
        std::fs::write(&file, rows).with_context(|| format!("writing {}", file.display()))?;
        let mut peer = self.peer("math_verify_answers.py", &[&file])?;
        let (mut own, mut own_p99, mut other, mut other_p99) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            let mut whet = self.workspace.command(self.workspace.whet());
            whet.args(["plugin", "bench", "math", "--json", "--seconds", "5", "--input"]).arg(&file);
            let printed = output(&mut whet)?;
            let figures: Value =
                serde_json::from_str(&printed).context("reading what `whet plugin bench` printed")?;
            own.push(number(&figures, "samples_per_second")?);
            own_p99.push(number(&figures, "p99_us")? / 1000.0);
            if let Some(peer) = &mut peer {
                let answer = peer.ask(&json!({}))?;
                other.push(number(&answer, "samples_per_second")?);
                other_p99.push(number(&answer, "p99_ms")?);
            }
        }
        let has_peer = peer.is_some();
        self.add(
            "math, answers of one thread",
            "answers/s",
            true,
            own,
            has_peer.then_some(("math-verify", other)),
        );
        self.add(
            "  the slowest hundredth",
            "ms",
            false,
            own_p99,
            has_peer.then_some(("math-verify", other_p99)),
        );
        Ok(())
    }

    /// HumanEval's solutions run against their tests per second, each in a CPython of its own.
    fn python_tests(&mut self) -> Result<()> {
        say("bench", "HumanEval");
        let tasks = self.workspace.root.join("tests/fixtures/humaneval/tasks.jsonl");
        let text = std::fs::read_to_string(&tasks).with_context(|| format!("reading {}", tasks.display()))?;
        let mut rows = String::new();
        // Several times, so that starting the program does not count.
        for (number, line) in (0..TASK_ROUNDS).flat_map(|round| text.lines().map(move |line| (round, line))) {
            let task: Value = serde_json::from_str(line).context("reading a task of HumanEval")?;
            let part = |name: &str| task[name].as_str().unwrap_or_default();
            let row = json!({
                "id": format!("{}#{number}", part("task_id")),
                "prompt": part("prompt"),
                "response": format!("{}{}", part("prompt"), part("canonical_solution")),
                "metadata": { "tests": part("test"), "entry_point": part("entry_point") },
            });
            let _ = writeln!(rows, "{row}");
        }
        let count = rows.lines().count();
        let file = self.scratch.join("human-eval.jsonl");
        std::fs::write(&file, rows).with_context(|| format!("writing {}", file.display()))?;
        let mut own = Vec::new();
        // The first run compiles CPython where it is not in the cache yet.
        for round in 0..=self.rounds {
            let scores = self.scratch.join("human-eval.scores.jsonl");
            let mut whet = self.workspace.command(self.workspace.whet());
            whet.args(["plugin", "run", "python-tests", "--time", "30s", "--input"]).arg(&file);
            let start = Instant::now();
            run_command(whet.arg("--output").arg(&scores))?;
            if round > 0 {
                own.push(count as f64 / start.elapsed().as_secs_f64());
            }
        }
        self.add("HumanEval, python-tests", "tasks/s", true, own, None);
        Ok(())
    }

    /// New tokens per second, 64-token prompts, 128 new tokens each, prefill included.
    fn rollout(&mut self, sequences: usize) -> Result<()> {
        say("bench", format!("rollout, {sequences} at once"));
        let folder = self.peers.as_ref().map(|peers| peers.model.clone());
        let mut peer = match &folder {
            Some(folder) => self.peer("hf_generate.py", &[folder])?,
            None => None,
        };
        let request = json!({ "sequences": sequences, "prompt_tokens": 64, "new_tokens": 128 });
        let (mut own, mut other) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            own.extend(self.example("decode_speed", &[&sequences.to_string(), "64", "128"])?);
            if let Some(peer) = &mut peer {
                other.push(number(&peer.ask(&request)?, "tokens_per_second")?);
            }
        }
        let what = format!("rollout, {sequences} x (64 + 128) tokens, bf16");
        self.add(&what, "tokens/s", true, own, peer.map(|_| ("HF generate", other)));
        Ok(())
    }

    /// Tokens per second of a whole training step: forward, backward, clipping, AdamW. The batch is
    /// 64 responses of 32 tokens after prompts of 47, as in a GRPO step.
    fn training(&mut self) -> Result<()> {
        say("bench", "training");
        let folder = self.peers.as_ref().map(|peers| peers.model.clone());
        let mut peer = match &folder {
            Some(folder) => self.peer("hf_train.py", &[folder])?,
            None => None,
        };
        let (mut own, mut other) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            own.extend(self.example("train_speed", &[])?);
            if let Some(peer) = &mut peer {
                let request = json!({ "sequences": 64, "tokens": 79, "micro_batch": 16 });
                other.push(number(&peer.ask(&request)?, "tokens_per_second")?);
            }
        }
        self.add(
            "training step, 64 x (47 + 32) tokens, bf16",
            "tokens/s",
            true,
            own,
            peer.map(|_| ("PyTorch", other)),
        );
        Ok(())
    }

    /// Seconds of one whole GRPO step, and the most memory the process ever held.
    fn grpo_step(&mut self) -> Result<()> {
        say("bench", "GRPO step");
        let rows = self.workspace.root.join("recipes/data/largest.train.jsonl");
        let folder = self.peers.as_ref().map(|peers| peers.model.clone());
        let sizes = GRPO.map(Path::new);
        let mut peer = match &folder {
            Some(folder) => self.peer("trl_grpo.py", &[folder, &rows, sizes[0], sizes[1], sizes[2]])?,
            None => None,
        };
        let (mut own, mut own_peak, mut other, mut other_peak) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for round in 0..self.rounds {
            let dir = self.scratch.join(format!("grpo-{round}"));
            let mut whet = self.workspace.command(self.workspace.whet());
            whet.args(["train", "xtask/bench/grpo.toml", "--quiet"]);
            whet.arg("--set").arg(format!("model.source={}", toml_text(&self.model)));
            whet.arg("--set").arg(format!("run.dir={}", toml_text(&dir.display().to_string())));
            own_peak.push(run_and_watch_memory(&mut whet)? / 1e9);
            own.extend(step_seconds(&dir.join("metrics.jsonl"))?);
            if let Some(peer) = &mut peer {
                // The first step pays for what is set up lazily, as Whet's first does.
                let answers = [peer.ask(&json!({}))?, peer.ask(&json!({}))?];
                let from = usize::from(round == 0);
                for answer in &answers[from..] {
                    other.push(number(answer, "seconds")?);
                }
                other_peak.push(number(&answers[1], "peak_bytes")? / 1e9);
            }
        }
        let has_peer = peer.is_some();
        let step = format!("GRPO step, {} x {} x {} tokens, bf16", GRPO[0], GRPO[1], GRPO[2]);
        self.add(&step, "s", false, own, has_peer.then_some(("TRL", other)));
        self.add("  its peak memory", "GB", false, own_peak, has_peer.then_some(("TRL", other_peak)));
        Ok(())
    }

    fn peer(&self, script: &str, args: &[&Path]) -> Result<Option<Peer>> {
        self.peers.as_ref().map(|peers| peers.start(self.workspace, script, args)).transpose()
    }

    /// Runs one of our measuring programs and returns the tokens per second of its repetitions but
    /// the first, which warms up.
    fn example(&self, name: &str, arguments: &[&str]) -> Result<Vec<f64>> {
        let program = self.workspace.target().join("release/examples").join(name);
        let mut command = self.workspace.command(program);
        command.arg(&self.model).args(arguments).env("OMP_WAIT_POLICY", "PASSIVE");
        let printed = output(&mut command)?;
        let figures = tokens_per_second(&printed);
        if figures.len() < 2 {
            bail!("`{}` printed too few figures in tok/s:\n{printed}", words(&command));
        }
        Ok(figures[1..].to_vec())
    }

    fn add(
        &mut self,
        what: &str,
        unit: &'static str,
        more_is_better: bool,
        whet: Vec<f64>,
        peer: Option<(&'static str, Vec<f64>)>,
    ) {
        let line = Line { what: what.into(), unit, more_is_better, whet, peer };
        print!("{}", table(std::slice::from_ref(&line)));
        self.table.push(line);
    }
}

/// Worked answers of a few hundred bytes, every third one wrong.
fn responses(count: usize) -> String {
    let mut text = String::new();
    for i in 0..count {
        // A group answers one question.
        let (a, b) = (i / 8 % 97 + 3, i / 8 % 89 + 5);
        let answer = a * b + usize::from(i % 3 == 0);
        let response = format!(
            "There are {a} boxes and each of them holds {b} pencils. To find how many pencils there are in all, \
             multiply the number of boxes by the number of pencils in a box: {a} * {b} = {answer}. So the number of \
             pencils in all the boxes together is {answer}.\n#### {answer}"
        );
        let row = json!({ "id": i.to_string(), "response": response, "label": (a * b).to_string(), "group": (i / 8).to_string() });
        let _ = writeln!(text, "{row}");
    }
    text
}

/// Seconds between the lines of a run's metrics: whole steps, the first one left out.
fn step_seconds(metrics: &Path) -> Result<Vec<f64>> {
    let text = std::fs::read_to_string(metrics).with_context(|| format!("reading {}", metrics.display()))?;
    let mut times = Vec::new();
    for line in text.lines() {
        let line: Value =
            serde_json::from_str(line).with_context(|| format!("reading {}", metrics.display()))?;
        times.push(number(&line, "time")?);
    }
    let steps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    if steps.is_empty() {
        bail!("{} holds fewer than two steps", metrics.display());
    }
    Ok(steps)
}

/// Runs a command to its end and returns the most memory (bytes) it held, as the kernel counts it.
fn run_and_watch_memory(command: &mut std::process::Command) -> Result<f64> {
    let mut child = command.spawn().with_context(|| format!("cannot start `{}`", words(command)))?;
    let status_file = format!("/proc/{}/status", child.id());
    let mut peak = 0.0;
    loop {
        // The kernel keeps the high-water mark itself; it is lost only with the process.
        if let Ok(status) = std::fs::read_to_string(&status_file) {
            let kilobytes =
                status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next());
            peak = kilobytes.and_then(|n| n.parse::<f64>().ok()).map_or(peak, |n| n * 1024.0);
        }
        if let Some(status) = child.try_wait().context("waiting for whet")? {
            if !status.success() {
                bail!("`{}` failed ({status})", words(command));
            }
            return Ok(peak);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The number before each "tok/s" or "tokens/s" of a text.
fn tokens_per_second(text: &str) -> Vec<f64> {
    let words: Vec<&str> = text.split_whitespace().collect();
    words
        .windows(2)
        .filter(|pair| pair[1].starts_with("tok/s") || pair[1].starts_with("tokens/s"))
        .filter_map(|pair| pair[0].parse().ok())
        .collect()
}

fn number(answer: &Value, key: &str) -> Result<f64> {
    answer.get(key).and_then(Value::as_f64).with_context(|| format!("no number `{key}` in {answer}"))
}

/// The median; 0 of nothing.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// Median with the lowest and the highest, as in `12.3 (11.9..12.8)`.
fn spread(values: &[f64]) -> String {
    let digits = if median(values) >= 100.0 { 0 } else { 2 };
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{:.digits$} ({low:.digits$}..{high:.digits$})", median(values))
}

/// The lines as aligned text.
fn table(lines: &[Line]) -> String {
    let mut text = String::new();
    for line in lines {
        let _ = write!(text, "{:<44} {:<10} {:<28}", line.what, line.unit, spread(&line.whet));
        if let Some((name, values)) = &line.peer {
            let (own, other) = (median(&line.whet), median(values));
            let ratio = if line.more_is_better { own / other } else { other / own };
            let _ = write!(text, " {name} {}: {ratio:.2} x", spread(values));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_above_one_means_better_whichever_way_the_unit_points() {
        let line = |more_is_better, whet, peer| Line {
            what: "x".into(),
            unit: "u",
            more_is_better,
            whet: vec![whet],
            peer: Some(("p", vec![peer])),
        };
        assert!(table(&[line(true, 500.0, 250.0)]).contains(": 2.00 x"));
        assert!(table(&[line(false, 10.0, 25.0)]).contains(": 2.50 x"));
    }

    #[test]
    fn a_step_lasts_from_one_line_of_the_metrics_to_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        std::fs::write(
            &path,
            "{\"step\":1,\"time\":10.0}\n{\"step\":2,\"time\":13.5}\n{\"step\":3,\"time\":17.0}\n",
        )
        .unwrap();
        assert_eq!(step_seconds(&path).unwrap(), [3.5, 3.5]);
        std::fs::write(&path, "{\"step\":1,\"time\":10.0}\n").unwrap();
        assert!(step_seconds(&path).is_err());
    }

    #[test]
    fn a_median_is_the_middle_or_between_the_two_middles() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn every_figure_in_tokens_per_second_is_found() {
        let printed = "0: 3.1 s, 812 tokens/s (5056 tokens)\n64 x (64 + 128): 1150.5 tok/s in 2.2 s; 3 ms\n";
        assert_eq!(tokens_per_second(printed), [812.0, 1150.5]);
    }

    #[test]
    fn every_third_response_is_wrong() {
        let text = responses(9);
        let wrong = text
            .lines()
            .filter(|line| {
                let row: Value = serde_json::from_str(line).unwrap();
                !row["response"]
                    .as_str()
                    .unwrap()
                    .ends_with(&format!("#### {}", row["label"].as_str().unwrap()))
            })
            .count();
        assert_eq!(wrong, 3);
    }
}

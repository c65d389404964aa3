//! What a run says while it goes: lines for people, JSON for programs, or only warnings.
//!
//! Results go to standard output, warnings and the moving bar to standard error; colours and bar appear
//! only where a terminal listens.

use crate::step_line::short;
use crate::{Alert, Comparison, Metrics, StepLine, TaskLine, comparison_table, step_line, task_line};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// Who listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsoleMode {
    /// People: step lines, samples, tables, a moving bar.
    Human,
    /// Nobody: only warnings.
    Quiet,
    /// A program: one JSON object per line on standard output.
    Json,
}

/// A sample that is shown, so that people see what is being rewarded.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Shown {
    /// The last thing that the user said.
    pub prompt: String,
    /// The response.
    pub response: String,
    /// The reference answer, if the row has one.
    pub label: Option<String>,
    /// The reward, if it has one.
    pub reward: Option<f64>,
    /// The plugin's note, or why there is no reward.
    pub note: Option<String>,
}

/// The run's voice.
#[derive(Debug)]
pub struct Console {
    mode: ConsoleMode,
    colour: bool,
    bar: Option<ProgressBar>,
}

impl Console {
    /// Colours need a terminal on standard output and no `NO_COLOR` in the environment.
    pub fn new(mode: ConsoleMode) -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        Console { mode, colour: std::io::stdout().is_terminal() && !plain, bar: None }
    }

    /// Who listens.
    pub fn mode(&self) -> ConsoleMode {
        self.mode
    }

    /// A sentence about the run: where it is written, what it resumes from.
    pub fn say(&self, text: &str) {
        match self.mode {
            ConsoleMode::Human => self.print(text),
            ConsoleMode::Json => self.print_json(json!({"event": "message", "text": text})),
            ConsoleMode::Quiet => {}
        }
    }

    /// A finished step.
    pub fn step(&self, line: &StepLine, metrics: &Metrics) {
        match self.mode {
            ConsoleMode::Human => self.print(&step_line(line, self.colour)),
            ConsoleMode::Json => {
                self.print_json(json!({"event": "step", "step": line.step, "metrics": finite(metrics)}));
            }
            ConsoleMode::Quiet => {}
        }
    }

    /// A finished step in which nothing was sampled.
    pub fn task_step(&self, line: &TaskLine<'_>, metrics: &Metrics) {
        match self.mode {
            ConsoleMode::Human => self.print(&task_line(line, self.colour)),
            ConsoleMode::Json => {
                self.print_json(json!({"event": "step", "step": line.step, "metrics": finite(metrics)}));
            }
            ConsoleMode::Quiet => {}
        }
    }

    /// A finished evaluation.
    pub fn evaluation(&self, step: u64, metrics: &Metrics) {
        let number = |name: &str| metrics.get(name).copied();
        match self.mode {
            ConsoleMode::Human => {
                let mut text = format!("  eval after step {step}:");
                if let Some(reward) = number("eval/reward") {
                    text.push_str(&format!("  reward {}", short(reward, 3)));
                }
                for name in ["loss", "perplexity", "margin"] {
                    if let Some(value) = number(&format!("eval/{name}")) {
                        text.push_str(&format!("  {name} {}", short(value, 3)));
                    }
                }
                if let Some(accuracy) = number("eval/accuracy") {
                    text.push_str(&format!("  accuracy {accuracy:.3}"));
                }
                if let Some(count) = number("eval/samples") {
                    text.push_str(&format!("  ({count:.0} samples)"));
                }
                self.print(&text);
            }
            ConsoleMode::Json => {
                self.print_json(json!({"event": "eval", "step": step, "metrics": finite(metrics)}));
            }
            ConsoleMode::Quiet => {}
        }
    }

    /// A warning; it is given in every mode.
    pub fn alert(&self, step: u64, alert: &Alert) {
        if self.mode == ConsoleMode::Json {
            self.print_json(json!({
                "event": "warning", "step": step, "kind": alert.kind, "cause": alert.cause, "remedy": alert.remedy
            }));
            return;
        }
        let warning = self.warning();
        self.print_error(&format!("{warning}: step {step}: {}\n   = help: {}", alert.cause, alert.remedy));
    }

    /// A warning that is about no step.
    pub fn warn(&self, text: &str) {
        if self.mode == ConsoleMode::Json {
            self.print_json(json!({"event": "warning", "cause": text}));
        } else {
            self.print_error(&format!("{}: {text}", self.warning()));
        }
    }

    /// A few samples, with what the reward made of them.
    pub fn samples(&self, samples: &[Shown]) {
        match self.mode {
            ConsoleMode::Human => samples.iter().for_each(|s| self.print(&shown(s))),
            ConsoleMode::Json => {
                for sample in samples {
                    self.print_json(json!({"event": "sample", "sample": sample}));
                }
            }
            ConsoleMode::Quiet => {}
        }
    }

    /// The same prompts before and after.
    pub fn comparisons(&self, rows: &[Comparison]) {
        match self.mode {
            ConsoleMode::Human if !rows.is_empty() => {
                self.print(comparison_table(rows, terminal_width()).trim_end());
            }
            ConsoleMode::Json => {
                for row in rows {
                    self.print_json(json!({"event": "comparison", "comparison": row}));
                }
            }
            _ => {}
        }
    }

    /// Starts the moving bar of a phase, as in `rollout 12/64`.
    pub fn phase(&mut self, name: &str, total: usize) {
        self.end_phase();
        if self.mode != ConsoleMode::Human || !std::io::stderr().is_terminal() {
            return;
        }
        let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("  {msg} {prefix} {wide_bar:.dim} {pos}/{len}") {
            bar.set_style(style);
        }
        bar.set_message(name.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        self.bar = Some(bar);
    }

    /// Says beside the bar how far its phase is, as in `rollout 5/8 groups`.
    pub fn phase_note(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_prefix(text.to_owned());
        }
    }

    /// Moves the bar by one.
    pub fn advance(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// Takes the bar away.
    pub fn end_phase(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn warning(&self) -> &'static str {
        if self.colour { "\u{1b}[33mwarning\u{1b}[0m" } else { "warning" }
    }

    fn print(&self, text: &str) {
        self.above_bar(|| write_line(&mut std::io::stdout().lock(), text));
    }

    fn print_error(&self, text: &str) {
        self.above_bar(|| write_line(&mut std::io::stderr().lock(), text));
    }

    fn print_json(&self, value: Value) {
        write_line(&mut std::io::stdout().lock(), &value.to_string());
    }

    fn above_bar(&self, write: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}

/// A closed pipe (`whet train … | head`) must not end a run, so a failed write is dropped.
fn write_line(out: &mut impl Write, text: &str) {
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

fn shown(sample: &Shown) -> String {
    let reward = sample.reward.map_or_else(|| "no score".to_owned(), |r| format!("reward {}", short(r, 2)));
    let label = sample.label.as_ref().map_or(String::new(), |l| format!("  label {l:?}"));
    let note = sample.note.as_ref().map_or(String::new(), |n| format!("  ({n})"));
    format!(
        "    prompt    {}\n    response  {:?}\n              {reward}{label}{note}",
        tail(&sample.prompt, 90),
        head(&sample.response, 200)
    )
}

fn head(text: &str, length: usize) -> String {
    let mut out: String = text.chars().take(length).collect();
    if text.chars().count() > length {
        out.push('…');
    }
    out
}

fn tail(text: &str, length: usize) -> String {
    let flat: String = text.trim().replace('\n', "⏎");
    let count = flat.chars().count();
    if count <= length {
        flat
    } else {
        format!("…{}", flat.chars().skip(count - length).collect::<String>())
    }
}

/// Columns of the terminal; 110 where there is none.
fn terminal_width() -> usize {
    console::Term::stdout().size_checked().map_or(110, |(_, width)| usize::from(width).clamp(60, 160))
}

fn finite(metrics: &Metrics) -> Value {
    // serde_json writes a number that is not finite as null.
    json!(metrics)
}

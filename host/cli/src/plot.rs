//! `whet plot`.

use crate::words::{note, out, plain};
use anyhow::{Context, Result};
use clap::Args;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use whet_observe::{MetricsLine, Panel, curve, read_metrics, svg};

/// What is most often looked at, of any kind of run.
const USUAL: [&str; 5] = ["reward/mean", "train/loss", "eval/loss", "loss/total", "rollout/length"];

/// Draw curves of runs.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  whet plot runs/sums --output reward.svg\n  whet plot grpo=runs/a dapo=runs/b --metric reward/mean --metric rollout/length --smooth 10 --output both.svg\n  whet plot runs/sums --list"
)]
pub struct Plot {
    /// Run directories, or metrics.jsonl files; NAME=RUN names a curve
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<String>,
    /// What to draw; may be repeated, one panel each
    #[arg(long = "metric", value_name = "METRIC", default_value = "reward/mean")]
    metrics: Vec<String>,
    /// Draw running means over so many steps
    #[arg(long, value_name = "STEPS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    smooth: u32,
    /// The picture, an .svg file
    #[arg(long, short, value_name = "FILE", required_unless_present = "list")]
    output: Option<PathBuf>,
    /// List the metrics of the runs instead
    #[arg(long, conflicts_with = "output")]
    list: bool,
}

/// Draws; prints where.
pub fn run(arguments: Plot) -> Result<ExitCode> {
    let runs: Vec<(String, Vec<MetricsLine>)> =
        arguments.runs.iter().map(|run| read(run)).collect::<Result<_>>()?;
    let names: BTreeSet<&String> =
        runs.iter().flat_map(|(_, lines)| lines).flat_map(|l| l.metrics.keys()).collect();
    let Some(output) = &arguments.output else {
        names.iter().try_for_each(out)?;
        return Ok(ExitCode::SUCCESS);
    };
    if output.extension().is_none_or(|ending| ending != "svg") {
        return Err(plain(
            format!("`{}` does not end in .svg, the one kind of picture that is drawn", output.display()),
            "name the picture as in --output reward.svg",
        ));
    }
    let mut panels = Vec::new();
    for metric in &arguments.metrics {
        let (curves, without): (Vec<_>, Vec<_>) = runs
            .iter()
            .map(|(label, lines)| curve(label, lines, metric))
            .partition(|curve| !curve.points.is_empty());
        if curves.is_empty() {
            return Err(plain(format!("no run has the metric `{metric}`"), remedy(&names)));
        }
        for missing in without {
            note(format!("note: `{}` has no `{metric}`, so it has no curve there", missing.label));
        }
        panels.push(Panel { metric: metric.clone(), curves });
    }
    let picture = svg(&panels, arguments.smooth as usize)?;
    std::fs::write(output, picture).with_context(|| format!("cannot write {}", output.display()))?;
    out(format!("wrote {}", output.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// What to draw instead of a metric that no run has.
fn remedy(names: &BTreeSet<&String>) -> String {
    let there: Vec<String> = USUAL
        .iter()
        .filter(|usual| names.iter().any(|name| name == *usual))
        .map(|usual| format!("--metric {usual}"))
        .collect();
    let list = "`whet plot RUN --list` shows what there is";
    match there.is_empty() {
        true => list.to_owned(),
        false => format!("draw {} instead; {list}", there.join(" or ")),
    }
}

/// A run's name in the legend, and its metrics.
fn read(run: &str) -> Result<(String, Vec<MetricsLine>)> {
    // A path that holds `=` is taken as it is.
    let (name, path) = match run.split_once('=') {
        Some((name, path)) if !Path::new(run).exists() => (Some(name), Path::new(path)),
        _ => (None, Path::new(run)),
    };
    let file = if path.is_dir() { path.join("metrics.jsonl") } else { path.to_owned() };
    let lines = read_metrics(&file)?;
    if lines.is_empty() {
        return Err(plain(
            format!("`{}` has no numbers yet", file.display()),
            "wait for the run's first step, or name another run",
        ));
    }
    let named = if path.is_dir() { Some(path) } else { path.parent() };
    let own = named.and_then(Path::file_name).map(|n| n.to_string_lossy().into_owned());
    Ok((name.map(str::to_owned).or(own).unwrap_or_else(|| run.to_owned()), lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_missing_metric_those_that_are_there_are_suggested() {
        let names = ["train/loss", "train/tokens", "time/step"].map(str::to_owned);
        let said = remedy(&names.iter().collect());
        assert!(said.starts_with("draw --metric train/loss instead"), "{said}");
        assert!(said.contains("--list"), "{said}");
        assert!(remedy(&BTreeSet::new()).starts_with("`whet plot RUN --list`"));
    }
}

//! `whet doctor`.

use crate::train::load;
use crate::words::{explain, out};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use whet_controller::doctor::{Finding, Severity, examine};

/// Check everything about a recipe without training.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  whet doctor recipes/sums.toml\n\nLoads model and plugins, reads and renders every row, grades every label against itself, and estimates memory. Exit code 1 when a run would fail or learn from wrong scores."
)]
pub struct Doctor {
    /// The recipe
    recipe: PathBuf,
    /// Change a key of the recipe; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Prints the findings.
pub fn run(arguments: Doctor) -> anyhow::Result<ExitCode> {
    let recipe = load(&arguments.recipe, &arguments.overrides, None)?;
    let findings = examine(&recipe, &|error| explain(error));
    let problems = findings.iter().filter(|f| f.severity == Severity::Problem).count();
    if arguments.json {
        out(json!({"problems": problems, "findings": findings}))?;
    } else {
        findings.iter().try_for_each(|finding| out(line(finding)))?;
        match problems {
            0 => out("\nno problems")?,
            1 => out("\n1 problem")?,
            n => out(format!("\n{n} problems"))?,
        }
    }
    Ok(if problems == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn line(finding: &Finding) -> String {
    let word = match finding.severity {
        Severity::Fine => "ok",
        Severity::Warning => "warning",
        Severity::Problem => "error",
    };
    let message = finding.message.strip_prefix("error: ").unwrap_or(&finding.message);
    let mut text = format!("{word:>7}  {}: {message}", finding.subject);
    if let Some(help) = &finding.help {
        text.push_str(&format!("\n           = help: {help}"));
    }
    text
}

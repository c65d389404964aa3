//! `cargo xtask test`: everything that must pass before a change is merged, in one command.
//!
//! Every check runs even when an earlier one failed, except those that need what failed. No check
//! depends on the machine's speed.

use crate::workspace::{Workspace, run as run_command, say, words};
use crate::{docs, plugins, setup};
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Flags of `test`.
#[derive(clap::Args)]
pub struct Options {
    /// Only set up, build and run the tests; leave formatting, lints and documentation out.
    #[arg(long)]
    quick: bool,
    /// Arguments for the tests themselves, as in `-- resume`.
    #[arg(last = true)]
    filter: Vec<String>,
}

/// One check: its name, how it ended, how long it took.
struct Check {
    name: &'static str,
    result: Result<()>,
    took: Duration,
}

/// Runs the checks and prints a summary; an error when any failed.
pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let mut checks = Vec::new();
    let mut closing_lines = Vec::new();
    // Without these nothing else can run.
    needed(&mut checks, "setup", || setup::run(workspace, &setup::Options::default()))?;
    needed(&mut checks, "build", || {
        run_command(workspace.cargo().args(["build", "--release", "--workspace", "--all-targets"]))
    })?;
    needed(&mut checks, "plugins", || plugins::build_all(workspace))?;
    // Tests before lints: they say more.
    check(&mut checks, "tests", || {
        let mut cargo = workspace.cargo();
        cargo.args(["test", "--release", "--workspace", "--no-fail-fast", "--"]).args(&options.filter);
        run_and_keep_results(&mut cargo, &mut closing_lines)
    });
    check(&mut checks, "plugin tests", || {
        let mut cargo = workspace.cargo();
        cargo.current_dir(workspace.root.join("plugins"));
        cargo.args(["test", "--workspace", "--no-fail-fast", "--"]).args(&options.filter);
        run_and_keep_results(&mut cargo, &mut closing_lines)
    });
    if !options.quick {
        check(&mut checks, "format", || {
            run_command(workspace.cargo().args(["fmt", "--all", "--check"]))?;
            let mut cargo = workspace.cargo();
            run_command(cargo.current_dir(workspace.root.join("plugins")).args(["fmt", "--all", "--check"]))
        });
        check(&mut checks, "lints", || {
            let lint = ["clippy", "--release", "--workspace", "--all-targets", "--", "--deny", "warnings"];
            run_command(workspace.cargo().args(lint))
        });
        check(&mut checks, "api docs", || {
            let mut cargo = workspace.cargo();
            cargo.env("RUSTDOCFLAGS", "--deny warnings");
            run_command(cargo.args(["doc", "--release", "--workspace", "--no-deps", "--quiet"]))
        });
        check(&mut checks, "book", || docs::run(workspace, &docs::Options { check: true }));
    }
    summary(&checks, &closing_lines)
}

fn check(checks: &mut Vec<Check>, name: &'static str, action: impl FnOnce() -> Result<()>) {
    say("check", name);
    let start = Instant::now();
    let result = action();
    if let Err(error) = &result {
        say("failed", format!("{name}: {error:#}"));
    }
    checks.push(Check { name, result, took: start.elapsed() });
}

/// A check without which the rest makes no sense: its failure ends the run.
fn needed(checks: &mut Vec<Check>, name: &'static str, action: impl FnOnce() -> Result<()>) -> Result<()> {
    check(checks, name, action);
    if checks.last().is_some_and(|check| check.result.is_err()) {
        return summary(checks, &[]);
    }
    Ok(())
}

/// Prints the tests' own closing lines, then a line per check.
fn summary(checks: &[Check], closing_lines: &[String]) -> Result<()> {
    eprintln!();
    for check in checks {
        let outcome = if check.result.is_ok() { "passed" } else { "FAILED" };
        eprintln!("{:>12}  {outcome}  {:>6.1} s", check.name, check.took.as_secs_f64());
    }
    eprintln!();
    for line in closing_lines {
        println!("{line}");
    }
    let failed: Vec<&str> =
        checks.iter().filter(|check| check.result.is_err()).map(|check| check.name).collect();
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

/// Runs `cargo test`, passes its output on, and keeps the lines that count tests and name failures.
fn run_and_keep_results(command: &mut Command, kept: &mut Vec<String>) -> Result<()> {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{}`", words(command)))?;
    let stdout = child.stdout.take().context("standard output was asked for")?;
    for line in BufReader::new(stdout).lines() {
        let line = line.context("reading the tests' output")?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}").context("printing the tests' output")?;
        // Crates without tests would drown the others.
        let empty = line.contains(" 0 passed; 0 failed;");
        if (line.starts_with("test result:") && !empty)
            || (line.starts_with("test ") && line.ends_with("FAILED"))
        {
            kept.push(line);
        }
    }
    let status = child.wait().context("waiting for the tests")?;
    if !status.success() {
        bail!("`{}` failed ({status})", words(command));
    }
    Ok(())
}

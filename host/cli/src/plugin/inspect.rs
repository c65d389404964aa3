//! `whet plugin inspect` and `whet plugin check`.

use super::{PluginFile, Terms, plugin_host, size_text};
use crate::words::out;
use anyhow::{Result, bail};
use clap::Args;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;
use whet_plugin_host::{Determinism, Host, Inspection, Kind, LoadError, Use};

/// Flags of `whet plugin inspect`.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// A standard plugin's name, or the path of a `.wasm` file.
    plugin: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Flags of `whet plugin check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// A standard plugin's name, or the path of a `.wasm` file.
    plugin: String,
    #[command(flatten)]
    terms: Terms,
}

/// Prints what a component is.
pub fn run(args: &InspectArgs) -> Result<ExitCode> {
    let file = PluginFile::read(&args.plugin)?;
    let inspection = plugin_host().inspect(&file.bytes).map_err(|e| file.refused(e))?;
    if args.json {
        out(format!("{:#}", as_json(&inspection)))?;
    } else {
        out(as_text(&inspection).trim_end())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Admits a component under the given terms and says so.
pub fn check(args: &CheckArgs) -> Result<ExitCode> {
    let file = PluginFile::read(&args.plugin)?;
    let usage = args.terms.usage()?;
    let host = plugin_host();
    let inspection = host.inspect(&file.bytes).map_err(|e| file.refused(e))?;
    let Some(&kind) = inspection.kinds.first() else { bail!("{} exports no world", file.path.display()) };
    load(&host, kind, &file.bytes, &usage).map_err(|e| file.refused(e))?;
    out(format!(
        "{}: ok, {}\n  world    {}\n  imports  {}\n  granted  {}\n  size     {}\n  digest   {}",
        file.path.display(),
        kind.in_words(),
        inspection.world,
        or_none(&inspection.imports),
        or_none(&args.terms.grants),
        size_text(inspection.size as u64),
        inspection.digest,
    ))?;
    let unused: Vec<&str> = usage
        .grants
        .iter()
        .filter(|g| !inspection.needs_grants.iter().any(|need| need == g.interface()))
        .map(|g| g.interface())
        .collect();
    if !unused.is_empty() {
        out(format!("  note: it does not import {}, so that grant is not needed", unused.join(", ")))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Loads a plugin of any kind, for what loading checks.
fn load(host: &Host, kind: Kind, bytes: &[u8], usage: &Use) -> Result<(), LoadError> {
    match kind {
        Kind::Reward => host.reward(bytes, usage).map(drop),
        Kind::Filter => host.filter(bytes, usage).map(drop),
        Kind::Advantage => host.advantage(bytes, usage).map(drop),
        Kind::Environment => Err(LoadError::UnsupportedWorld {
            found: "an environment plugin".into(),
            needed: "a reward, filter or advantage plugin".into(),
        }),
    }
}

fn or_none(list: &[String]) -> String {
    if list.is_empty() { "none".into() } else { list.join(", ") }
}

fn determinism(determinism: Determinism) -> &'static str {
    match determinism {
        Determinism::Pure => "pure",
        Determinism::Seeded => "seeded",
        Determinism::Recorded => "recorded",
    }
}

fn as_json(inspection: &Inspection) -> Value {
    let d = &inspection.descriptor;
    json!({
        "name": d.name,
        "version": d.version,
        "summary": d.summary,
        "kinds": inspection.kinds.iter().map(|k| k.as_str()).collect::<Vec<_>>(),
        "world": inspection.world,
        "imports": inspection.imports,
        "needs_grants": inspection.needs_grants,
        "size": inspection.size,
        "functions": inspection.functions,
        "digest": inspection.digest.to_string(),
        "components": d.components,
        "determinism": determinism(d.determinism),
        "group_wise": d.group_wise,
        "isolated": inspection.isolated,
        "config_schema": d.config_schema,
    })
}

/// Widest line of a list.
const WIDTH: usize = 110;

/// Names in columns, read downwards; `a`, `a.2` and `a.3` are told as `a (.2 .3)`.
fn columns(names: &[String]) -> String {
    let repeated = |name: &str| {
        let (first, number) = name.rsplit_once('.')?;
        let again = number.parse::<u32>().is_ok() && names.iter().any(|name| name == first);
        again.then(|| (first.to_owned(), format!(".{number}")))
    };
    let mut told: Vec<String> = Vec::new();
    for name in names.iter().filter(|name| repeated(name).is_none()) {
        let again = names.iter().filter_map(|other| repeated(other)).filter(|(first, _)| first == name);
        let numbers: Vec<String> = again.map(|(_, number)| number).collect();
        told.push(if numbers.is_empty() { name.clone() } else { format!("{name} ({})", numbers.join(" ")) });
    }
    let width = told.iter().map(|name| name.chars().count()).max().unwrap_or(0) + 2;
    let across = (WIDTH / width).max(1);
    let rows = told.len().div_ceil(across);
    let row = |row: usize| {
        let cells = told.iter().skip(row).step_by(rows.max(1));
        let line: String = cells.map(|name| format!("{name:<width$}")).collect();
        format!("  {}", line.trim_end())
    };
    (0..rows).map(row).collect::<Vec<_>>().join("\n")
}

fn as_text(inspection: &Inspection) -> String {
    let d = &inspection.descriptor;
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:<13}{value}");
    };
    line("plugin", format!("{} {}", d.name, d.version));
    line("summary", d.summary.clone());
    line("world", inspection.world.to_owned());
    line("imports", or_none(&inspection.imports));
    line("needs grants", or_none(&inspection.needs_grants));
    line("size", format!("{} ({} functions)", size_text(inspection.size as u64), inspection.functions));
    line("digest", inspection.digest.to_string());
    if !d.components.is_empty() {
        let names = d.components.join(", ");
        match names.len() > WIDTH {
            true => line("components", format!("{}\n{}", d.components.len(), columns(&d.components))),
            false => line("components", names),
        }
        let scored = match (d.group_wise, inspection.isolated) {
            (true, _) => "as a group: a score depends on its neighbours",
            (false, true) => "isolated: each in an instance of its own",
            (false, false) => "one by one",
        };
        line("samples", scored.to_owned());
    }
    line("determinism", determinism(d.determinism).to_owned());
    let _ = writeln!(text, "config");
    for schema_line in format!("{:#}", d.config_schema).lines() {
        let _ = writeln!(text, "  {schema_line}");
    }
    text
}

//! `whet plugin …`: make, build, look at and run plugins, without training anything.
//!
//! Handlers translate between the command line and `whet_plugin_host` or `whet_plugin_build`;
//! what a plugin may do is decided there.

mod bench;
mod build;
mod inspect;
mod judge;
mod new;
mod rows;
mod run;

use crate::words::{note, plain};
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use serde_json::Value;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use whet_capability::Judge;
use whet_http::Egress;
use whet_plugin_host::{
    Grants, Host, HostOptions, Limits, LoadError, LogLevel, LogLine, Profile, Services, Use, user_cache_dir,
};
use whet_recipe::{ByteSize, Time};

/// Make, build, inspect and run plugins: rewards, filters and advantage estimators in WebAssembly.
#[derive(Debug, Args)]
pub struct PluginArguments {
    #[command(subcommand)]
    command: PluginCommand,
}

/// What to do with a plugin.
#[derive(Debug, Subcommand)]
pub enum PluginCommand {
    /// Make a plugin project that builds and passes its tests.
    #[command(after_help = "Example:\n  whet plugin new my-reward --kind reward --lang python")]
    New(new::NewArgs),
    /// Build the plugins of a project into WebAssembly components.
    #[command(after_help = "Example:\n  whet plugin build my-reward --output my-reward.wasm")]
    Build(build::BuildArgs),
    /// Check that a plugin would be admitted: its world, its imports against grants, its configuration.
    #[command(after_help = "Example:\n  whet plugin check my-reward.wasm --grant random")]
    Check(inspect::CheckArgs),
    /// Show what a plugin is: world, imports (all that it can ask for), size, digest, configuration.
    #[command(after_help = "Example:\n  whet plugin inspect math-answer --json")]
    Inspect(inspect::InspectArgs),
    /// Score a file of responses with a reward plugin.
    #[command(after_help = run::EXAMPLE)]
    Run(run::RunArgs),
    /// Measure a plugin: calls per second, p50 and p99, instantiation.
    #[command(allow_negative_numbers = true, after_help = "Example:\n  whet plugin bench math-answer --json")]
    Bench(bench::BenchArgs),
}

/// Runs one of the commands.
pub fn run(args: PluginArguments) -> Result<ExitCode> {
    match args.command {
        PluginCommand::New(args) => new::run(&args),
        PluginCommand::Build(args) => build::run(&args),
        PluginCommand::Check(args) => inspect::check(&args),
        PluginCommand::Inspect(args) => inspect::run(&args),
        PluginCommand::Run(args) => run::run(&args),
        PluginCommand::Bench(args) => bench::run(&args),
    }
}

/// The terms on which a plugin runs, as a recipe would state them.
#[derive(Debug, Args)]
pub struct Terms {
    /// The plugin's configuration, a JSON object; `whet plugin inspect` shows its schema.
    #[arg(long, value_name = "JSON", default_value = "{}")]
    config: String,
    /// A capability to grant: `random`, `store`, `judge`, `http:HOST`, `http-local:HOST`. May be repeated.
    #[arg(long = "grant", value_name = "GRANT")]
    grants: Vec<String>,
    /// Wall time of one call, without what it waits for judges and servers.
    #[arg(long, value_name = "TIME", default_value = "1s")]
    time: Time,
    /// Memory of one call.
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    memory: ByteSize,
    /// Seed of the plugin's random numbers.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Stop by fuel instead of the clock, and repeat bit for bit on every machine.
    #[arg(long)]
    deterministic: bool,
}

impl Terms {
    /// Whether any differs from what holds without it.
    pub fn is_given(&self) -> bool {
        let limits = Limits::default();
        self.config != "{}"
            || !self.grants.is_empty()
            || self.time.0 != limits.time
            || self.memory.0 != limits.memory as u64
            || self.seed != 0
            || self.deterministic
    }

    /// The terms in the plugin host's words.
    pub fn usage(&self) -> Result<Use> {
        let config: Value = serde_json::from_str(&self.config)
            .with_context(|| format!("--config `{}` is not JSON", self.config))?;
        Ok(Use {
            config,
            grants: Grants::parse(&self.grants)?,
            limits: Limits {
                time: self.time.0,
                memory: usize::try_from(self.memory.0).unwrap_or(usize::MAX),
                ..Limits::default()
            },
            profile: if self.deterministic { Profile::Deterministic } else { Profile::Fast },
            seed: self.seed,
            ..Use::default()
        })
    }
}

/// A plugin's file.
pub struct PluginFile {
    /// Where it is.
    pub path: PathBuf,
    /// What it holds.
    pub bytes: Vec<u8>,
}

impl PluginFile {
    /// A name finds a standard plugin, a path any file.
    pub fn read(plugin: &str) -> Result<Self> {
        let path = whet_plugin_host::find(plugin)?;
        let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(PluginFile { path, bytes })
    }

    /// The error of a plugin that was not admitted; `words` has the help for most.
    pub fn refused(&self, error: LoadError) -> anyhow::Error {
        let what = format!("{} is not admitted", self.path.display());
        let LoadError::NotGranted(capability) = &error else {
            return anyhow::Error::from(error).context(what);
        };
        let grant = if capability == "http" { "http:HOST" } else { capability };
        let help = format!("grant it with --grant {grant}, or use a plugin that does not need it");
        plain(format!("{what}: {error}"), help)
    }
}

/// A host that keeps compiled plugins in the user's cache and shows what plugins log. There is no judge;
/// hosts that are granted can be reached.
pub fn plugin_host() -> Host {
    plugin_host_with(None)
}

/// [`plugin_host`] with somebody who answers `judge`.
fn plugin_host_with(judge: Option<Arc<dyn Judge>>) -> Host {
    let show = |line: &LogLine<'_>| {
        if line.level >= LogLevel::Info {
            note(format!("[{} {}] {}: {}", line.plugin, line.level.as_str(), line.subject, line.text));
        }
    };
    Host::new(HostOptions {
        cache_dir: user_cache_dir(),
        log: Some(Arc::new(show)),
        services: Services { judge, http: Some(Arc::new(Egress)) },
        ..HostOptions::default()
    })
}

/// A size for people.
fn size_text(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

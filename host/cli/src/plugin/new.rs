//! `whet plugin new`: a project that builds, with tests that pass.

use crate::words::out;
use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Flags of `whet plugin new`.
#[derive(Debug, Args)]
pub struct NewArgs {
    /// The plugin's name: lower-case letters, digits and `-`. A path puts the project elsewhere.
    name: PathBuf,
    /// What the plugin does.
    #[arg(long, value_enum, default_value_t = Kind::Reward)]
    kind: Kind,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// Score responses.
    Reward,
    /// Choose rows and groups.
    Filter,
    /// Turn rewards into advantages.
    Advantage,
}

impl Kind {
    /// The project's `src/lib.rs`.
    fn source(self) -> &'static str {
        match self {
            Kind::Reward => include_str!("templates/reward.rs"),
            Kind::Filter => include_str!("templates/filter.rs"),
            Kind::Advantage => include_str!("templates/advantage.rs"),
        }
    }

    fn summary(self) -> &'static str {
        match self {
            Kind::Reward => "1 when the response contains the label as a word of its own.",
            Kind::Filter => "Drops groups in which most rewards are missing.",
            Kind::Advantage => "The reward less the mean of its group.",
        }
    }
}

/// Writes the project.
pub fn run(args: &NewArgs) -> Result<ExitCode> {
    let dir = &args.name;
    let name = dir.file_name().context("give the plugin a name")?.to_string_lossy();
    let starts_well = name.starts_with(|c: char| c.is_ascii_lowercase());
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    ensure!(
        starts_well && name.chars().all(is_name) && !name.ends_with('-'),
        "`{name}` is no plugin name: use lower-case letters, digits and `-`, a letter first"
    );
    if matches!(&*name, "test" | "core" | "std" | "alloc" | "proc-macro") {
        bail!("`{name}` is the name of one of Rust's own crates: choose another");
    }
    ensure!(name != "whet-plugin", "`{name}` is the name of the SDK: choose another");
    ensure!(!dir.exists(), "{} exists already", dir.display());

    let manifest = include_str!("templates/Cargo.toml.txt")
        .replace("{{name}}", &name)
        .replace("{{summary}}", args.kind.summary())
        .replace("{{dependency}}", &dependency());
    write(&dir.join("Cargo.toml"), &manifest)?;
    write(&dir.join("src/lib.rs"), args.kind.source())?;
    write(&dir.join(".gitignore"), "/target\n/dist\n")?;
    out(format!(
        "{dir} is ready. Next:\n  cd {dir}\n  \
         cargo test                  # its logic, natively\n  \
         whet plugin build           # dist/{name}.wasm\n  \
         whet plugin inspect dist/{name}.wasm",
        dir = dir.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn write(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(path, text))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// The SDK of the checkout that this program was built in, else the published one of this version.
fn dependency() -> String {
    let sdk = std::env::current_exe().ok().and_then(|program| {
        let program = program.canonicalize().ok()?;
        program.ancestors().map(|dir| dir.join("sdk/rust")).find(|sdk| sdk.join("Cargo.toml").is_file())
    });
    match sdk {
        // A TOML literal string: backslashes stay as they are.
        Some(sdk) => format!("{{ path = '{}' }}", sdk.display()),
        None => format!("\"{}\"", env!("CARGO_PKG_VERSION")),
    }
}

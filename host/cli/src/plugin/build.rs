//! `whet plugin build`.

use super::size_text;
use crate::words::out;
use anyhow::{Context, Result, bail};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Flags of `whet plugin build`.
#[derive(Debug, Args)]
pub struct BuildArgs {
    /// The project: a folder with a Cargo.toml, pyproject.toml, package.json or plugin.toml.
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Where the component goes: a `.wasm` file, or a folder. Default: `dist` in the project.
    #[arg(long, short, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Say nothing unless it fails.
    #[arg(long, short)]
    quiet: bool,
}

/// Builds the project's plugins.
pub fn run(args: &BuildArgs) -> Result<ExitCode> {
    let file = args.output.as_deref().filter(|path| path.extension().is_some_and(|e| e == "wasm"));
    let folder = match (&args.output, file) {
        (None, _) => args.dir.join("dist"),
        (Some(folder), None) => folder.clone(),
        // Beside the file, so that the final rename stays on one file system.
        (Some(_), Some(file)) => beside(file).join(format!(".{}.tmp", std::process::id())),
    };
    let built = whet_plugin_build::build(&args.dir, &folder, args.quiet);
    let built = match file {
        None => built?,
        Some(file) => {
            let moved = built.map_err(anyhow::Error::from).and_then(|built| move_only(built, file));
            let _ = std::fs::remove_dir_all(&folder);
            moved?
        }
    };
    if !args.quiet {
        for plugin in built {
            out(format!("{}  {}", plugin.path.display(), size_text(plugin.size)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn beside(file: &Path) -> &Path {
    file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Gives the only plugin of a project the name that was asked for.
fn move_only(built: Vec<whet_plugin_build::Built>, file: &Path) -> Result<Vec<whet_plugin_build::Built>> {
    let [plugin] = &built[..] else {
        let names: Vec<&str> = built.iter().map(|b| b.name.as_str()).collect();
        bail!(
            "--output names one file, but the project has {} plugins ({}): name a folder",
            built.len(),
            names.join(", ")
        );
    };
    std::fs::rename(&plugin.path, file).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(vec![whet_plugin_build::Built { path: file.to_owned(), ..plugin.clone() }])
}

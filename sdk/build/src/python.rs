//! Python: CPython, the SDK and the project in one component, made by `componentize-py`.
//!
//! The project is imported while the component is made, and each call starts from the memory that
//! this leaves: an import that the project does at its top costs nothing later, and one that it does
//! later finds no file.

use crate::built::{Inputs, copy, files};
use crate::tools::{self, COMPONENTIZE_PY};
use crate::{BuildError, Manifest, contract};
use std::path::Path;
use std::process::Command;

/// The SDK, so that a component is always made with the one that fits this program.
const SDK: [(&str, &str); 11] = [
    ("__init__.py", include_str!("../../python/whet_plugin/__init__.py")),
    ("advantage.py", include_str!("../../python/whet_plugin/advantage.py")),
    ("component.py", include_str!("../../python/whet_plugin/component.py")),
    ("errors.py", include_str!("../../python/whet_plugin/errors.py")),
    ("filter.py", include_str!("../../python/whet_plugin/filter.py")),
    ("host.py", include_str!("../../python/whet_plugin/host.py")),
    ("message.py", include_str!("../../python/whet_plugin/message.py")),
    ("plugin.py", include_str!("../../python/whet_plugin/plugin.py")),
    ("reward.py", include_str!("../../python/whet_plugin/reward.py")),
    ("sample.py", include_str!("../../python/whet_plugin/sample.py")),
    ("testing.py", include_str!("../../python/whet_plugin/testing.py")),
];

/// The name of the generated entry point.
const ENTRY: &str = "whet_entry";

/// Makes the component of a Python project.
pub fn component(manifest: &Manifest, dir: &Path, quiet: bool) -> Result<Vec<u8>, BuildError> {
    let entry = entry(manifest).ok_or_else(|| BuildError::Manifest {
        path: dir.join("pyproject.toml"),
        cause: format!("`plugin = \"{}\"` does not say `module:Class`", manifest.entry),
    })?;
    let project = files(dir, &[".py", ".json", ".txt"])?;
    let mut words = vec![COMPONENTIZE_PY.0, COMPONENTIZE_PY.1, &entry];
    words.extend(SDK.iter().flat_map(|(name, text)| [*name, *text]));
    let mut inputs = Inputs::new(manifest, &words);
    inputs.add_files(dir, &project)?;
    inputs.component(|| {
        let tool = tools::from_pip(COMPONENTIZE_PY, quiet)?;
        let work = tools::staging(&tools::cache()?.join("work"))?;
        let made = make(manifest, dir, &project, &entry, &tool, &work, quiet);
        let _ = std::fs::remove_dir_all(&work);
        made
    })
}

fn make(
    manifest: &Manifest,
    dir: &Path,
    project: &[std::path::PathBuf],
    entry: &str,
    tool: &Path,
    work: &Path,
    quiet: bool,
) -> Result<Vec<u8>, BuildError> {
    let write = |path: &Path, text: &str| {
        std::fs::create_dir_all(path.parent().unwrap_or(work))
            .and_then(|()| std::fs::write(path, text))
            .map_err(|source| BuildError::Write { path: path.to_owned(), source })
    };
    contract::write(manifest, &work.join("wit"))?;
    for (name, text) in SDK {
        write(&work.join("sdk/whet_plugin").join(name), text)?;
    }
    write(&work.join("sdk").join(format!("{ENTRY}.py")), entry)?;
    copy(dir, project, &work.join("project"))?;
    let output = work.join("plugin.wasm");
    let mut command = Command::new("python3");
    // Nothing of the user's environment becomes part of the component.
    command.env("PYTHONPATH", tool).env_remove("VIRTUAL_ENV").current_dir(work);
    command.args(["-S", "-c", "import sys; from componentize_py import script; sys.exit(script())"]);
    command.args(["-d", "wit", "-w", contract::WORLD, "componentize", "--stub-wasi"]);
    command.args(["-p", "project", "-p", "sdk", "-o", "plugin.wasm", ENTRY]);
    tools::run(&mut command, "componentize-py", quiet)?;
    std::fs::read(&output).map_err(|source| BuildError::Read { path: output, source })
}

/// The module that `componentize-py` imports; none when the manifest's entry is not `module:Class`.
fn entry(manifest: &Manifest) -> Option<String> {
    let (module, class) = manifest.entry.split_once(':')?;
    let is_identifier =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_');
    if !is_identifier(class) || !module.split('.').all(is_identifier) {
        return None;
    }
    // JSON strings are Python strings.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    Some(format!(
        "from whet_plugin.component import exports\nfrom {module} import {class}\n\n\
         globals().update(exports({class}, {}, {}, {}))\n",
        quoted(&manifest.name),
        quoted(&manifest.version),
        quoted(&manifest.summary),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_sdk_goes_into_a_component() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python/whet_plugin");
        let mut there = files(&folder, &[".py"]).unwrap();
        there.retain(|file| !file.starts_with("__pycache__"));
        let there: Vec<_> = there.iter().map(|file| file.to_string_lossy().into_owned()).collect();
        assert_eq!(there, SDK.map(|(name, _)| name.to_owned()));
    }
}

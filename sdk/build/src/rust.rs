//! Rust: cargo, then wit-component in process.
//!
//! Where the target is not installed, std is built from the toolchain's own source.

use crate::toolchain::{TARGET, Toolchain};
use crate::{BuildError, Built, write_whole};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Builds every Rust plugin of the package or workspace in `dir` and writes `<out>/<name>.wasm`.
///
/// A plugin is a package with a library of type `cdylib`. The build goes to the project's own
/// `target` folder (or `CARGO_TARGET_DIR`) and ignores `RUSTFLAGS`, which are meant for the host.
///
/// * `dir`: holds a `Cargo.toml`
/// * `out`: where the components go; created if need be
/// * `quiet`: cargo says nothing unless it fails
pub fn build(dir: &Path, out: &Path, quiet: bool) -> Result<Vec<Built>, BuildError> {
    let toolchain = Toolchain::find(dir)?;
    let modules = compile(&toolchain, dir, quiet)?;
    std::fs::create_dir_all(out).map_err(|source| BuildError::Write { path: out.to_owned(), source })?;
    modules
        .into_iter()
        .map(|(name, module)| {
            let core =
                std::fs::read(&module).map_err(|source| BuildError::Read { path: module.clone(), source })?;
            let component = encode(&name, &core)?;
            let path = out.join(format!("{name}.wasm"));
            write_whole(&path, &component)?;
            Ok(Built { name, path, size: component.len() as u64 })
        })
        .collect()
}

/// Makes a component of a core module that carries its world in a custom section.
pub fn encode(name: &str, core: &[u8]) -> Result<Vec<u8>, BuildError> {
    let encoded = wit_component::ComponentEncoder::default()
        .validate(true)
        .module(core)
        .and_then(|encoder| encoder.encode());
    encoded.map_err(|e| BuildError::Encode { name: name.to_owned(), cause: format!("{e:#}") })
}

/// Runs cargo and returns each plugin's name and core module.
fn compile(toolchain: &Toolchain, dir: &Path, quiet: bool) -> Result<Vec<(String, PathBuf)>, BuildError> {
    let mut command = Command::new(&toolchain.cargo);
    command.current_dir(dir);
    command.args(["build", "--release", "--target", TARGET, "--message-format=json-render-diagnostics"]);
    if quiet {
        command.arg("--quiet");
    }
    command.args(&toolchain.arguments);
    // What is set for the host, or by a cargo that runs this program, is not meant for the guest.
    for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET"] {
        command.env_remove(name);
    }
    command.envs(toolchain.environment.iter().map(|(k, v)| (k, v)));
    command.stdin(Stdio::null()).stderr(Stdio::inherit());
    let output =
        command.output().map_err(|source| BuildError::Run { program: toolchain.cargo.clone(), source })?;
    if !output.status.success() {
        return Err(BuildError::Cargo { dir: dir.to_owned() });
    }
    Ok(output.stdout.split(|&b| b == b'\n').filter_map(artifact).collect())
}

/// The plugin that one line of cargo's messages reports, if it does.
fn artifact(line: &[u8]) -> Option<(String, PathBuf)> {
    let message: Value = serde_json::from_slice(line).ok()?;
    if message.get("reason")?.as_str()? != "compiler-artifact" {
        return None;
    }
    let target = message.get("target")?;
    let is_cdylib = target.get("kind")?.as_array()?.iter().any(|k| k.as_str() == Some("cdylib"));
    let module = message
        .get("filenames")?
        .as_array()?
        .iter()
        .filter_map(Value::as_str)
        .map(PathBuf::from)
        .find(|f| f.extension().is_some_and(|e| e == "wasm"))?;
    is_cdylib.then_some(())?;
    Some((package_name(message.get("manifest_path")?.as_str()?, target.get("name")?.as_str()?), module))
}

/// The package's name as its manifest spells it: a library's name has `_` for `-`.
fn package_name(manifest: &str, library: &str) -> String {
    let text = std::fs::read_to_string(manifest).unwrap_or_default();
    let mut in_package = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            in_package = line == "[package]";
        } else if in_package
            && let Some((key, value)) = line.split_once('=')
            && key.trim() == "name"
            && let Some(name) = value.trim().trim_start_matches('"').split('"').next()
        {
            return name.to_owned();
        }
    }
    library.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_without_a_world_is_refused_with_the_remedy() {
        let empty_module = b"\0asm\x01\0\0\0";
        let component = encode("x", empty_module);
        // wit-component accepts a module that asks for nothing and offers nothing: the host's world check refuses it.
        assert!(component.is_ok());
        let error = encode("x", b"garbage").unwrap_err();
        assert!(error.to_string().contains('x'), "{error}");
    }

    #[test]
    fn only_wasm_libraries_are_plugins() {
        let line = |kind: &str, file: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/none/Cargo.toml","target":{{"kind":["{kind}"],"name":"a_b"}},"filenames":["{file}"]}}"#
            )
        };
        let plugin = artifact(line("cdylib", "/t/a_b.wasm").as_bytes());
        assert_eq!(plugin, Some(("a_b".to_owned(), PathBuf::from("/t/a_b.wasm"))));
        assert_eq!(artifact(line("lib", "/t/liba_b.rlib").as_bytes()), None);
        assert_eq!(artifact(b"not json"), None);
    }
}

//! From a plugin project in Rust, Python, JavaScript or C to a WebAssembly component.
//!
//! Guests have no WASI: what a plugin can do beyond computing is in its imports from `whet:plugin`
//! and nowhere else. What a language needs beyond its own tool chain (`componentize-py`,
//! `componentize-js`, Zig as the C compiler) is fetched once, in pinned versions, into the user's
//! cache. Nothing here knows what a plugin computes or how the host runs it.

mod built;
mod c;
mod contract;
mod error;
mod javascript;
mod manifest;
mod python;
mod rust;
mod toolchain;
mod tools;

pub use contract::{CAPABILITIES, Kind};
pub use error::BuildError;
pub use manifest::Manifest;
pub use rust::encode;
pub use toolchain::{TARGET, Toolchain};

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A component that was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// The package's name, which is the plugin's.
    pub name: String,
    /// The component.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
}

/// The language of a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// A `Cargo.toml` with a `cdylib`, or a workspace of such.
    Rust,
    /// A `pyproject.toml` with `[tool.whet]`.
    Python,
    /// A `package.json` with `whet`.
    JavaScript,
    /// A `plugin.toml` with `[plugin]`.
    C,
}

impl Language {
    /// The file that makes a folder a project of this language.
    pub fn manifest(self) -> &'static str {
        match self {
            Language::Rust => "Cargo.toml",
            Language::Python => "pyproject.toml",
            Language::JavaScript => "package.json",
            Language::C => "plugin.toml",
        }
    }

    /// The language of the project in `dir`, by the manifest that it holds.
    pub fn of(dir: &Path) -> Option<Language> {
        let all = [Language::Rust, Language::Python, Language::JavaScript, Language::C];
        all.into_iter().find(|language| dir.join(language.manifest()).is_file())
    }
}

/// Builds every plugin of the project in `dir` and writes `<out>/<name>.wasm`.
///
/// A Rust workspace may hold projects of other languages in its folders: those are built too. Where
/// neither a project nor its tools have changed, a component of Python, JavaScript or C is the one that
/// was built before.
///
/// * `dir`: holds one of the manifests of [`Language`]
/// * `out`: where the components go; created if need be
/// * `quiet`: tools say nothing unless they fail
pub fn build(dir: &Path, out: &Path, quiet: bool) -> Result<Vec<Built>, BuildError> {
    let language = Language::of(dir).ok_or_else(|| BuildError::NoManifest(dir.to_owned()))?;
    if language != Language::Rust {
        return Ok(vec![build_one(language, dir, out, quiet)?]);
    }
    let mut built = rust::build(dir, out, quiet)?;
    for (language, dir) in others_within(dir)? {
        built.push(build_one(language, &dir, out, quiet)?);
    }
    if built.is_empty() {
        return Err(BuildError::NoPlugin(dir.to_owned()));
    }
    Ok(built)
}

fn build_one(language: Language, dir: &Path, out: &Path, quiet: bool) -> Result<Built, BuildError> {
    let manifest = Manifest::read(language, dir)?;
    let component = match language {
        Language::Python => python::component(&manifest, dir, quiet),
        Language::JavaScript => javascript::component(&manifest, dir, quiet),
        Language::C | Language::Rust => c::component(&manifest, dir, quiet),
    }?;
    std::fs::create_dir_all(out).map_err(|source| BuildError::Write { path: out.to_owned(), source })?;
    let path = out.join(format!("{}.wasm", manifest.name));
    write_whole(&path, &component)?;
    Ok(Built { name: manifest.name, path, size: component.len() as u64 })
}

/// Projects of other languages in the folders of a Rust workspace, sorted.
fn others_within(dir: &Path) -> Result<Vec<(Language, PathBuf)>, BuildError> {
    let entries =
        std::fs::read_dir(dir).map_err(|source| BuildError::Read { path: dir.to_owned(), source })?;
    let mut found: Vec<(Language, PathBuf)> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter_map(|path| Some((Language::of(&path)?, path)))
        .filter(|(language, path)| *language != Language::Rust && Manifest::read(*language, path).is_ok())
        .collect();
    found.sort_by(|a, b| a.1.cmp(&b.1));
    Ok(found)
}

/// Writes beside the goal and renames, so that a reader never sees half a component.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), BuildError> {
    let mut aside: OsString = path.as_os_str().to_owned();
    aside.push(format!(".{}.tmp", std::process::id()));
    let aside = PathBuf::from(aside);
    std::fs::write(&aside, bytes)
        .and_then(|()| std::fs::rename(&aside, path))
        .map_err(|source| BuildError::Write { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_a_manifest_is_named() {
        let error = build(Path::new("/nonexistent"), Path::new("/nonexistent"), true).unwrap_err();
        assert!(error.to_string().contains("/nonexistent"), "{error}");
    }

    #[test]
    fn the_manifest_says_the_language() {
        let dir = std::env::temp_dir().join(format!("whet-language-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        assert_eq!(Language::of(&dir), None);
        for language in [Language::C, Language::JavaScript, Language::Python, Language::Rust] {
            std::fs::write(dir.join(language.manifest()), "").unwrap();
            assert_eq!(Language::of(&dir), Some(language));
        }
        std::fs::remove_dir_all(dir).unwrap();
    }
}

//! What a project of Python, JavaScript or C says about its plugin.

use crate::contract::{CAPABILITIES, Kind};
use crate::{BuildError, Language};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// A project's plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The plugin's name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What it does, in a sentence.
    pub summary: String,
    /// What it is for.
    pub kind: Kind,
    /// Where it is: `module:Class` in Python, a module in JavaScript, a source file in C.
    pub entry: String,
    /// Capabilities that it imports, beyond `log`.
    pub capabilities: Vec<String>,
    /// Rewards only: each sample gets an instance of its own.
    pub isolated: bool,
}

/// The keys that are the same in all three files.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Whet {
    kind: String,
    plugin: String,
    #[serde(default)]
    capabilities: Vec<String>,
    #[serde(default)]
    isolated: bool,
}

/// What a package says about itself: `[project]`, or the top of `package.json`.
#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    #[serde(default)]
    description: String,
}

#[derive(Deserialize)]
struct PyProject {
    project: Package,
    tool: Option<Tool>,
}

#[derive(Deserialize)]
struct Tool {
    whet: Option<Whet>,
}

#[derive(Deserialize)]
struct PackageJson {
    #[serde(flatten)]
    package: Package,
    whet: Option<Whet>,
}

#[derive(Deserialize)]
struct PluginToml {
    project: Package,
    whet: Option<Whet>,
}

impl Manifest {
    /// Reads the manifest of a project; `language` is not Rust, whose manifest is cargo's.
    pub fn read(language: Language, dir: &Path) -> Result<Manifest, BuildError> {
        let path = dir.join(language.manifest());
        let text = std::fs::read_to_string(&path)
            .map_err(|source| BuildError::Read { path: path.clone(), source })?;
        parse(language, &text).map_err(|cause| BuildError::Manifest { path: PathBuf::from(&path), cause })
    }
}

fn parse(language: Language, text: &str) -> Result<Manifest, String> {
    let (package, whet, place) = match language {
        Language::JavaScript => {
            let found: PackageJson = serde_json::from_str(text).map_err(|e| e.to_string())?;
            (found.package, found.whet, "the key \"whet\"")
        }
        Language::Python => {
            let found: PyProject = toml::from_str(text).map_err(|e| e.to_string())?;
            (found.project, found.tool.and_then(|tool| tool.whet), "a table [tool.whet]")
        }
        Language::C | Language::Rust => {
            let found: PluginToml = toml::from_str(text).map_err(|e| e.to_string())?;
            (found.project, found.whet, "a table [whet]")
        }
    };
    let whet = whet.ok_or_else(|| {
        format!("it needs {place} with `kind` (reward, filter or advantage) and `plugin` (where it is)")
    })?;
    let kind = Kind::parse(&whet.kind)
        .ok_or_else(|| format!("`{}` is no kind: write reward, filter or advantage", whet.kind))?;
    if let Some(unknown) = whet.capabilities.iter().find(|c| !CAPABILITIES.contains(&c.as_str())) {
        let known = CAPABILITIES.join(", ");
        return Err(format!("`{unknown}` is no capability: there are {known}; log needs no word"));
    }
    if whet.isolated && kind != Kind::Reward {
        return Err("only a reward can be isolated".into());
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if package.name.is_empty() || package.name.starts_with('.') || !package.name.chars().all(is_name) {
        return Err(format!(
            "`{}` cannot be a plugin's name: use letters, digits, `-`, `_`, `.`",
            package.name
        ));
    }
    Ok(Manifest {
        name: package.name,
        version: package.version,
        summary: package.description,
        kind,
        entry: whet.plugin,
        capabilities: whet.capabilities,
        isolated: whet.isolated,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_manifests_say_the_same() {
        let python = "[project]\nname = 'a'\nversion = '1.0.0'\ndescription = 'd'\n\
                      [tool.whet]\nkind = 'reward'\nplugin = 'p'\ncapabilities = ['judge']";
        let c = "[project]\nname = 'a'\nversion = '1.0.0'\ndescription = 'd'\n\
                 [whet]\nkind = 'reward'\nplugin = 'p'\ncapabilities = ['judge']";
        let json = r#"{"name": "a", "version": "1.0.0", "description": "d", "type": "module",
                       "whet": {"kind": "reward", "plugin": "p", "capabilities": ["judge"]}}"#;
        let manifest = parse(Language::Python, python).unwrap();
        assert_eq!(manifest.capabilities, ["judge"]);
        assert_eq!(parse(Language::C, c).as_ref(), Ok(&manifest));
        assert_eq!(parse(Language::JavaScript, json).as_ref(), Ok(&manifest));
    }

    #[test]
    fn what_is_wrong_is_said_with_the_remedy() {
        let with = |name: &str, rest: &str| {
            let text = format!("[project]\nname = '{name}'\nversion = '1'\n[whet]\nplugin = 'p'\n{rest}");
            parse(Language::C, &text).unwrap_err()
        };
        assert!(with("a", "kind = 'rewards'").contains("`rewards` is no kind"));
        assert!(with("a", "kind = 'reward'\ncapabilities = ['clock']").contains("`clock` is no capability"));
        assert!(with("a", "kind = 'filter'\nisolated = true").contains("isolated"));
        assert!(with("a", "kind = 'reward'\nkinds = 1").contains("kinds"));
        assert!(with("../a", "kind = 'reward'").contains("name"));
        let error = parse(Language::Python, "[project]\nname = 'a'\nversion = '1'").unwrap_err();
        assert!(error.contains("[tool.whet]"), "{error}");
    }
}

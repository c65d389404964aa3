//! The contract as text: `wit/`, and the world of one plugin.
//!
//! A component of Python, JavaScript or C imports everything that its world names, used or not. So its
//! world names what the project asks for, and not all that exists.

use crate::{BuildError, Manifest};
use std::path::Path;

/// `whet:plugin`, as this host serves it.
pub const CONTRACT: &str = include_str!("../../../wit/plugin.wit");
/// The version of the package within.
pub const VERSION: &str = "0.1.0";
/// The name of the world that [`write`] makes.
pub const WORLD: &str = "plugin";
/// What a project may ask for beyond `log`.
pub const CAPABILITIES: [&str; 4] = ["random", "store", "judge", "http"];

/// What a plugin does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Scores responses.
    Reward,
    /// Chooses rows and groups.
    Filter,
    /// Turns rewards into advantages.
    Advantage,
}

impl Kind {
    /// The kind's name, which is also its interface's.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Reward => "reward",
            Kind::Filter => "filter",
            Kind::Advantage => "advantage",
        }
    }

    /// The kind of a name.
    pub fn parse(name: &str) -> Option<Kind> {
        [Kind::Reward, Kind::Filter, Kind::Advantage].into_iter().find(|kind| kind.as_str() == name)
    }
}

/// The world of a plugin, as text.
pub fn world(manifest: &Manifest) -> String {
    let mut imports = vec!["log"];
    imports.extend(manifest.capabilities.iter().map(String::as_str));
    let mut exports = vec!["meta", manifest.kind.as_str()];
    if manifest.isolated {
        exports.push("isolated");
    }
    let line = |verb: &str, name: &str| format!("    {verb} whet:plugin/{name}@{VERSION};\n");
    let body: String = imports.iter().map(|name| line("import", name)).collect::<String>()
        + &exports.iter().map(|name| line("export", name)).collect::<String>();
    format!("package whet:project;\n\nworld {WORLD} {{\n{body}}}\n")
}

/// Writes a folder that WIT tools read: the world, and the contract as its dependency.
pub fn write(manifest: &Manifest, dir: &Path) -> Result<(), BuildError> {
    let contract = dir.join("deps/whet-plugin");
    let write = |path: &Path, text: &str| {
        std::fs::write(path, text).map_err(|source| BuildError::Write { path: path.to_owned(), source })
    };
    std::fs::create_dir_all(&contract)
        .map_err(|source| BuildError::Write { path: contract.clone(), source })?;
    write(&contract.join("plugin.wit"), CONTRACT)?;
    write(&dir.join("world.wit"), &world(manifest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_contracts() {
        assert!(CONTRACT.contains(&format!("package whet:plugin@{VERSION};")));
        for capability in CAPABILITIES {
            assert!(CONTRACT.contains(&format!("interface {capability} {{")), "{capability}");
        }
    }

    #[test]
    fn a_world_imports_what_the_project_asks_for_and_no_more() {
        let manifest = Manifest {
            name: "x".into(),
            version: "0.1.0".into(),
            summary: String::new(),
            kind: Kind::Reward,
            entry: "x".into(),
            capabilities: vec!["judge".into()],
            isolated: true,
        };
        let world = world(&manifest);
        assert_eq!(world.matches("import").count(), 2, "{world}");
        for line in
            ["import whet:plugin/judge@", "export whet:plugin/isolated@", "export whet:plugin/reward@"]
        {
            assert!(world.contains(line), "{world}");
        }
    }
}

//! Where a plugin's file is, and where compiled plugins are kept for this user.

use std::path::{Path, PathBuf};

/// Names a folder of standard plugins that is searched before all others.
pub const PLUGINS_DIR: &str = "WHET_PLUGINS_DIR";

/// Why no file was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// A path that leads nowhere.
    #[error("there is no plugin file {}", .0.display())]
    NoFile(PathBuf),
    /// A name that no folder of standard plugins has.
    #[error("there is no standard plugin `{name}` in {}; {}", places(searched), remedy(available))]
    NoName {
        /// The name.
        name: String,
        /// The folders that were searched.
        searched: Vec<PathBuf>,
        /// The names that they do have.
        available: Vec<String>,
    },
}

fn places(folders: &[PathBuf]) -> String {
    folders.iter().map(|f| f.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn remedy(available: &[String]) -> String {
    if available.is_empty() {
        return "build them with `cargo xtask plugins`, or give the path of a .wasm file".into();
    }
    format!("there are {}; a path of a .wasm file works too", available.join(", "))
}

/// Finds a plugin: a text with a path separator or the ending `.wasm` is a path, anything else the
/// name of a standard plugin.
pub fn find(plugin: &str) -> Result<PathBuf, FindError> {
    find_in(plugin, &standard_folders())
}

fn find_in(plugin: &str, folders: &[PathBuf]) -> Result<PathBuf, FindError> {
    if plugin.ends_with(".wasm") || plugin.contains(['/', '\\']) {
        let path = PathBuf::from(plugin);
        return if path.is_file() { Ok(path) } else { Err(FindError::NoFile(path)) };
    }
    let file = format!("{plugin}.wasm");
    match folders.iter().map(|folder| folder.join(&file)).find(|path| path.is_file()) {
        Some(path) => Ok(path),
        None => Err(FindError::NoName {
            name: plugin.to_owned(),
            searched: folders.to_vec(),
            available: names(folders),
        }),
    }
}

/// Names of the plugins in some folders, sorted.
fn names(folders: &[PathBuf]) -> Vec<String> {
    let entries = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "wasm"))
        .filter_map(|path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned()))
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Folders that may hold the standard plugins, in order: `WHET_PLUGINS_DIR`; beside an installed
/// program (`plugins`, or `../share/whet/plugins`); the checkout that the program was built in.
pub fn standard_folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = std::env::var_os(PLUGINS_DIR).map(PathBuf::from).into_iter().collect();
    if let Ok(program) = std::env::current_exe().and_then(|p| p.canonicalize()) {
        if let Some(beside) = program.parent() {
            folders.push(beside.join("plugins"));
            folders.extend(beside.parent().map(|prefix| prefix.join("share/whet/plugins")));
        }
        folders.extend(program.ancestors().skip(2).map(|dir| dir.join("plugins/dist")).find(|d| d.is_dir()));
    }
    folders
}

/// `~/.cache/whet/plugins`, as the user's environment has it; none without a home.
pub fn user_cache_dir() -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache =
        std::env::var_os("XDG_CACHE_HOME").filter(|c| !c.is_empty()).map(PathBuf::from).or_else(home)?;
    Some(cache.join("whet/plugins"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_never_taken_for_a_name() {
        for path in ["./math-answer", "a/b", "x.wasm"] {
            assert_eq!(find_in(path, &[]), Err(FindError::NoFile(path.into())));
        }
    }

    #[test]
    fn the_first_folder_that_has_the_name_wins_and_a_miss_lists_what_there_is() {
        let base = std::env::temp_dir().join(format!("whet-find-{}", std::process::id()));
        let folders = [base.join("a"), base.join("b")];
        for (folder, name) in [(&folders[0], "one"), (&folders[1], "one"), (&folders[1], "two")] {
            std::fs::create_dir_all(folder).unwrap();
            std::fs::write(folder.join(format!("{name}.wasm")), b"").unwrap();
        }
        assert_eq!(find_in("one", &folders), Ok(folders[0].join("one.wasm")));
        assert_eq!(find_in("two", &folders), Ok(folders[1].join("two.wasm")));
        let message = find_in("three", &folders).unwrap_err().to_string();
        assert!(message.contains("`three`") && message.contains("one, two"), "{message}");
        std::fs::remove_dir_all(base).unwrap();
    }
}

//! From a file and overrides to a [`Recipe`], and from a recipe back to a file.

use crate::document::Document;
use crate::error::{Place, Problem, RecipeError, RecipeErrors};
use crate::section::{DataPath, Examples, PluginUse, Recipe};
use crate::{expand, rules, shape};
use serde_json::Value;
use std::io;
use std::path::{Path, PathBuf};

impl Recipe {
    /// Reads a recipe and checks all of it; relative paths in it start at its own folder.
    ///
    /// # Errors
    /// Everything that is wrong, each with its place and remedy.
    pub fn load(path: &Path) -> Result<Recipe, RecipeErrors> {
        Recipe::load_with(path, &[])
    }

    /// Reads a recipe, changed by overrides of the form `train.steps=20` or `reward[1].weight=0.5`.
    ///
    /// Relative paths in overrides start at the current directory.
    ///
    /// # Errors
    /// Everything that is wrong, each with its place and remedy.
    pub fn load_with(path: &Path, overrides: &[String]) -> Result<Recipe, RecipeErrors> {
        let failed = |text: &str, mut errors: Vec<RecipeError>| {
            errors.sort_by_key(|e| match &e.place {
                Some(Place::File { key, value }) => key.as_ref().unwrap_or(value).start,
                _ => usize::MAX,
            });
            RecipeErrors { file: path.to_owned(), text: text.to_owned(), errors }
        };
        let text = std::fs::read_to_string(path).map_err(|e| {
            let message = match e.kind() {
                io::ErrorKind::NotFound => "it does not exist".to_owned(),
                io::ErrorKind::InvalidData => "it is not UTF-8 text".to_owned(),
                io::ErrorKind::IsADirectory => "it is a folder".to_owned(),
                _ => e.to_string(),
            };
            let near = if e.kind() == io::ErrorKind::NotFound { near(path) } else { Vec::new() };
            let problem = Problem::Unreadable { message, near };
            failed("", vec![RecipeError { key: String::new(), place: None, problem }])
        })?;
        let mut document = Document::parse(&text).map_err(|errors| failed(&text, errors))?;
        let refused = overrides.iter().filter_map(|o| document.set(o).err());
        let mut errors: Vec<RecipeError> =
            refused.map(|problem| RecipeError { key: String::new(), place: None, problem }).collect();
        let name = path.file_stem().map_or_else(|| "recipe".into(), |stem| stem.to_string_lossy());
        document.derive(&name);
        errors.extend(expand::expand(&mut document));
        errors.extend(shape::check(&document, &crate::schema()));
        if !errors.is_empty() {
            return Err(failed(&text, errors));
        }
        let mut recipe: Recipe = serde_json::from_value(document.value.clone()).map_err(|e| {
            let problem = Problem::Malformed { message: e.to_string() };
            failed(&text, vec![document.error("", problem)])
        })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        errors.extend(resolve_paths(&mut recipe, &document, folder));
        errors.extend(rules::check(&recipe, &document));
        if errors.is_empty() { Ok(recipe) } else { Err(failed(&text, errors)) }
    }

    /// The recipe as TOML with every default written out and every path absolute; it loads back equal.
    ///
    /// Keys that have no effect beside the others are left out, as a recipe must not give them.
    pub fn resolved_toml(&self) -> String {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        for inert in rules::inert(self) {
            let (section, key) = inert.key.rsplit_once('.').unwrap_or(("", inert.key));
            let pointer: String =
                section.split('.').filter(|s| !s.is_empty()).map(|s| format!("/{s}")).collect();
            if let Some(Value::Object(table)) = value.pointer_mut(&pointer) {
                table.shift_remove(key);
            }
        }
        // What was loaded came from TOML. Only a recipe built by hand can be beyond it (a null in a plugin's
        // configuration, a seed above 63 bits), and then the file says so instead of standing empty.
        toml::to_string_pretty(&value).unwrap_or_else(|e| format!("# This recipe is beyond TOML: {e}\n"))
    }
}

/// Makes paths absolute and reports those that lead nowhere.
fn resolve_paths(recipe: &mut Recipe, document: &Document, folder: &Path) -> Vec<RecipeError> {
    let mut errors = Vec::new();
    let mut resolve = |path: &Path, key: &str, must_exist: bool, remedy: Option<String>| -> PathBuf {
        let base = match document.place(key) {
            Some(Place::File { .. }) => folder,
            // Overrides come from the command line, and derived paths are the run's own.
            _ => Path::new(""),
        };
        let joined = base.join(path);
        let absolute = absolute(&joined);
        if must_exist && !absolute.exists() {
            errors.push(
                document.error(key, Problem::MissingFile { path: joined, near: near(&absolute), remedy }),
            );
        }
        absolute
    };

    let source = &mut recipe.model.source;
    if !source.contains("://") {
        let hub =
            source.split('/').count() == 2 && !source.starts_with(['.', '/']) && !source.ends_with(".gguf");
        let remedy =
            hub.then(|| format!("write \"hf://{source}\" to take the model from the Hugging Face hub"));
        let key = if document.value["model"].is_string() { "model" } else { "model.source" };
        *source = resolve(Path::new(&*source), key, true, remedy).to_string_lossy().into_owned();
    }
    let others = [
        (recipe.critic.as_mut().and_then(|critic| critic.source.as_mut()), "critic.source"),
        (recipe.teacher.as_mut().and_then(|teacher| teacher.source.as_mut()), "teacher.source"),
    ];
    for (source, key) in others {
        if let Some(source) = source.filter(|source| !source.contains("://")) {
            *source = resolve(Path::new(&*source), key, true, None).to_string_lossy().into_owned();
        }
    }
    for (list, key) in [(&mut recipe.data.train, "data.train"), (&mut recipe.data.test, "data.test")] {
        for (index, data) in list.iter_mut().enumerate() {
            let key = if document.given(&format!("{key}[{index}]")) {
                format!("{key}[{index}]")
            } else {
                key.to_owned()
            };
            data.path = resolve(&data.path, &key, true, None);
        }
    }
    if let Some(Examples::File(DataPath { path, .. })) = &mut recipe.data.examples {
        *path = resolve(path, "data.examples", true, None);
    }
    let mut plugin = |plugin: &mut PluginUse, key: &str, index: usize| {
        let key = if document.value[key].is_array() {
            format!("{key}[{index}].plugin")
        } else {
            format!("{key}.plugin")
        };
        if plugin.names_a_file() {
            plugin.plugin =
                resolve(Path::new(&plugin.plugin), &key, true, None).to_string_lossy().into_owned();
        }
    };
    recipe.reward.iter_mut().enumerate().for_each(|(i, r)| plugin(&mut r.plugin, "reward", i));
    recipe.filter.iter_mut().enumerate().for_each(|(i, f)| plugin(f, "filter", i));
    recipe.advantage.iter_mut().for_each(|a| plugin(a, "advantage", 0));
    recipe.run.dir = resolve(&recipe.run.dir.clone(), "run.dir", false, None);
    errors
}

/// The path from the root, without `..` where its folder exists; the file's own name stays, even of a link.
fn absolute(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match (path.parent().and_then(|folder| folder.canonicalize().ok()), path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path,
    }
}

impl PluginUse {
    /// Whether `plugin` is a path rather than the name of a standard plugin.
    pub fn names_a_file(&self) -> bool {
        !self.plugin.contains("://") && (self.plugin.ends_with(".wasm") || self.plugin.contains(['/', '\\']))
    }
}

/// Names beside a missing file that resemble it.
pub(crate) fn near(path: &Path) -> Vec<String> {
    let Some(wanted) = path.file_name().map(|name| name.to_string_lossy().into_owned()) else {
        return Vec::new();
    };
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut scored: Vec<(f64, String)> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .map(|name| (strsim::jaro_winkler(&wanted, &name), name))
        .filter(|(score, _)| *score > 0.85)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let best = scored.first().map_or(0.0, |(score, _)| *score);
    scored.into_iter().take_while(|(score, _)| *score > best - 0.02).take(3).map(|(_, name)| name).collect()
}

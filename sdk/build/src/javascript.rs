//! JavaScript: SpiderMonkey, the SDK and the project in one component, made by `componentize-js`.

use crate::built::{Inputs, copy, files};
use crate::tools::{self, COMPONENTIZE_JS, Node};
use crate::{BuildError, Manifest, contract};
use std::path::{Path, PathBuf};

/// The SDK, so that a component is always made with the one that fits this program.
const SDK: [(&str, &str); 2] = [
    ("index.js", include_str!("../../js/index.js")),
    ("component.js", include_str!("../../js/component.js")),
];

/// Calls `componentize-js` on the entry point in the current folder. Without features, the engine has no
/// clock, no random numbers and no network, and imports what the world names.
const SCRIPT: &str = r#"
import { readdirSync, readFileSync, writeFileSync, statSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { init, parse } from "es-module-lexer";
import { componentize } from "@bytecodealliance/componentize-js";

await init;

// The engine knows paths, not packages: `whet-plugin` becomes the path of the SDK.
function* modules(dir) {
  for (const name of readdirSync(dir)) {
    const path = join(dir, name);
    if (statSync(path).isDirectory()) yield* modules(path);
    else if (/\.m?js$/.test(name)) yield path;
  }
}
for (const path of modules("project")) {
  const text = readFileSync(path, "utf8");
  let sdk = relative(dirname(path), join("sdk", "index.js"));
  if (!sdk.startsWith(".")) sdk = `./${sdk}`;
  const [imports] = parse(text, path);
  const changed = imports
    .filter((i) => i.n === "whet-plugin")
    .reduceRight((s, i) => s.slice(0, i.s) + (i.d >= 0 ? JSON.stringify(sdk) : sdk) + s.slice(i.e), text);
  if (changed !== text) writeFileSync(path, changed);
}

const { component } = await componentize({
  sourcePath: "entry.js",
  witPath: "wit",
  worldName: "plugin",
  disableFeatures: ["random", "stdio", "clocks", "http", "fetch-event"],
});
writeFileSync("plugin.wasm", component);
"#;

/// Makes the component of a JavaScript project.
pub fn component(manifest: &Manifest, dir: &Path, quiet: bool) -> Result<Vec<u8>, BuildError> {
    let project = files(dir, &[".js", ".mjs"])?;
    let module = manifest.entry.trim_start_matches("./");
    if !project.iter().any(|file| file.as_os_str() == module) {
        let cause = format!("`plugin: \"{}\"` names no module of the project", manifest.entry);
        return Err(BuildError::Manifest { path: dir.join("package.json"), cause });
    }
    let entry = entry(manifest, module);
    let mut words = vec![COMPONENTIZE_JS.0, COMPONENTIZE_JS.1, SCRIPT, &entry];
    words.extend(SDK.iter().flat_map(|(name, text)| [*name, *text]));
    let mut inputs = Inputs::new(manifest, &words);
    inputs.add_files(dir, &project)?;
    inputs.component(|| {
        let node = Node::find(quiet)?;
        let tool = tools::componentize_js(&node, quiet)?;
        let work = tools::staging(&tools::cache()?.join("work"))?;
        let made = copy(dir, &project, &work.join("project"))
            .and_then(|()| make(manifest, &entry, &node, &tool, &work, quiet));
        let _ = std::fs::remove_dir_all(&work);
        made
    })
}

fn make(
    manifest: &Manifest,
    entry: &str,
    node: &Node,
    tool: &Path,
    work: &Path,
    quiet: bool,
) -> Result<Vec<u8>, BuildError> {
    let write = |path: PathBuf, text: &str| {
        std::fs::create_dir_all(path.parent().unwrap_or(work))
            .and_then(|()| std::fs::write(&path, text))
            .map_err(|source| BuildError::Write { path, source })
    };
    contract::write(manifest, &work.join("wit"))?;
    for (name, text) in SDK {
        write(work.join("sdk").join(name), text)?;
    }
    write(work.join("entry.js"), entry)?;
    write(work.join("build.mjs"), SCRIPT)?;
    // Node.js looks for packages beside the script.
    let packages = work.join("node_modules");
    std::os::unix::fs::symlink(tool.join("node_modules"), &packages)
        .map_err(|source| BuildError::Write { path: packages, source })?;
    let mut command = node.command();
    command.arg("build.mjs").current_dir(work);
    tools::run(&mut command, "componentize-js", quiet)?;
    let output = work.join("plugin.wasm");
    std::fs::read(&output).map_err(|source| BuildError::Read { path: output, source })
}

/// The module that `componentize-js` takes: the plugin, its interfaces, and the capabilities that its
/// world imports.
fn entry(manifest: &Manifest, module: &str) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let version = contract::VERSION;
    let capabilities = std::iter::once("log").chain(manifest.capabilities.iter().map(String::as_str));
    let capabilities: Vec<&str> = capabilities.collect();
    let imports: String = capabilities
        .iter()
        .map(|name| format!("import * as {name} from \"whet:plugin/{name}@{version}\";\n"))
        .collect();
    let mut exports = vec!["meta", manifest.kind.as_str()];
    if manifest.isolated {
        exports.push("isolated");
    }
    let exports: String =
        exports.iter().map(|name| format!("export const {name} = plugin.{name};\n")).collect();
    format!(
        "{imports}import {{ exportsOf }} from \"./sdk/component.js\";\n\
         import Plugin from {module};\n\n\
         const about = {{ name: {name}, version: {plugin_version}, summary: {summary} }};\n\
         const plugin = exportsOf({kind}, Plugin, about, {{ {host} }});\n{exports}",
        module = quoted(&format!("./project/{module}")),
        name = quoted(&manifest.name),
        plugin_version = quoted(&manifest.version),
        summary = quoted(&manifest.summary),
        kind = quoted(manifest.kind.as_str()),
        host = capabilities.join(", "),
    )
}

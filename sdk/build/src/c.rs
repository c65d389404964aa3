//! C: the contract as a header, clang (Zig's) for WebAssembly without a system, wit-component in process.
//!
//! There is no C library: `sdk/c` has memory, strings and what the generated code calls, and nothing
//! that needs an operating system.

use crate::built::{Inputs, copy, files};
use crate::tools::{self, ZIG};
use crate::{BuildError, Manifest, contract, rust};
use std::path::{Path, PathBuf};
use std::process::Command;
use wit_bindgen_core::Files;
use wit_component::{StringEncoding, embed_component_metadata};

/// The SDK, compiled into every plugin.
const SDK: [(&str, &str); 5] = [
    ("include/stdlib.h", include_str!("../../c/include/stdlib.h")),
    ("include/string.h", include_str!("../../c/include/string.h")),
    ("include/whet.h", include_str!("../../c/include/whet.h")),
    ("libc.c", include_str!("../../c/libc.c")),
    ("whet.c", include_str!("../../c/whet.c")),
];

/// Flags of the compiler and linker.
const FLAGS: [&str; 11] = [
    "-target",
    "wasm32-freestanding",
    "-std=c11",
    "-Oz",
    "-nostdlib",
    "-fno-builtin",
    "-fno-sanitize=undefined",
    "-Wl,--no-entry",
    "-Wl,--strip-all",
    "-Wl,-z,stack-size=65536",
    "-Wall",
];

/// Makes the component of a C project: all its `.c` files.
pub fn component(manifest: &Manifest, dir: &Path, quiet: bool) -> Result<Vec<u8>, BuildError> {
    let project = files(dir, &[".c", ".h"])?;
    // Tests of a project run natively and have a `main` of their own.
    let is_source = |file: &&PathBuf| {
        file.extension().is_some_and(|e| e == "c") && !file.to_string_lossy().ends_with("_test.c")
    };
    let sources: Vec<&PathBuf> = project.iter().filter(is_source).collect();
    if !sources.iter().any(|source| source.as_os_str() == manifest.entry.as_str()) {
        let cause = format!("`plugin = \"{}\"` names no .c file of the project", manifest.entry);
        return Err(BuildError::Manifest { path: dir.join("plugin.toml"), cause });
    }
    let mut words = vec![ZIG.0, ZIG.1];
    words.extend(FLAGS);
    words.extend(SDK.iter().flat_map(|(name, text)| [*name, *text]));
    let mut inputs = Inputs::new(manifest, &words);
    inputs.add_files(dir, &project)?;
    inputs.component(|| {
        let zig = tools::from_pip(ZIG, quiet)?.join("ziglang/zig");
        let work = tools::staging(&tools::cache()?.join("work"))?;
        let made = copy(dir, &project, &work.join("project"))
            .and_then(|()| make(manifest, &sources, &zig, &work, quiet));
        let _ = std::fs::remove_dir_all(&work);
        made
    })
}

fn make(
    manifest: &Manifest,
    sources: &[&PathBuf],
    zig: &Path,
    work: &Path,
    quiet: bool,
) -> Result<Vec<u8>, BuildError> {
    let encode = |e: &dyn std::fmt::Display| BuildError::Encode {
        name: manifest.name.clone(),
        cause: format!("{e:#}"),
    };
    let wit = work.join("wit");
    contract::write(manifest, &wit)?;
    let mut resolve = wit_parser::Resolve::default();
    let (package, _) = resolve.push_dir(&wit).map_err(|e| encode(&e))?;
    let world = resolve.select_world(&[package], Some(contract::WORLD)).map_err(|e| encode(&e))?;

    let mut generated = Files::default();
    let mut generator = wit_bindgen_c::Opts { no_object_file: true, ..Default::default() }.build();
    generator.generate(&mut resolve, world, &mut generated).map_err(|e| encode(&e))?;
    let write = |path: &Path, bytes: &[u8]| {
        std::fs::create_dir_all(path.parent().unwrap_or(work))
            .and_then(|()| std::fs::write(path, bytes))
            .map_err(|source| BuildError::Write { path: path.to_owned(), source })
    };
    for (name, bytes) in generated.iter() {
        write(&work.join("sdk/include").join(name), bytes)?;
    }
    write(&work.join("sdk/include/whet_plugin.h"), about(manifest).as_bytes())?;
    for (name, text) in SDK {
        write(&work.join("sdk").join(name), text.as_bytes())?;
    }

    let mut command = Command::new(zig);
    command.arg("cc").args(FLAGS).args(["-isystem", "sdk/include", "-I", "project", "-o", "core.wasm"]);
    command.args(["sdk/libc.c", "sdk/whet.c"]).arg(format!("sdk/include/{}.c", contract::WORLD));
    command.args(sources.iter().map(|source| Path::new("project").join(source)));
    // Zig keeps compiled parts of its own there.
    command
        .env("ZIG_GLOBAL_CACHE_DIR", tools::cache()?.join("zig"))
        .env("ZIG_LOCAL_CACHE_DIR", work.join("zig"));
    tools::run(command.current_dir(work), "zig cc", quiet)?;
    let path = work.join("core.wasm");
    let mut core = std::fs::read(&path).map_err(|source| BuildError::Read { path, source })?;
    embed_component_metadata(&mut core, &resolve, world, StringEncoding::UTF8).map_err(|e| encode(&e))?;
    rust::encode(&manifest.name, &core)
}

/// What the manifest says, for the plugin's `describe`.
fn about(manifest: &Manifest) -> String {
    // JSON strings without non-ASCII escapes are C strings.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    format!(
        "#define WHET_NAME {}\n#define WHET_VERSION {}\n#define WHET_SUMMARY {}\n",
        quoted(&manifest.name),
        quoted(&manifest.version),
        quoted(&manifest.summary)
    )
}

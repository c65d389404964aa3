//! Why a plugin was not built, each with what to do about it.

use std::path::PathBuf;

/// Why a plugin was not built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// No manifest of any language.
    #[error(
        "no plugin project in {}: it has no Cargo.toml, pyproject.toml, package.json or plugin.toml; `whet plugin new NAME --kind reward` makes a project", .0.display()
    )]
    NoManifest(PathBuf),
    /// No package with a `cdylib`.
    #[error("no plugin in {}: a plugin's Cargo.toml says [lib] crate-type = [\"cdylib\"]", .0.display())]
    NoPlugin(PathBuf),
    /// The manifest does not say what is needed.
    #[error("{}: {cause}", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        cause: String,
    },
    /// Where tools and components would be kept is not known.
    #[error("neither HOME nor XDG_CACHE_HOME is set: set one, tools are kept there")]
    NoHome,
    /// A tool is missing, cannot be fetched or failed.
    #[error("{tool}: {cause}{}", tool_remedy(tool, cause))]
    Tool {
        /// The tool.
        tool: &'static str,
        /// Its words.
        cause: String,
    },
    /// Far more files than a plugin has.
    #[error("{} holds more than {limit} files: is this the plugin's folder?", dir.display())]
    TooManyFiles {
        /// The folder.
        dir: PathBuf,
        /// The limit.
        limit: usize,
    },
    /// Neither the target nor the source of std.
    #[error(
        "this Rust toolchain cannot build for {0}: run `rustup target add {0}`, or install the source of std (Debian: rustc-web, cargo-web, rust-web-src, lld) so that it can be built"
    )]
    NoTarget(&'static str),
    /// The source of std, but no linker.
    #[error("no linker for WebAssembly: install lld (Debian: lld), or run `rustup target add {0}`")]
    NoLinker(&'static str),
    /// A program did not start.
    #[error("cannot run {}: {source}", program.to_string_lossy())]
    Run {
        /// The program.
        program: std::ffi::OsString,
        /// Why.
        source: std::io::Error,
    },
    /// Cargo failed; it has said why.
    #[error("cargo could not build the plugin in {}; its messages are above", dir.display())]
    Cargo {
        /// The project.
        dir: PathBuf,
    },
    /// The core module does not become a component.
    #[error(
        "{name} does not become a component: {cause}\nA plugin may import `whet:plugin` only; a dependency built for browsers or WASI often has a feature (`js`, `wasm-bindgen`, `std`) to turn off"
    )]
    Encode {
        /// The plugin.
        name: String,
        /// The encoder's words.
        cause: String,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// What to do about a tool that did not run.
fn tool_remedy(tool: &str, cause: &str) -> String {
    if cause.contains("No module named pip") {
        return format!("\n{tool} is fetched by pip: install it (Debian: python3-pip)");
    }
    if cause.starts_with("cannot run python3") {
        return format!(
            "\n{tool} is fetched by Python 3 with pip: install both (Debian: python3 python3-pip)"
        );
    }
    String::new()
}

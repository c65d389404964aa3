//! libtorch's CUDA half, loaded while the program runs.
//!
//! The binary links only the CPU library, so that one build serves machines with and without a GPU.
//! libtorch decides at its first CUDA question whether CUDA exists, and remembers: the library must
//! be loaded before anything asks. Nothing here asks.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const LIBRARY: &str = "libtorch_cuda.so";

/// Why libtorch's CUDA half could not be loaded.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum CudaError {
    /// Nowhere on the search path.
    #[error(
        "{LIBRARY} is not beside libtorch ({searched}) nor on LD_LIBRARY_PATH; this libtorch is built for CPUs only"
    )]
    Absent {
        /// Where it was looked for.
        searched: String,
    },
    /// Present, but the loader refused it.
    #[error("{} cannot be loaded: {reason}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// The loader's reason.
        reason: String,
    },
}

/// Loads libtorch's CUDA half once; later calls repeat the first answer. Call before any CUDA query.
///
/// # Errors
/// When the library is absent or cannot be loaded; the CPU half goes on working.
pub fn load() -> Result<(), CudaError> {
    static LOADED: OnceLock<Result<(), CudaError>> = OnceLock::new();
    LOADED.get_or_init(load_once).clone()
}

fn load_once() -> Result<(), CudaError> {
    let folders = folders();
    if let Some(path) = folders.iter().map(|f| f.join(LIBRARY)).find(|p| p.exists()) {
        return open(&path).map_err(|reason| CudaError::Refused { path, reason });
    }
    open(Path::new(LIBRARY)).map_err(|_| CudaError::Absent {
        searched: folders.iter().map(|f| f.display().to_string()).collect::<Vec<_>>().join(", "),
    })
}

/// Where the loaded CPU half lies, and where `LIBTORCH` points.
fn folders() -> Vec<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let loaded = maps.lines().find_map(|line| {
        let path = Path::new(line.get(line.find('/')?..)?);
        (path.file_name()? == "libtorch_cpu.so").then(|| path.parent().map(Path::to_owned))?
    });
    let named = std::env::var_os("LIBTORCH").map(|root| PathBuf::from(root).join("lib"));
    let mut folders: Vec<PathBuf> = loaded.into_iter().chain(named).collect();
    folders.dedup();
    folders
}

#[cfg(unix)]
fn open(path: &Path) -> Result<(), String> {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
    // SAFETY: the library is libtorch's own other half, whose initialisers register operators; it is
    // never unloaded, since registered operators must outlive every tensor.
    #[allow(unsafe_code)]
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) };
    library.map(std::mem::forget).map_err(|e| e.to_string())
}

#[cfg(not(unix))]
fn open(_: &Path) -> Result<(), String> {
    Err("CUDA is supported on Linux only".into())
}

//! libtorch 2.11: found, or laid out from Python wheels, and linked as `.libtorch`.
//!
//! `.cargo/config.toml` points every build at `.libtorch`. There is no libtorch package that fits
//! (the index has CUDA builds of torch only), but the wheel's `libtorch_cpu` needs no more than
//! two small CUDA libraries beside it. For a machine without a GPU that is all we keep: a fifth of
//! the space, and one download of 530 MB. The layout keeps the wheels' paths (`torch/lib`,
//! `nvidia/cu13/lib`), which are the ones the libraries look for each other at.

use crate::wheel::{self, Wheel};
use crate::workspace::{Workspace, put_in_place, run, say, staging};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// The release that `tch` in the root `Cargo.toml` is made for.
pub const VERSION: &str = "2.11.0";

/// Which libraries are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// Without a GPU.
    Cpu,
    /// With everything CUDA needs but the driver.
    Cuda,
}

impl Build {
    /// What the machine can use: CUDA where the NVIDIA driver is loaded.
    pub fn of_this_machine() -> Build {
        if driver_is_loaded() { Build::Cuda } else { Build::Cpu }
    }

    /// The folder's name in the cache.
    fn folder_name(self) -> &'static str {
        match self {
            Build::Cpu => "2.11.0",
            Build::Cuda => "2.11.0-cu130",
        }
    }

    fn wheels(self) -> impl Iterator<Item = &'static Wheel> {
        let more: &[Wheel] = match self {
            Build::Cpu => &[],
            Build::Cuda => &CUDA_WHEELS,
        };
        CPU_WHEELS.iter().chain(more)
    }

    /// Whether a file of a wheel is needed to build or run Whet.
    fn keeps(self, path: &str) -> bool {
        let file = path.rsplit('/').next().unwrap_or(path);
        if path.starts_with("torch/include/") {
            return true;
        }
        match self {
            Build::Cpu => {
                let torch = ["libtorch_cpu.so", "libc10.so", "libgomp.so.1"];
                let cuda = ["libcudart.so.13", "libcupti.so.13"];
                (path.starts_with("torch/lib/") && torch.contains(&file))
                    || (path.starts_with("nvidia/cu13/lib/") && cuda.contains(&file))
            }
            // All shared objects but those that only Python loads.
            Build::Cuda => {
                let python = ["libtorch_python.so", "libshm.so", "libtorch.so"];
                let library =
                    path.starts_with("torch/lib/") || (path.starts_with("nvidia/") && path.contains("/lib/"));
                library && (file.ends_with(".so") || file.contains(".so.")) && !python.contains(&file)
            }
        }
    }
}

/// True when the NVIDIA kernel driver is loaded.
pub fn driver_is_loaded() -> bool {
    Path::new("/proc/driver/nvidia/version").exists() || Path::new("/dev/nvidiactl").exists()
}

/// Makes `.libtorch` point at a usable libtorch. Returns false when it already did and nothing
/// was asked that would change it.
///
/// * `wanted`: a build asked for by flag; none keeps what is linked, or chooses by the machine
pub fn ensure(workspace: &Workspace, wanted: Option<Build>) -> Result<bool> {
    let link = workspace.libtorch_link();
    if let Some(own) = own_libtorch(workspace)? {
        return point(&link, &own);
    }
    let linked = std::fs::canonicalize(&link).ok().filter(|folder| fault(folder).is_none());
    if wanted.is_none() && linked.is_some() {
        return Ok(false);
    }
    let build = wanted.unwrap_or_else(Build::of_this_machine);
    let home = workspace.cache.join("libtorch").join(build.folder_name());
    let mut changed = false;
    if fault(&home.join("torch")).is_some() {
        lay_out(workspace, build, &home)?;
        changed = true;
    }
    Ok(point(&link, &home.join("torch"))? || changed)
}

/// What `.libtorch` stands for, in words.
pub fn describe(workspace: &Workspace) -> String {
    let target = std::fs::read_link(workspace.libtorch_link()).unwrap_or_default();
    format!("libtorch {VERSION} at {}", target.display())
}

/// The user's own `LIBTORCH`, checked. The `xtask` alias lets it through; for every other build
/// `.cargo/config.toml` overrides it by the link, so that all of them agree.
fn own_libtorch(workspace: &Workspace) -> Result<Option<PathBuf>> {
    let Some(value) = std::env::var_os("LIBTORCH").filter(|v| !v.is_empty()) else { return Ok(None) };
    let path = PathBuf::from(value);
    if path == workspace.libtorch_link() {
        return Ok(None);
    }
    let folder = std::fs::canonicalize(&path).with_context(|| {
        format!("LIBTORCH is set to {}, which is not there; unset it, or correct it", path.display())
    })?;
    if let Some(fault) = fault(&folder) {
        bail!(
            "LIBTORCH is set to {}, but {fault}. Whet needs libtorch {VERSION}: point LIBTORCH at one \
             (for a Python environment: its site-packages/torch), or unset it and run this again",
            folder.display()
        );
    }
    Ok(Some(folder))
}

/// What keeps a folder from being a libtorch that Whet can use, if anything.
fn fault(folder: &Path) -> Option<String> {
    let needed = [
        "include/torch/csrc/api/include/torch/torch.h",
        "lib/libtorch.so",
        "lib/libtorch_cpu.so",
        "lib/libc10.so",
    ];
    for file in needed {
        if !folder.join(file).exists() {
            return Some(format!("it has no {file}"));
        }
    }
    match version(folder) {
        Some(version) if version == VERSION => None,
        Some(version) => Some(format!("its version is {version}")),
        None => Some("neither build-version nor version.py in it says which version it is".into()),
    }
}

/// The version that a libtorch folder states, without the local part (`+cpu`, `+cu130`).
fn version(folder: &Path) -> Option<String> {
    let stated = match std::fs::read_to_string(folder.join("build-version")) {
        Ok(text) => text.trim().to_owned(),
        Err(_) => {
            let python = std::fs::read_to_string(folder.join("version.py")).ok()?;
            let line = python.lines().find(|line| line.starts_with("__version__"))?;
            line.split('\'').nth(1)?.to_owned()
        }
    };
    Some(stated.split('+').next().unwrap_or_default().to_owned())
}

/// Makes the link point at `target`; false when it did already.
fn point(link: &Path, target: &Path) -> Result<bool> {
    if std::fs::read_link(link).is_ok_and(|now| now == target) {
        return Ok(false);
    }
    match std::fs::symlink_metadata(link) {
        Ok(found) if found.is_symlink() => {
            std::fs::remove_file(link).with_context(|| format!("removing {}", link.display()))?;
        }
        Ok(_) => bail!("{} is in the way: it should be a link to libtorch; move it away", link.display()),
        Err(_) => {}
    }
    std::os::unix::fs::symlink(target, link)
        .with_context(|| format!("creating the link {}", link.display()))?;
    say("link", format!(".libtorch -> {}", target.display()));
    Ok(true)
}

/// Fetches the wheels and lays out what a build needs of them at `home`, which appears whole or not.
fn lay_out(workspace: &Workspace, build: Build, home: &Path) -> Result<()> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        bail!(
            "setup can fetch libtorch for Linux on x86-64 only. Get libtorch {VERSION} for this machine \
             (for example `pip install torch=={VERSION}`), set LIBTORCH to its folder and run this again"
        );
    }
    let total: u32 = build.wheels().map(|wheel| wheel.megabytes).sum();
    let kind = if build == Build::Cuda { "with CUDA" } else { "without CUDA" };
    say("libtorch", format!("{VERSION} {kind}: {total} MB to fetch, into {}", home.display()));
    let staged = staging(home)?;
    let result = fill(workspace, build, &staged).and_then(|()| put_in_place(&staged, home));
    if result.is_err() {
        let _ = std::fs::remove_dir_all(&staged);
    }
    result?;
    // The wheels are compressed copies of what now lies unpacked.
    for wheel in build.wheels() {
        let _ = std::fs::remove_file(wheel::folder(workspace).join(wheel.file));
    }
    Ok(())
}

/// Fills an empty folder with `torch/` and `nvidia/`.
fn fill(workspace: &Workspace, build: Build, folder: &Path) -> Result<()> {
    let archives = build.wheels().map(|wheel| wheel::fetch(workspace, wheel)).collect::<Result<Vec<_>>>()?;
    say("unpack", "headers and libraries");
    for archive in archives {
        wheel::extract(&archive, folder, |path| build.keeps(path))?;
    }
    // The linker is given -ltorch. The wheel's own libtorch.so is an empty library too, but one
    // that pulls in libtorch_cuda; ours pulls in nothing, and CUDA is loaded at run time.
    let stub = folder.join("torch/lib/libtorch.so");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    run(workspace
        .command(compiler)
        .args(["-shared", "-nostdlib", "-Wl,-soname,libtorch.so", "-x", "c", "/dev/null", "-o"])
        .arg(stub))
    .context("building an empty libtorch.so; a C compiler is needed (Debian and Ubuntu: `apt-get install build-essential`)")?;
    std::fs::write(folder.join("torch/build-version"), format!("{VERSION}\n"))
        .context("writing build-version")?;
    if let Some(fault) = fault(&folder.join("torch")) {
        bail!("the wheels did not hold what was expected: {fault}");
    }
    Ok(())
}

const CPU_WHEELS: [Wheel; 3] = [
    Wheel {
        project: "torch",
        version: "2.11.0",
        file: "torch-2.11.0-cp311-cp311-manylinux_2_28_x86_64.whl",
        sha256: "7aa2f9bbc6d4595ba72138026b2074be1233186150e9292865e04b7a63b8c67a",
        megabytes: 531,
    },
    Wheel {
        project: "nvidia-cuda-runtime",
        version: "13.0.96",
        file: "nvidia_cuda_runtime-13.0.96-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
        sha256: "7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548",
        megabytes: 2,
    },
    Wheel {
        project: "nvidia-cuda-cupti",
        version: "13.0.85",
        file: "nvidia_cuda_cupti-13.0.85-py3-none-manylinux_2_25_x86_64.whl",
        sha256: "4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8",
        megabytes: 11,
    },
];

/// What torch 2.11.0 asks for besides, without the parts that only Python uses (triton).
const CUDA_WHEELS: [Wheel; 13] = [
    Wheel {
        project: "nvidia-cublas",
        version: "13.1.0.3",
        file: "nvidia_cublas-13.1.0.3-py3-none-manylinux_2_27_x86_64.whl",
        sha256: "ee8722c1f0145ab246bccb9e452153b5e0515fd094c3678df50b2a0888b8b171",
        megabytes: 423,
    },
    Wheel {
        project: "nvidia-cudnn-cu13",
        version: "9.19.0.56",
        file: "nvidia_cudnn_cu13-9.19.0.56-py3-none-manylinux_2_27_x86_64.whl",
        sha256: "d20e1734305e9d68889a96e3f35094d733ff1f83932ebe462753973e53a572bf",
        megabytes: 366,
    },
    Wheel {
        project: "nvidia-cusparselt-cu13",
        version: "0.8.0",
        file: "nvidia_cusparselt_cu13-0.8.0-py3-none-manylinux2014_x86_64.whl",
        sha256: "25e30a8a7323935d4ad0340b95a0b69926eee755767e8e0b1cf8dd85b197d3fd",
        megabytes: 170,
    },
    Wheel {
        project: "nvidia-nccl-cu13",
        version: "2.28.9",
        file: "nvidia_nccl_cu13-2.28.9-py3-none-manylinux_2_18_x86_64.whl",
        sha256: "e4553a30f34195f3fa1da02a6da3d6337d28f2003943aa0a3d247bbc25fefc42",
        megabytes: 197,
    },
    Wheel {
        project: "nvidia-nvshmem-cu13",
        version: "3.4.5",
        file: "nvidia_nvshmem_cu13-3.4.5-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
        sha256: "290f0a2ee94c9f3687a02502f3b9299a9f9fe826e6d0287ee18482e78d495b80",
        megabytes: 60,
    },
    Wheel {
        project: "nvidia-cuda-nvrtc",
        version: "13.0.88",
        file: "nvidia_cuda_nvrtc-13.0.88-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl",
        sha256: "ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575",
        megabytes: 90,
    },
    Wheel {
        project: "nvidia-cufft",
        version: "12.0.0.61",
        file: "nvidia_cufft-12.0.0.61-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
        sha256: "6c44f692dce8fd5ffd3e3df134b6cdb9c2f72d99cf40b62c32dde45eea9ddad3",
        megabytes: 214,
    },
    Wheel {
        project: "nvidia-cufile",
        version: "1.15.1.6",
        file: "nvidia_cufile-1.15.1.6-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
        sha256: "08a3ecefae5a01c7f5117351c64f17c7c62efa5fffdbe24fc7d298da19cd0b44",
        megabytes: 1,
    },
    Wheel {
        project: "nvidia-curand",
        version: "10.4.0.35",
        file: "nvidia_curand-10.4.0.35-py3-none-manylinux_2_27_x86_64.whl",
        sha256: "1aee33a5da6e1db083fe2b90082def8915f30f3248d5896bcec36a579d941bfc",
        megabytes: 60,
    },
    Wheel {
        project: "nvidia-cusolver",
        version: "12.0.4.66",
        file: "nvidia_cusolver-12.0.4.66-py3-none-manylinux_2_27_x86_64.whl",
        sha256: "0a759da5dea5c0ea10fd307de75cdeb59e7ea4fcb8add0924859b944babf1112",
        megabytes: 201,
    },
    Wheel {
        project: "nvidia-cusparse",
        version: "12.6.3.3",
        file: "nvidia_cusparse-12.6.3.3-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
        sha256: "2b3c89c88d01ee0e477cb7f82ef60a11a4bcd57b6b87c33f789350b59759360b",
        megabytes: 146,
    },
    Wheel {
        project: "nvidia-nvjitlink",
        version: "13.0.88",
        file: "nvidia_nvjitlink-13.0.88-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl",
        sha256: "13a74f429e23b921c1109976abefacc69835f2f433ebd323d3946e11d804e47b",
        megabytes: 41,
    },
    Wheel {
        project: "nvidia-nvtx",
        version: "13.0.85",
        file: "nvidia_nvtx-13.0.85-py3-none-manylinux1_x86_64.manylinux_2_5_x86_64.whl",
        sha256: "4936d1d6780fbe68db454f5e72a42ff64d1fd6397df9f363ae786930fd5c1cd4",
        megabytes: 1,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that looks like a libtorch of the given version.
    fn libtorch(version: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in [
            "include/torch/csrc/api/include/torch/torch.h",
            "lib/libtorch.so",
            "lib/libtorch_cpu.so",
            "lib/libc10.so",
        ] {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        std::fs::write(folder.path().join("build-version"), version).unwrap();
        folder
    }

    #[test]
    fn a_complete_folder_of_the_right_version_is_accepted() {
        assert_eq!(fault(libtorch("2.11.0+cu130\n").path()), None);
    }

    #[test]
    fn a_folder_of_another_version_is_refused_with_the_version_it_has() {
        assert_eq!(fault(libtorch("2.9.1").path()), Some("its version is 2.9.1".into()));
    }

    #[test]
    fn a_torch_installed_by_pip_states_its_version_in_python() {
        let folder = libtorch("");
        std::fs::remove_file(folder.path().join("build-version")).unwrap();
        std::fs::write(
            folder.path().join("version.py"),
            "from typing import X\n__version__ = '2.11.0+cu130'\n",
        )
        .unwrap();
        assert_eq!(fault(folder.path()), None);
    }

    #[test]
    fn a_folder_without_a_library_is_refused_by_the_name_of_the_library() {
        let folder = libtorch("2.11.0");
        std::fs::remove_file(folder.path().join("lib/libtorch_cpu.so")).unwrap();
        assert_eq!(fault(folder.path()), Some("it has no lib/libtorch_cpu.so".into()));
    }

    #[test]
    fn the_link_is_changed_only_when_it_points_elsewhere_and_never_replaces_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join(".libtorch");
        assert!(point(&link, Path::new("/a")).unwrap());
        assert!(!point(&link, Path::new("/a")).unwrap());
        assert!(point(&link, Path::new("/b")).unwrap());
        std::fs::remove_file(&link).unwrap();
        std::fs::create_dir(&link).unwrap();
        assert!(point(&link, Path::new("/a")).is_err());
    }

    #[test]
    fn a_machine_without_a_gpu_keeps_no_cuda_kernels() {
        for path in [
            "torch/lib/libtorch_cuda.so",
            "torch/lib/libtorch_python.so",
            "torch/__init__.py",
            "torch/lib/libtorch.so",
        ] {
            assert!(!Build::Cpu.keeps(path), "{path}");
        }
        for path in
            ["torch/lib/libtorch_cpu.so", "torch/include/ATen/ATen.h", "nvidia/cu13/lib/libcudart.so.13"]
        {
            assert!(Build::Cpu.keeps(path) && Build::Cuda.keeps(path), "{path}");
        }
        assert!(Build::Cuda.keeps("torch/lib/libtorch_cuda.so"));
        assert!(Build::Cuda.keeps("nvidia/cudnn/lib/libcudnn.so.9"));
        assert!(!Build::Cuda.keeps("nvidia/cudnn/include/cudnn.h"));
    }
}

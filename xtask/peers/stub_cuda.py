"""Lets a CUDA build of torch be imported on a machine that has no CUDA libraries.

The wheel's libraries name cuBLAS, cuDNN, NCCL and so on, gigabytes that a CPU never calls. The
loader is content when a library of that name exists and defines the symbols, in the versions asked
for: this builds one library of empty functions and gives it every missing name, in the folder
where torch looks.

Usage: stub_cuda.py SITE_PACKAGES
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

# Libraries that only load when a GPU is used.
NOT_NEEDED = {"libcuda.so.1", "libnvrtc.so.13"}

# How the functions of those libraries are called.
CUDA = re.compile(r"p?nccl|cu(blas|dnn|fft|solver|sparse|File|rand)|nvshmem")

SYSTEM = {"ld-linux-x86-64.so.2", "libc.so.6", "libdl.so.2", "libgcc_s.so.1", "libm.so.6"}
SYSTEM |= {"libpthread.so.0", "librt.so.1", "libstdc++.so.6", "libutil.so.1"}


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments], capture_output=True, text=True, check=True).stdout


def symbols(library):
    """Yields (name, is defined) for the dynamic symbols of a library."""
    for line in readelf("--dyn-syms", str(library)).splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[0].endswith(":") and fields[0][:-1].isdigit():
            yield fields[7], fields[6] != "UND"


def main(site_packages):
    cuda = site_packages / "nvidia/cu13/lib"
    stub = cuda / "libwhet_cuda_stub.so"
    libraries = sorted((site_packages / "torch/lib").glob("*.so*"))
    present = libraries + [path for path in sorted(cuda.glob("*.so*")) if path.resolve() != stub]
    defined, wanted, missing_files = set(), {}, set()
    for library in libraries:
        missing_files.update(re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("-d", str(library))))
    for library in present:
        for symbol, is_defined in symbols(library):
            name, _, version = symbol.partition("@")
            if is_defined:
                defined.add(name)
            else:
                wanted[name] = version or wanted.get(name, "")
    missing_files -= {path.name for path in present} | SYSTEM | NOT_NEEDED
    missing = sorted(name for name in wanted if name not in defined and CUDA.match(name))
    versions = {}
    for name in missing:
        if wanted[name]:
            versions.setdefault(wanted[name], []).append(name)
    with tempfile.TemporaryDirectory() as scratch:
        script = Path(scratch, "versions")
        script.write_text("".join(f"{v} {{ global: {'; '.join(names)}; }};\n" for v, names in versions.items()))
        source = "".join(f"void {symbol}(void) {{}}\n" for symbol in missing)
        compiler = ["cc", "-shared", "-fPIC", "-w", "-fno-builtin", f"-Wl,--version-script={script}"]
        subprocess.run([*compiler, "-x", "c", "-", "-o", str(stub)], input=source, text=True, check=True)
    for name in missing_files:
        link = cuda / name
        link.unlink(missing_ok=True)
        link.symlink_to(stub.name)
    print(f"{len(missing)} functions under {len(missing_files)} library names")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Lets a CUDA build of torch be imported on a machine that has no CUDA libraries.

The wheel's libraries name cuBLAS, cuDNN, NCCL and so on, gigabytes that a CPU never calls. The
loader is content when a library of that name exists and defines the symbols: this builds one
library of empty functions and gives it every missing name, in the folder where torch looks.

Usage: stub_cuda.py SITE_PACKAGES
"""

import re
import subprocess
import sys
from pathlib import Path

# Libraries that only load when a GPU is used.
NOT_NEEDED = {"libcuda.so.1", "libnvrtc.so.13"}


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
    libraries = sorted((site_packages / "torch/lib").glob("*.so*"))
    present = libraries + sorted(cuda.glob("*.so*"))
    names = {path.name for path in present}
    defined, wanted, missing_files = set(), set(), set()
    for library in libraries:
        missing_files.update(re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("-d", str(library))))
    for library in present:
        for symbol, is_defined in symbols(library):
            name, _, version = symbol.partition("@")
            if is_defined:
                defined.add(name)
            # Versions of the C and C++ run-time libraries are the system's own.
            elif not version.lstrip("@").startswith(("GLIBC", "CXXABI", "GCC", "GOMP", "OMP")):
                wanted.add(name)
    system = {"ld-linux-x86-64.so.2", "libc.so.6", "libdl.so.2", "libgcc_s.so.1", "libm.so.6"}
    system |= {"libpthread.so.0", "librt.so.1", "libstdc++.so.6", "libutil.so.1"}
    missing_files -= names | system | NOT_NEEDED
    # Python's own symbols (Py...) come from the interpreter; weak ones (ITM, gmon) may stay away.
    missing = sorted(s for s in wanted - defined if re.fullmatch(r"[A-Za-z_]\w*", s) and not re.match(r"_?Py|_ITM|__gmon", s))
    stub = cuda / "libwhet_cuda_stub.so"
    source = "".join(f"void {symbol}(void) {{}}\n" for symbol in missing)
    compiler = ["cc", "-shared", "-fPIC", "-w", "-fno-builtin", "-x", "c", "-", "-o", str(stub)]
    subprocess.run(compiler, input=source, text=True, check=True)
    for name in missing_files:
        link = cuda / name
        if not link.exists():
            link.symlink_to(stub.name)
    print(f"{len(missing)} functions under {len(missing_files)} library names")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

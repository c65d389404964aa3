#!/usr/bin/env bash
# Whet on a GPU: logits against the CPU's, a few training steps, timings.
#
# Usage: tests/gpu/check.sh [MODEL]      (a built target/release/whet; python3 with torch 2.11)
#
# Takes libtorch's CUDA libraries from the machine's own Python, so that a machine made for
# PyTorch needs nothing more. Prints one line per check and ends with the number of failures.
set -uo pipefail
cd "$(dirname "$0")/../.."

model=${1:-}
out=${OUT:-$(mktemp -d)}
whet=target/release/whet
failures=0

torch=$(python3 -c 'import torch, os; print(os.path.dirname(torch.__file__))') || {
    echo "python3 has no torch: this check takes libtorch from it" >&2
    exit 1
}
version=$(python3 -c 'import torch; print(torch.__version__)')
case $version in
    2.11.*) ;;
    *) echo "python3 has torch $version; Whet is built for 2.11" >&2; exit 1 ;;
esac
site=$(dirname "$torch")
libraries=$torch/lib
for folder in "$site"/nvidia/*/lib; do
    [ -d "$folder" ] && libraries=$libraries:$folder
done
export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LIBTORCH=$torch OMP_WAIT_POLICY=PASSIVE

row() { printf '%-34s %-8s %s\n' "$1" "$2" "$3"; }
seconds() { date +%s.%N; }

# check NAME COMMAND...: runs it, its output goes to a file, its last line and time to the table.
check() {
    local name=$1 log start status
    shift
    log=$out/$(echo "$name" | tr -c 'a-z0-9\n' '-').log
    start=$(seconds)
    if "$@" >"$log" 2>&1; then status=ok; else status=FAILED; failures=$((failures + 1)); fi
    row "$name" "$status" "$(python3 -c "print(f'{$(seconds) - $start:6.1f} s')")  $(tail -n 1 "$log" | cut -c 1-90)"
    [ $status = ok ] || tail -n 15 "$log" | sed 's/^/    /'
}

python3 - <<'PY'
import torch
print(torch.cuda.get_device_name(0) if torch.cuda.is_available() else "no GPU", "· torch", torch.__version__)
PY
row check result "time and last line"

tests=$(ls -t target/release/deps/all-* 2>/dev/null | grep -v '\.d$' | head -n 1)
if [ -n "$tests" ]; then
    export WHET_FIXTURES_DIR=$PWD/tests/fixtures
    check "logits of four models, cuda and cpu" "$tests" --ignored --nocapture logits_on_the_gpu
    grep 'largest difference' "$out"/logits-of-four-models--cuda-and-cpu.log | sed 's/^/    /'
else
    row "logits, cuda and cpu" skipped "no test program: cargo test --release -p whet-tests --no-run"
fi

for device in cpu cuda; do
    check "fixture, 3 steps on $device" "$whet" train tests/gpu/fixture.toml \
        --set "model.device=\"$device\"" --set "run.dir=\"$out/fixture-$device\"" --quiet
done

if [ -n "$model" ]; then
    check "quickstart model, 10 steps on cuda" "$whet" train recipes/quickstart.toml \
        --set "model.source=\"$model\"" --set 'model.device="cuda"' --set train.steps=10 \
        --set "run.dir=\"$out/quickstart-cuda\"" --quiet
fi

python3 - "$out" <<'PY'
import json, sys
from pathlib import Path

for run in sorted(Path(sys.argv[1]).glob("*/metrics.jsonl")):
    lines = [json.loads(line) for line in run.open()]
    steps = [b["time"] - a["time"] for a, b in zip(lines, lines[1:])]
    if steps:
        print(f"{run.parent.name:<34} {len(lines)} lines, fastest step {min(steps):.2f} s")
PY
echo "failures: $failures"
exit $((failures > 0))

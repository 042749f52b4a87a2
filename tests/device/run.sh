#!/usr/bin/env bash
# Checks and measures the CUDA backend on this machine's GPU. Needs nvcc, cuBLAS and a C++ compiler
# (GCC 13, or an older one with spdlog and libexpected); no Qt, no network, no model. Everything in
# less than 8 minutes on a fast machine.
#   bash tests/device/run.sh [BUILD_FOLDER]
set -uo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
build="${1:-$here/../../build/device}"
failed=()

say() { printf '\n==> %s (after %d s)\n' "$*" "$SECONDS"; }
# step SECONDS COMMAND...: goes on after a failure, and remembers it.
step() {
    local limit="$1"; shift
    timeout "$limit" "$@" || failed+=("$(basename "$1") ${*:2} (exit $?)")
}

say "Building"
generator=()
command -v ninja >/dev/null && generator=(-G Ninja)
cmake -S "$here" -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CUDA_ARCHITECTURES="${VITRINE_CUDA_ARCHITECTURES:-native}" >"$build.log" 2>&1 &&
    cmake --build "$build" -j "$(nproc)" >>"$build.log" 2>&1 ||
    { tail -40 "$build.log"; echo "The build failed; all of it is in $build.log"; exit 1; }

say "Operations against the reference"
step 60 "$build/device_checks"

say "Measurements"
step 200 "$build/device_bench"

if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck synccheck; do
        say "Operations under compute-sanitizer ($tool)"
        step 60 compute-sanitizer --tool "$tool" --error-exitcode 9 "$build/device_checks" --quick
    done
else
    say "compute-sanitizer is not here: left out"
fi

say "Done"
if [ ${#failed[@]} -gt 0 ]; then
    printf 'FAILED: %s\n' "${failed[@]}"
    exit 1
fi

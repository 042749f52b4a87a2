#!/usr/bin/env bash
# Builds everything and passes every test. Needs no display. Can be run again at any time.
#   VITRINE_TEST_SANITIZERS=1   also builds and runs the engine under ASan + UBSan and TSan
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

install_packages "${build_packages[@]}"
fetch_model
export VITRINE_TEST_MODEL="$model_file"

# run_preset PRESET [ctest arguments]
run_preset() {
    local preset="$1"; shift
    say "Building ($preset)"
    cmake -S "$root" --preset "$preset" "${configure_flags[@]}" >/dev/null
    cmake --build "$root/build/$preset" -j "$(jobs)"
    say "Testing ($preset)"
    (cd "$root" && ctest --preset "$preset" "$@")
}

configure_flags=()
[ "${CI:-}" = true ] && configure_flags=(-DVITRINE_WERROR=ON)

run_preset dev
if [ "${VITRINE_TEST_SANITIZERS:-}" = 1 ]; then
    run_preset asan
    run_preset tsan
fi
say "All tests passed"

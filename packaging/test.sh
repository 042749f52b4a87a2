#!/usr/bin/env bash
# Builds everything and passes every test. Needs no display. Can be run again at any time.
#   VITRINE_TEST_SANITIZERS=1   also builds and runs the engine under ASan + UBSan and TSan
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

install_packages "${build_packages[@]}"
fetch_model
export VITRINE_TEST_MODEL="$model_file"

# run_preset PRESET TARGET...: builds the targets and passes the tests that the preset selects.
run_preset() {
    local preset="$1"; shift
    say "Building ($preset)"
    (cd "$root" && cmake --preset "$preset" "${configure_flags[@]}" >/dev/null)
    cmake --build "$root/build/$preset" -j "$(jobs)" --target "$@"
    say "Testing ($preset)"
    (cd "$root" && ctest --preset "$preset" -j "$(jobs)")
}

configure_flags=()
[ "${CI:-}" = true ] && configure_flags=(-DVITRINE_WERROR=ON)

run_preset dev all
if [ "${VITRINE_TEST_SANITIZERS:-}" = 1 ]; then
    run_preset asan tests_kernels tests_engine
    run_preset tsan tests_threads
fi
say "All tests passed"

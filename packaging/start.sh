#!/usr/bin/env bash
# From a fresh Debian 12 to a chat: installs what is needed, builds, fetches a small real model,
# and opens the window (the terminal chat where there is no display). Can be run again at any time.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

install_packages "${build_packages[@]}"
fetch_model

# The CUDA backend is built for the GPU that is here, and left out where there is none: code for all
# of them takes nvcc several minutes.
cuda_flags=(-DVITRINE_CUDA=OFF)
if nvidia-smi -L >/dev/null 2>&1; then
    if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
        cuda_flags=(-DVITRINE_CUDA=ON -DVITRINE_CUDA_ARCHITECTURES=native)
    else
        say "There is an NVIDIA GPU, but no nvcc: install the CUDA toolkit to use it. Building for the CPU"
    fi
fi

say "Building"
(cd "$root" && cmake --preset release -DVITRINE_TESTS=OFF "${cuda_flags[@]}" >/dev/null)
cmake --build "$root/build/release" -j "$(jobs)"

if [ -n "${WAYLAND_DISPLAY:-}${DISPLAY:-}" ]; then
    say "Opening Vitrine"
    exec "$root/build/release/bin/vitrine" "$model_file" "$@"
fi
say "No display here: chatting in the terminal (/help lists the commands, /quit leaves)"
exec "$root/build/release/bin/vitrine-cli" chat --model "$model_file" "$@"

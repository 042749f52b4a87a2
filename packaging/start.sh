#!/usr/bin/env bash
# From a fresh Debian 12 to a chat: installs what is needed, builds, fetches a small real model,
# and opens the window (the terminal chat where there is no display). Can be run again at any time.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

install_packages "${build_packages[@]}"
fetch_model

say "Building"
(cd "$root" && cmake --preset release -DVITRINE_TESTS=OFF >/dev/null)
cmake --build "$root/build/release" -j "$(jobs)"

if [ -n "${WAYLAND_DISPLAY:-}${DISPLAY:-}" ]; then
    say "Opening Vitrine"
    exec "$root/build/release/bin/vitrine" "$model_file" "$@"
fi
say "No display here: chatting in the terminal (/help lists the commands, /quit leaves)"
exec "$root/build/release/bin/vitrine-cli" chat --model "$model_file" "$@"

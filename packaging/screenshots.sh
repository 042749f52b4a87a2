#!/usr/bin/env bash
# Takes the pictures of the window in resources/screenshots again: a real model, real chats, the
# figures of this machine (take them while it is idle). Needs no display.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

install_packages "${build_packages[@]}" imagemagick
fetch_model

say "Building"
cmake -S "$root" --preset release -DVITRINE_TESTS=ON >/dev/null
cmake --build "$root/build/release" -j "$(jobs)" --target vitrine-screenshots

say "Taking pictures"
pictures="$root/resources/screenshots"
mkdir -p "$pictures"
QT_QPA_PLATFORM=offscreen "$root/build/release/bin/vitrine-screenshots" "$model_file" "$pictures"

# 256 colours are enough for flat surfaces and make a quarter of the size.
for picture in "$pictures"/*.png; do
    convert "$picture" -strip -dither None -colors 256 -define png:compression-level=9 "PNG8:$picture"
done
du -sh "$pictures"

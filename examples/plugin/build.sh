#!/usr/bin/env bash
# Builds a plugin from C: build.sh SOURCE.c PLUGIN.wasm [FLAG…]
#
# Needs clang and its linker for WebAssembly (Debian packages clang and lld).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source=${1:?which source}
plugin=${2:?which file to write}

clang --target=wasm32 -mbulk-memory -O2 -Wall -Wextra -Werror -ffreestanding -nostdlib \
    -I "$here" -Wl,--no-entry -Wl,--strip-all -Wl,-z,stack-size=16384 "${@:3}" -o "$plugin" "$source"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: install.sh ROOT BUILD. Installs to a scratch prefix and builds one consumer both ways a user would:
# by pkg-config and by find_package; as C++ too where there is a C++ compiler.
set -euo pipefail
root=$1 build=$2
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT

cmake --install "$build" --prefix "$top/prefix" >/dev/null
# Nothing may lean on where it was installed first.
mv "$top/prefix" "$top/moved"
pc=$(find "$top/moved" -name ein.pc)
export PKG_CONFIG_PATH=${pc%/*}
lib=$(pkg-config --variable=libdir ein)
version=$(sed -nE 's/^project\(ein VERSION ([0-9.]+).*/\1/p' "$root/CMakeLists.txt")

check() {
    local said
    said=$("$@")
    [ "$said" = "$version 2x3" ] || { echo "install.sh: $* says '$said', not '$version 2x3'"; exit 1; }
}

[ "$(pkg-config --modversion ein)" = "$version" ]
read -ra flags <<<"$(pkg-config --cflags --libs ein) -Wl,-rpath,$lib"
cc -std=c11 "$root/tests/install/consumer.c" -o "$top/by_pkg_config" "${flags[@]}"
check "$top/by_pkg_config"
if command -v c++ >/dev/null; then
    c++ -std=c++17 -x c++ "$root/tests/install/consumer.c" -o "$top/as_cpp" "${flags[@]}"
    check "$top/as_cpp"
fi

mkdir "$top/project"
cp "$root/tests/install/consumer.c" "$top/project"
cat >"$top/project/CMakeLists.txt" <<TEXT
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES C)
find_package(ein ${version%.*} REQUIRED)
add_executable(consumer consumer.c)
target_link_libraries(consumer PRIVATE ein::ein)
TEXT
cmake -S "$top/project" -B "$top/project/build" -DCMAKE_PREFIX_PATH="$top/moved" >/dev/null
cmake --build "$top/project/build" >/dev/null
check "$top/project/build/consumer"
if [ -e "$build/ein" ]; then
    "$top/moved/bin/ein" ops >/dev/null
fi

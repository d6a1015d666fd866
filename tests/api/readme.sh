#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: readme.sh ROOT BUILD. README's first C example compiles without a warning, links with the shared
# library and runs.
set -euo pipefail
root=$1 build=$2
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT

if [ -e "$root/README.md" ]; then
    awk '/^```c$/ { inside = 1; next } /^```/ && inside { exit } inside' "$root/README.md" >"$top/example.c"
fi
if [ ! -s "$top/example.c" ]; then
    echo 'skipped: README.md holds no ```c example yet'
    exit 77
fi
cc -std=c11 -Wall -Wextra -Werror -I"$root/include" "$top/example.c" -o "$top/example" \
    -L"$build" -lein -lm -Wl,-rpath,"$build"
cd "$top"
./example

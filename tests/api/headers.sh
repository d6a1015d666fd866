#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: headers.sh ROOT. Each public header compiles alone, twice over, as strict C11 and as C++17.
set -euo pipefail
cd "$1"
flags=(-Iinclude -fsyntax-only -pedantic-errors -Wall -Wextra -Werror)
unit=$(mktemp --suffix=.c)
trap 'rm -f "$unit"' EXIT

failed=0
for header in include/ein.h include/ein/*.h; do
    name=${header#include/}
    printf '#include "%s"\n#include "%s"\ntypedef int not_empty;\n' "$name" "$name" >"$unit"
    cc -std=c11 "${flags[@]}" "$unit" || { echo "$name is not C11"; failed=1; }
    if command -v c++ >/dev/null; then
        c++ -std=c++17 -x c++ "${flags[@]}" "$unit" || { echo "$name is not C++17"; failed=1; }
    fi
done
command -v c++ >/dev/null || echo "no C++ compiler: checked as C only"
exit $failed

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: sizes.sh ROOT. Fails on a library file over 600 lines or a function over 80; only reports those of
# the tools, the benchmarks and the tests. A function is what stands between a "{" and a "}" in column one.
set -euo pipefail
cd "$1"

measure() {
    mapfile -t folders < <(ls -d "$@" 2>/dev/null)
    [ ${#folders[@]} -gt 0 ] || return 0
    find "${folders[@]}" \( -name '*.[ch]' -o -name '*.inc' \) | LC_ALL=C sort | xargs -r awk '
    function over(where, what) { printf "%s: %s\n", where, what; bad = 1 }
    FNR == 1 { if (lines > 600) over(file, lines " lines, at most 600"); file = FILENAME; start = 0 }
    { lines = FNR }
    /^\{$/ { start = FNR; name = last }
    /^[a-z]/ { last = $0 }
    /^\}/ {
        body = FNR - start - 1
        if (start && body > 80) over(FILENAME ":" start, body " lines, at most 80: " name)
        start = 0
    }
    END { if (lines > 600) over(file, lines " lines, at most 600"); exit bad }'
}

measure tools bench tests | sed 's/^/note: /' || true
measure include core optimizer exchange jit

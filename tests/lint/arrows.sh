#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: arrows.sh ROOT. Fails on an #include that points up or across the house's layers.
set -euo pipefail
cd "$1"

# Folder: what its files may include besides themselves. A folder stands for all below it.
table='
include
core/base      include
core/tensor    include core/base
core/graph     include core/base core/tensor
core/kernel    include core/base core/tensor
core/plan      include core/base core/tensor core/graph core/kernel
core/reference include core/base core/tensor core/graph
core/weights   include core/base core/tensor
optimizer      include core
exchange       include core
jit            include core optimizer exchange
tools          include core optimizer exchange jit
bench          include core optimizer exchange jit tools
tests          include core optimizer exchange jit tools bench
'

mapfile -t folders < <(ls -d include core optimizer exchange jit tools bench tests 2>/dev/null)
find "${folders[@]}" \( -name '*.[ch]' -o -name '*.inc' \) | LC_ALL=C sort |
    xargs -r awk -v table="$table" '
    BEGIN {
        n = split(table, lines, "\n")
        for (i = 1; i <= n; i++) {
            m = split(lines[i], words, " ")
            if (m > 0) { folders[words[1]] = 1; for (j = 1; j <= m; j++) may[words[1], words[j]] = 1 }
        }
    }
    function folder(path,  parts) {
        split(path, parts, "/")
        if (parts[1] == "ein" || parts[1] == "ein.h") return "include"
        return parts[1] == "core" ? parts[1] "/" parts[2] : parts[1]
    }
    function wrong(why) { printf "%s:%d: %s\n", FILENAME, FNR, why; bad = 1 }
    /^[ \t]*#[ \t]*include[ \t]*["<]/ {
        match($0, /["<][^">]*[">]/)
        quote = substr($0, RSTART, 1); path = substr($0, RSTART + 1, RLENGTH - 2)
        if (path ~ /^(cuda|nvrtc|cublas|curand|nccl|dnnl|oneapi)/) {
            wrong(path " is opened at run time, not included")
            next
        }
        to = folder(path); from = folder(FILENAME)
        if (quote == "<" && to != "include") next
        if (to != "include" && !(to in folders)) wrong("\"" path "\" is not a path from the root")
        else if (!(from in folders)) wrong(from " has no place in the table of arrows")
        else if (!((from, to) in may) && !(to ~ /^core/ && (from, "core") in may))
            wrong(from " must not include " path)
    }
    END { exit bad }'

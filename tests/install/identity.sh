#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: identity.sh ROOT. The code's identity does not depend on where the sources lie, and changes with one
# byte of one of them and with a file's name.
set -euo pipefail
root=$1
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT

# identity FOLDER FILE...
identity() {
    printf '%s\n' "${@:2}" >"$top/list"
    cmake -DROOT="$1" -DLIST="$top/list" -DOUT="$top/identity.c" -P "$root/cmake/identity.cmake"
    grep -oE '"[0-9a-f]{64}"' "$top/identity.c"
}

mkdir "$top/here" "$top/there"
for folder in here there; do
    echo 'int a;' >"$top/$folder/a.c"
    echo 'int b;' >"$top/$folder/b.c"
done
first=$(identity "$top/here" a.c b.c)
[ "$first" = "$(identity "$top/there" a.c b.c)" ]
echo 'int B;' >"$top/there/b.c"
[ "$first" != "$(identity "$top/there" a.c b.c)" ]
mv "$top/here/b.c" "$top/here/c.c"
[ "$first" != "$(identity "$top/here" a.c c.c)" ]

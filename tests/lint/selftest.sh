#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: selftest.sh. Proves that the lints can fail: each passes on a small clean tree and, given one seeded
# violation, fails and names the file.
set -euo pipefail
lints=$(dirname "$(readlink -f "$0")")
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
tree=$top/tree
licence='/* SPDX-License-Identifier: Apache-2.0 */'
failed=0

clean_tree() {
    rm -rf "$tree"
    mkdir -p "$tree"/include/ein "$tree"/core/{base,graph,plan} "$tree"/{optimizer,exchange,jit,tools}
    printf '%s\nEIN_API int ein_one(void);\n' "$licence" >"$tree/include/ein.h"
    printf '%s\nEIN_API const char *ein_two(int a,\n    int b);\n' "$licence" >"$tree/include/ein/two.h"
    printf '%s\nvoid *f(void) { return malloc(1); }\n' "$licence" >"$tree/core/base/alloc.c"
    printf '%s\n#include "core/plan/plan.h"\n#include "ein/two.h"\n' "$licence" >"$tree/optimizer/search.c"
    printf '%s\n#include "core/base/text.h"\n' "$licence" >"$tree/core/plan/plan.h"
    cat >"$tree/jit/lower.c" <<TEXT
$licence
#include "exchange/exchange.h"
/* malloc(1) and "a quote; exit(1) */
static int g(FILE *f)
{
    fprintf(f, "printf(1) abort()"); // free(x)
    snprintf(b, 2, "\"exit(1)"); table->free(x); table.exit(1); ein__free(x);
    return '"';
}
TEXT
}

# seed FILE TEXT: append to a file of a fresh clean tree.
seed() {
    clean_tree
    mkdir -p "$(dirname "$tree/$1")"
    [ -e "$tree/$1" ] || echo "$licence" >"$tree/$1"
    printf '%s\n' "$2" >>"$tree/$1"
}

passes() {
    local out
    if ! out=$("$lints/$1" "$tree" "${@:2}" 2>&1) || [ -n "$out" ]; then
        echo "selftest: $1 should pass on the clean tree but says: $out"
        failed=1
    fi
}

# catches LINT NAMED [ARGUMENT...]: the lint must fail and its output must hold NAMED.
catches() {
    local out
    if out=$("$lints/$1" "$tree" "${@:3}" 2>&1); then
        echo "selftest: $1 does not see the seeded violation in $2"
        failed=1
    elif ! grep -qF -- "$2" <<<"$out"; then
        echo "selftest: $1 fails but does not name $2: $out"
        failed=1
    fi
}

for lint in arrows.sh sizes.sh calls.sh words.sh; do
    clean_tree
    passes $lint
done

arrow() { seed "$1" "#include $2"; catches arrows.sh "$1:2"; }
arrow core/base/up.c '"core/tensor/dtype.h"'
arrow core/graph/up.c '"core/plan/plan.h"'
arrow core/kernel/up.c '"core/plan/program.h"'
arrow core/reference/across.c '"core/plan/plan.h"'
arrow optimizer/across.c '"exchange/exchange.h"'
arrow exchange/across.c '"optimizer/search.h"'
arrow exchange/up.c '"jit/jit.h"'
arrow jit/up.c '"tools/model.h"'
arrow tools/up.c '"bench/bench.h"'
arrow include/up.h '"core/base/text.h"'
arrow core/base/loose.c '"text.h"'
arrow core/odd/new.c '"core/base/text.h"'
arrow jit/target/gpu.c '<cuda.h>'

seed core/plan/long.c "$(seq -f '// %g' 600)"
catches sizes.sh core/plan/long.c
seed jit/deep.c "$(printf 'static void deep(void)\n{\n'; seq -f '    go(%g);' 81; echo '}')"
catches sizes.sh jit/deep.c:3
seed jit/fits.c "$(printf 'static void fits(void)\n{\n'; seq -f '    go(%g);' 80; echo '}')"
passes sizes.sh

for call in 'malloc(1)' 'p = (char *)realloc (p, 2)' 'free(p)' '!strdup(s)' 'exit(1)' 'abort()' \
    'printf("x")' 'puts("x")' 'fprintf(stderr, "x")' 'fputs("x", stdout)' 'system("ls")'; do
    seed jit/call.c "void f(void) { $call; }"
    catches calls.sh jit/call.c:2
done
seed core/base/alloc.c 'void g(void) { abort(); }'
catches calls.sh core/base/alloc.c

for word in "see /wor""k/main" "from py""pi.org" "as in iss""ue 12" "(#""12)" "TO""DO later" \
    "the last sess""ion"; do
    seed core/graph/word.c "/* $word */"
    catches words.sh core/graph/word.c:2
done
clean_tree
echo 'int x;' >"$tree/core/graph/bare.c"
catches words.sh core/graph/bare.c

# library TEXT: a shared library of the two declared functions and TEXT.
library() {
    echo "int ein_one(void) { return 1; } const char *ein_two(int a, int b) { return a < b ? \"\" : 0; } $1" |
        cc -shared -fPIC -x c -o "$top/lib.so" -
}
clean_tree
library ''
passes symbols.sh "$top/lib.so"
library 'int ein__inner(void) { return 1; }'
catches symbols.sh ein__inner "$top/lib.so"
library 'int helper(void) { return 1; }'
catches symbols.sh helper "$top/lib.so"
library 'int cuInit(int); __attribute__((visibility("hidden"))) int f(void) { return cuInit(0); }'
catches symbols.sh cuInit "$top/lib.so"
echo 'EIN_API int ein_three(void);' >>"$tree/include/ein.h"
library ''
catches symbols.sh ein_three "$top/lib.so"

exit $failed

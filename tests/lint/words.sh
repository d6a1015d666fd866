#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: words.sh ROOT. The text here speaks of the project alone: no package hosts, no paths of somebody's
# machine, no issue numbers, nothing left to do, and every source names its licence.
set -euo pipefail
cd "$1"

files() { find . \( -path ./.git -o -path './build*' \) -prune -o -type f -print | LC_ALL=C sort; }

# Bracketed letters keep a pattern from finding itself.
patterns='pypi[.]org|pythonhosted[.]org|debian[.]org|npmjs[.](com|org)|crates[.]io|/wor[k]/|/hom[e]/[a-z]'
patterns+='|\bissues? #?[0-9]|(^|[ (])#[0-9]+\b|\b(this|previous|next|last|earlier|another) sessio[n]\b'
patterns+='|\b(TOD[O]|FIXM[E]|HAC[K])\b'

bad=0
files | tr '\n' '\0' | xargs -0 -r grep -InE "$patterns" && bad=1
mapfile -t folders < <(ls -d include core optimizer exchange jit tools bench tests 2>/dev/null)
unlicensed=$(find "${folders[@]}" \( -name '*.[ch]' -o -name '*.inc' -o -name '*.sh' \) \
    -exec awk 'FNR > 2 { exit } /SPDX-License-Identifier: Apache-2.0/ { found = 1; exit }
               END { exit found }' {} \; \
    -print | LC_ALL=C sort)
[ -z "$unlicensed" ] || { sed 's/$/: no SPDX line at its head/' <<<"$unlicensed"; bad=1; }
exit $bad

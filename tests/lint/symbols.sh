#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: symbols.sh ROOT LIBRARY. The shared library must export exactly the functions that the public headers
# declare, and need nothing of CUDA or oneDNN, which are opened at run time.
set -euo pipefail
root=$1 library=$2

declared=$(cat "$root"/include/*.h "$root"/include/ein/*.h | tr '\n' ' ' | sed 's/EIN_API/\nEIN_API/g' |
    sed -nE 's/^EIN_API [^(;]*\b(ein_[a-z0-9_]+)\(.*/\1/p' | LC_ALL=C sort -u)
exported=$(nm -D --defined-only "$library" | awk '{print $3}' | LC_ALL=C sort -u)
needed=$(nm -D --undefined-only "$library" | awk '{print $NF}' |
    grep -E '^(cu[A-Z]|cuda[A-Z]|cublas|nvrtc|nccl|dnnl_)' || true)
linked=$(readelf -d "$library" | sed -nE 's/.*NEEDED.*\[(.*)\]/\1/p' |
    grep -E '^lib(cuda|cublas|nvrtc|nccl|nv|dnnl)' || true)

bad=0
report() { [ -z "$2" ] || { printf '%s: %s: %s\n' "$library" "$1" "$(tr '\n' ' ' <<<"$2")"; bad=1; }; }
report 'exported but in no public header' "$(LC_ALL=C comm -13 <(echo "$declared") <(echo "$exported"))"
report 'in a public header but not exported' "$(LC_ALL=C comm -23 <(echo "$declared") <(echo "$exported"))"
report 'must be opened at run time, not needed' "$needed"
report 'must be opened at run time, not linked' "$linked"
exit $bad

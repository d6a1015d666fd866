#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: calls.sh ROOT. The library takes memory only from core/base/alloc.c, never prints, never ends the
# process and never starts a shell. Strings and comments do not count.
set -euo pipefail
cd "$1"

mapfile -t folders < <(ls -d core optimizer exchange jit 2>/dev/null)
find "${folders[@]}" \( -name '*.[ch]' -o -name '*.inc' \) | LC_ALL=C sort | xargs -r perl -0777 -ne '
    BEGIN {
        our $heap = qr/malloc|calloc|realloc|reallocarray|free|strdup|strndup|asprintf|vasprintf|getline
                      |getdelim|open_memstream|aligned_alloc|posix_memalign|memalign/x;
        our $speech = qr/printf|vprintf|puts|putchar|perror|psignal
                        |(?:v?fprintf|dprintf)\s*\(\s*(?:stdout|stderr)
                        |(?:fputs|fputc|putc|fwrite)\s*\([^;]*\b(?:stdout|stderr)/x;
        our $end = qr/exit|_exit|_Exit|quick_exit|abort|raise|system|popen/;
    }
    s{("(?:[^"\\\n]|\\.)*"|\x27(?:[^\x27\\\n]|\\.)*\x27)|(/\*.*?\*/|//[^\n]*)}
     {my $gone = $1 // $2; (defined $1 ? "\"\"" : " ") . ("\n" x ($gone =~ tr/\n//))}gse;
    my $banned = $ARGV eq "core/base/alloc.c" ? qr/$speech|$end/ : qr/$heap|$speech|$end/;
    while (/(?<![\w.])(?<!->)($banned)(?=\s*\(|\b(?<=stdout)|\b(?<=stderr))/g) {
        my ($call, $line) = ($1, 1 + (substr($_, 0, $-[0]) =~ tr/\n//));
        $call =~ s/\s+/ /g;
        print "$ARGV:$line: the library must not call $call\n";
        $bad = 1;
    }
    END { exit($bad ? 1 : 0) }'

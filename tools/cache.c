/* SPDX-License-Identifier: Apache-2.0 */
/* ein cache path|list|trim|clear. */
#include <stdio.h>
#include <string.h>

#include "jit/cache/cache.h"
#include "tools/args.h"
#include "tools/commands.h"
#include "tools/report.h"

#define DEFAULT_TRIM (1L << 30)

static int list(const cache *c, bool json)
{
    arena a = {0};
    error e = {0};
    const cache_entry *entries;
    int n;
    ein_status status = ein__cache_list(c, &a, &entries, &n, &e);
    int code = exit_of(status);
    if (status != EIN_OK) {
        complain(code, "%s", e.line);
    } else {
        report r;
        report_begin(&r, json);
        for (int i = 0; i < n; i++) {
            report_row(&r, json_pack("{s:s, s:I, s:I, s:s}", "key", entries[i].name, "bytes",
                                     (json_int_t)entries[i].bytes, "age_s", (json_int_t)entries[i].age_s,
                                     "what", entries[i].info));
        }
        if (n == 0 && !json) printf("%s is empty\n", c->dir);
        code = report_end(&r) ? EXIT_DONE : EXIT_USAGE;
    }
    ein__error_reset(&e);
    ein__arena_free(&a);
    return code;
}

static int trim(cache *c, long bytes)
{
    error e = {0};
    int removed = 0;
    ein_status status = ein__cache_trim(c, bytes, &removed, &e);
    if (status != EIN_OK) {
        complain(0, "%s", e.line);
    } else {
        printf("%d removed from %s\n", removed, c->dir);
    }
    ein__error_reset(&e);
    return exit_of(status);
}

static int act(cache *c, const args *a)
{
    const char *action = a->words[0];
    if (c->dir == NULL)
        return complain(EXIT_USAGE, "there is no cache: neither EIN_CACHE_DIR nor HOME is set");
    if (strcmp(action, "path") == 0) {
        puts(c->dir);
        return EXIT_DONE;
    }
    if (strcmp(action, "list") == 0) return list(c, a->json);
    if (strcmp(action, "trim") == 0) return trim(c, a->bytes >= 0 ? a->bytes : DEFAULT_TRIM);
    if (strcmp(action, "clear") == 0) return trim(c, 0);
    return complain(EXIT_USAGE, "ein cache %s: known are path, list, trim and clear", action);
}

int command_cache(int argc, char **argv)
{
    args a;
    cache c;
    int code = args_parse(argc, argv, "json bytes", 0, 1, &a);
    if (code != EXIT_DONE) return code;
    if (a.n_words == 0) return complain(EXIT_USAGE, "ein cache path|list|trim [--bytes N]|clear");
    if (ein__cache_init(&c, NULL) != EIN_OK) return complain(EXIT_USAGE, "out of memory");
    code = act(&c, &a);
    ein__cache_fini(&c);
    return code;
}

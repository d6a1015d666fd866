/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/ledger.h"

#include <stdio.h>
#include <string.h>

#include "core/base/file.h"

ein_status ledger_read(ledger *l, const char *path, bool may_miss, error *e)
{
    char line[4096];
    *l = (ledger){.path = path};
    FILE *f = fopen(path, "r");
    if (f == NULL) return may_miss ? EIN_OK : ein__fail(e, EIN_IO, "cannot open \"%.80s\"", path);
    ein_status s = EIN_OK;
    while (s == EIN_OK && fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = 0;
        const char *kept = ein__arena_strdup(&l->arena, line);
        s = kept != NULL ? ein__grow(&l->arena, (void **)&l->lines.items, l->lines.n, &l->lines.room, sizeof kept)
                         : EIN_NO_MEMORY;
        if (s == EIN_OK) l->lines.items[l->lines.n++] = kept;
    }
    fclose(f);
    return s == EIN_OK ? s : ein__fail(e, s, "out of memory for the ledger");
}

void ledger_free(ledger *l) { ein__arena_free(&l->arena); }

int ledger_find(const ledger *l, const char *key)
{
    for (int i = 1; i < l->lines.n; i++)
        if (strncmp(l->lines.items[i], key, strlen(key)) == 0) return i;
    return -1;
}

static ein_status set_line(ledger *l, int at, text *t)
{
    TRY(ein__text_status(t));
    const char *line = ein__arena_strdup(&l->arena, ein__text_get(t));
    if (line == NULL) return EIN_NO_MEMORY;
    if (at >= 0 && at < l->lines.n) l->lines.items[at] = line;
    else PUSH(&l->arena, &l->lines, line);
    return EIN_OK;
}

ein_status ledger_set(ledger *l, const plan_row *r)
{
    text t = {0}, key = {0};
    plan_row_header(&t);
    ein_status s = set_line(l, 0, &t);
    ein__text_free(&t);
    plan_row_key(r->model, r->machine, r->regime, &key);
    plan_row_line(r, &t);
    if (s == EIN_OK) s = set_line(l, ledger_find(l, ein__text_get(&key)), &t);
    ein__text_free(&key);
    ein__text_free(&t);
    return s;
}

bool ledger_header_fits(const ledger *l)
{
    text t = {0};
    plan_row_header(&t);
    bool fits = l->lines.n > 0 && strcmp(l->lines.items[0], ein__text_get(&t)) == 0;
    ein__text_free(&t);
    return fits;
}

/* The column at *s, whose end it moves to; quoted ones may hold commas. */
static size_t column(const char **s)
{
    const char *from = *s;
    bool quoted = false;
    while (**s != 0 && (quoted || **s != ',')) quoted ^= *(*s)++ == '"';
    return (size_t)(*s - from);
}

static void differences(const char *names, const char *was, const char *is, text *why)
{
    while (*was != 0 || *is != 0) {
        const char *name = names, *a = was, *b = is;
        int n = (int)column(&names), m = (int)column(&was), k = (int)column(&is);
        if (m != k || strncmp(a, b, (size_t)m) != 0) ein__text_add(why, " %.*s: %.*s, not %.*s;", n, name, k, b, m, a);
        names += *names == ',';
        was += *was == ',';
        is += *is == ',';
    }
}

bool ledger_agrees(const ledger *l, const plan_row *r, text *why)
{
    text key = {0}, line = {0};
    plan_row_key(r->model, r->machine, r->regime, &key);
    plan_row_line(r, &line);
    int at = ledger_find(l, ein__text_get(&key));
    bool same = at >= 0 && strcmp(l->lines.items[at], ein__text_get(&line)) == 0;
    if (at < 0) ein__text_add(why, " it has no such row");
    else if (!same) differences(l->lines.items[0], l->lines.items[at], ein__text_get(&line), why);
    ein__text_free(&key);
    ein__text_free(&line);
    return same;
}

ein_status ledger_write(const ledger *l, int n, const char *const *keys, error *e)
{
    text all = {0};
    ein__text_add(&all, "%s\n", l->lines.items[0]);
    for (int i = 0; i < n; i++) {
        int at = ledger_find(l, keys[i]);
        if (at >= 0) ein__text_add(&all, "%s\n", l->lines.items[at]);
    }
    ein_status s = ein__text_status(&all);
    if (s == EIN_OK) s = ein__file_publish(l->path, all.bytes, all.n, 0666, e);
    ein__text_free(&all);
    return s;
}

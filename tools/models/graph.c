/* SPDX-License-Identifier: Apache-2.0 */
/* Graph files: a graph as somebody's calls made it, with weights beside it or seeded ones. */
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "tools/model.h"

static void build(ein_graph *g, const model *m, const naming *names)
{
    (void)names;
    ein_graph_load(g, m->graph);
}

static const char *const NONE[] = {"", NULL};

const family family_graph = {.name = "graph", .options = "", .prefixes = NONE, .build = build};

bool graph_file_is(const char *path)
{
    char head[64] = "";
    FILE *f = fopen(path, "rb");
    if (f == NULL) return false;
    head[fread(head, 1, sizeof head - 1, f)] = 0;
    fclose(f);
    return strstr(head, "\"ein_graph\"") != NULL;
}

/* What it notes as its weights is seen from its folder. */
static ein_status note_weights(arena *a, const char *path, const char *weights, model *out)
{
    const char *slash = strrchr(path, '/');
    int folder = slash != NULL && weights[0] != '/' ? (int)(slash - path) + 1 : 0;
    out->folder = ein__arena_printf(a, "%.*s%s", folder, path, weights);
    return out->folder != NULL ? EIN_OK : EIN_NO_MEMORY;
}

ein_status graph_file_parse(arena *a, const char *path, model *out, error *e)
{
    ein_graph *g;
    if (ein_graph_create(&g) != EIN_OK) return EIN_NO_MEMORY;
    ein_status status = ein_graph_load(g, path);
    out->family = &family_graph;
    out->graph = ein__arena_strdup(a, path);
    if (status != EIN_OK) ein__fail(e, status, "%s: %.180s", ein__excerpt_last(path, 60).s, ein_graph_error(g));
    else if (out->graph == NULL) status = EIN_NO_MEMORY;
    else if (ein_graph_weights(g) != NULL) status = note_weights(a, path, ein_graph_weights(g), out);
    ein_graph_free(g);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Graph files: a graph's calls as JSON, a call a line. README.md describes the form. */
#ifndef CORE_GRAPH_FILE_H
#define CORE_GRAPH_FILE_H

#include "core/base/text.h"
#include "core/graph/graph.h"

enum { GRAPH_FILE_VERSION = 1 };

/* `weights` (may be NULL) is noted in the file: where its parameters are. Fails with EIN_UNSUPPORTED for a user's op,
 * EIN_INVALID for a graph with an error or names that are no UTF-8. */
ein_status ein__graph_write(const graph *g, const char *weights, text *out, error *e);

#endif

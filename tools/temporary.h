/* SPDX-License-Identifier: Apache-2.0 */
/* A cache folder that lives as long as one command. */
#ifndef TOOLS_TEMPORARY_H
#define TOOLS_TEMPORARY_H

#include <stdbool.h>

/* False, said to stderr: it cannot be made. */
bool temporary_make(char *path, int room);
void temporary_remove(const char *path);

#endif

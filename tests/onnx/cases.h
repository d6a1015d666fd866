/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of ONNX's node tests: a model, and a data set of inputs and the outputs that they give. */
#ifndef TESTS_ONNX_CASES_H
#define TESTS_ONNX_CASES_H

#include "tests/onnx/translate.h"

/* The folders of `root` in order of their names, whose names contain `filter`; -1 if `root` is no directory. */
int onnx_list(const char *root, const char *filter, char ***names);

/* Read model and data set. False with the reason if it is beyond the reader, or beyond the library's types; `broken`
 * if it is no such folder at all. */
bool onnx_load(onnx_case *c, const char *root, const char *name, char why[160], bool *broken);
void onnx_free(onnx_case *c);

/* Compare a result with output i of the data set. False with the first wrong element in `why`. */
bool onnx_compare(const onnx_case *c, int i, const void *result, text *why);

#endif

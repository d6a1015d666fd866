/* SPDX-License-Identifier: Apache-2.0 */
#define REAL double
#define STORE_REAL EIN_F64
#define EVALUATE ein__reference_f64
#define REAL_EVAL ein__expr_eval
#include "core/reference/evaluate.inc"

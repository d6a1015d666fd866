/* SPDX-License-Identifier: Apache-2.0 */
#define REAL float
#define STORE_REAL EIN_F32
#define EVALUATE ein__reference_f32
#define REAL_EVAL ein__expr_eval_f32
#include "core/reference/evaluate.inc"

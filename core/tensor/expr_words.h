/* SPDX-License-Identifier: Apache-2.0 */
/* The operators' spellings, for the parser and the printer of expressions; types, for the printer and the
 * evaluation. */
#ifndef CORE_TENSOR_EXPR_WORDS_H
#define CORE_TENSOR_EXPR_WORDS_H

#include "core/tensor/expr.h"

typedef enum word_kind { WORD_LEAF, WORD_INFIX, WORD_CALL } word_kind;

typedef struct expr_word {
    const char *word;
    word_kind kind;
    int operands;
    int level; /* WORD_INFIX: how tightly it binds; comparisons 0, sums 1, products 2 */
} expr_word;

enum { TIGHTEST_LEVEL = 3 };

/* Indexed by expr_op. */
const expr_word *ein__expr_words(int *n);

/* Types with the weak ones, narrow to wide: a whole number, an integer, a number that is no integer's, floats. */
typedef enum expr_class { CLASS_WHOLE, CLASS_I64, CLASS_REAL, CLASS_F32, CLASS_F64 } expr_class;

/* Of node `at`'s value, and of what it computes with (the operands of a comparison; b and c of X_WHERE). */
expr_class ein__expr_class(const expr *x, int at, const ein_dtype *types);
expr_class ein__expr_operands(const expr *x, int at, const ein_dtype *types);
/* The type that a value of the class has where `want` is wanted. */
ein_dtype ein__expr_take(expr_class c, ein_dtype want);

#endif

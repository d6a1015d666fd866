/* SPDX-License-Identifier: Apache-2.0 */
/* The operators' spellings, for the parser and the printer of expressions. */
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

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* C11 for the host compiler, without headers. A phase is a loop over the threads of the block, which the
 * compiler vectorizes; privates are arrays over the threads. The block's body stays a function of its own:
 * restrict on its parameters is what makes its loops vectorizable. */
#include "core/kernel/prelude.h"

const char ein__prelude_host[] =
    "typedef long long i64;\n"
    "typedef int i32;\n"
    "typedef unsigned int u32;\n"
    "typedef unsigned long long u64;\n"
    "struct tally { const char *base; i64 stride; int self, n; i64 bytes; };\n"

    "#define COMMA_ ,\n"
    "#define SEMICOLON_ ;\n"
    "#define IN_(T_, n_) const T_ *restrict n_\n"
    "#define OUT_(T_, n_) T_ *restrict n_\n"
    "#define VAL_(T_, n_) const T_ n_\n"
    "#define GET_IN_(T_, n_) const T_ *n_; __builtin_memcpy(&n_, args_[i_++], sizeof n_)\n"
    "#define GET_OUT_(T_, n_) T_ *n_; __builtin_memcpy(&n_, args_[i_++], sizeof n_)\n"
    "#define GET_VAL_(T_, n_) T_ n_; __builtin_memcpy(&n_, args_[i_++], sizeof n_)\n"
    "#define PASS_(T_, n_) n_\n"
    "#define JOIN2_(a_, b_) a_##b_\n"
    "#define JOIN_(a_, b_) JOIN2_(a_, b_)\n"
    "#define BLOCK_ JOIN_(NAME, _block)\n"
    "#define BLOCK_PARAMS_(P_) (P_(IN_, OUT_, VAL_, COMMA_), const i64 bx, const i64 by, const i64 bz,"
    " struct tally *restrict tally_)\n"
    "#define KERNEL(P_)"
    " static void BLOCK_ BLOCK_PARAMS_(P_);"
    " void NAME(void **args_, i64 gx_, i64 gy_, i64 gz_, struct tally *restrict tally_) {"
    " int i_ = 0; P_(GET_IN_, GET_OUT_, GET_VAL_, SEMICOLON_); (void)i_;"
    " for (i64 z_ = 0; z_ < gz_; z_++) for (i64 y_ = 0; y_ < gy_; y_++) for (i64 x_ = 0; x_ < gx_; x_++)"
    " BLOCK_(P_(PASS_, PASS_, PASS_, COMMA_), x_, y_, z_, tally_); }"
    " static __attribute__((noinline)) void BLOCK_ BLOCK_PARAMS_(P_)\n"

    "static inline int clamp_(i64 n_, int most_) { return n_ < 0 ? 0 : n_ > most_ ? most_ : (int)n_; }\n"
    "#define STEP _Pragma(\"GCC ivdep\") for (int tid = 0; tid < THREADS; tid++)\n"
    "#define PHASE STEP\n"
    "#define STEP_N(n_) _Pragma(\"GCC ivdep\") for (int tid = 0, end_ = clamp_(n_, THREADS); tid < end_; tid++)\n"
    "#define PHASE_N(n_) STEP_N(n_)\n"
    "#define STEP2(y_, NY_, x_, NX_) for (int y_ = 0; y_ < (NY_); y_++)"
    " _Pragma(\"GCC ivdep\") for (int x_ = 0, tid = y_ * (NX_); x_ < (NX_); x_++, tid++)\n"
    "#define PHASE2(y_, NY_, x_, NX_) STEP2(y_, NY_, x_, NX_)\n"
    "#define SYNC ((void)0)\n"

    "#define PRIV(T_, v_) _Alignas(64) T_ v_[THREADS]\n"
    "#define P(v_) (v_)[tid]\n"
    "#define PRIVA(T_, v_, K_) _Alignas(64) T_ v_[K_][THREADS]\n"
    "#define PA(v_, k_) (v_)[k_][tid]\n"
    "#define SHARED(T_, s_, n_) _Alignas(64) T_ s_[n_]\n"

    "#define PRAGMA_(x_) _Pragma(#x_)\n"
    "#ifdef __clang__\n"
    "#define UNROLL(n_) PRAGMA_(unroll n_)\n"
    "#else\n"
    "#define UNROLL(n_) PRAGMA_(GCC unroll n_)\n"
    "#endif\n"
    "#define UNROLL_DEV(n_)\n"

    "#define FN_ static inline __attribute__((always_inline))\n"
    "#define TABLE_ static const\n"
    "FN_ float as_f32(u32 x_) { float f_; __builtin_memcpy(&f_, &x_, 4); return f_; }\n"
    "FN_ u32 as_u32(float x_) { u32 u_; __builtin_memcpy(&u_, &x_, 4); return u_; }\n"
    "FN_ float k_fma(float a_, float b_, float c_) { return __builtin_fmaf(a_, b_, c_); }\n"
    "FN_ float k_sqrt(float x_) { return __builtin_sqrtf(x_); }\n"
    "FN_ float k_abs(float x_) { return __builtin_fabsf(x_); }\n"
    "FN_ float k_log(float x_) { return __builtin_logf(x_); }\n"
    "FN_ float k_erf(float x_) { return __builtin_erff(x_); }\n"
    "FN_ float k_pow(float a_, float b_) { return __builtin_powf(a_, b_); }\n"

    /* The same tree as the shuffles of the CUDA reading. */
    "#define BLOCK_FN_(name_, op_)"
    " static inline float name_(const float *x_, int threads_) {"
    " float warp_[32], a_[16], b_[8];"
    " for (int w_ = 0; w_ < threads_ / 32; w_++, x_ += 32) {"
    " for (int i_ = 0; i_ < 16; i_++) a_[i_] = op_(x_[i_], x_[i_ + 16]);"
    " for (int i_ = 0; i_ < 8; i_++) b_[i_] = op_(a_[i_], a_[i_ + 8]);"
    " for (int i_ = 0; i_ < 4; i_++) a_[i_] = op_(b_[i_], b_[i_ + 4]);"
    " warp_[w_] = op_(op_(a_[0], a_[2]), op_(a_[1], a_[3])); }"
    " for (int d_ = threads_ / 64; d_ > 0; d_ /= 2)"
    " for (int i_ = 0; i_ < d_; i_++) warp_[i_] = op_(warp_[i_], warp_[i_ + d_]);"
    " return warp_[0]; }\n";

/* The address is computed once, so an access inside an index counts once. */
const char ein__prelude_counting[] =
    "static inline void *at_(struct tally *tally_, const void *p_, i64 i_, i64 size_) {"
    " const char *a_ = (const char *)p_ + i_ * size_;"
    " if (tally_ == 0) return (void *)a_;"
    " const u64 off_ = (u64)a_ - (u64)tally_->base;"
    " if (off_ < (u64)(tally_->stride * tally_->n) && (i64)(off_ / (u64)tally_->stride) != tally_->self)"
    " tally_->bytes += size_;"
    " return (void *)a_; }\n"
    "#define LD(p_, i_) (*(__typeof__(&(p_)[0]))at_(tally_, (p_), (i_), (i64)sizeof (p_)[0]))\n"
    "#define ST(p_, i_, v_) (LD(p_, i_) = (v_))\n";

/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA C++ for NVRTC, without headers. A phase is a loop of one turn, so that `continue` leaves it and still
 * meets the barrier in the loop's last clause. The guards of the _N forms take no `else` of the user's. */
#include "core/kernel/prelude.h"

const char ein__prelude_cuda[] =
    "#pragma nv_diag_suppress 177\n" /* functions that no kernel of the unit uses */
    "typedef signed char i8;\n"
    "typedef unsigned char u8;\n"
    "typedef unsigned short u16;\n"
    "typedef long long i64;\n"
    "typedef int i32;\n"
    "typedef unsigned int u32;\n"
    "typedef unsigned long long u64;\n"

    "#define COMMA_ ,\n"
    "#define IN_(T_, n_) const T_ *__restrict__ n_\n"
    "#define OUT_(T_, n_) T_ *__restrict__ n_\n"
    "#define VAL_(T_, n_) const T_ n_\n"
    "#define KERNEL(P_)"
    " extern \"C\" __global__ void __launch_bounds__(THREADS, 1) NAME(P_(IN_, OUT_, VAL_, COMMA_))\n"
    "#define bx ((i64)blockIdx.x)\n"
    "#define by ((i64)blockIdx.y)\n"
    "#define bz ((i64)blockIdx.z)\n"
    "#define TID_ ((int)threadIdx.x)\n"
    "#define FN_ static __device__ __forceinline__\n"
    "#define TABLE_ static __constant__\n";

const char ein__prelude_threads[] =
    "#define STEP for (int tid = TID_, once_ = 1; once_; once_ = 0)\n"
    "#define PHASE for (int tid = TID_, once_ = 1; once_; once_ = 0, __syncthreads())\n"
    "#define STEP_N(n_) STEP if (tid >= (i64)(n_)) {} else\n"
    "#define PHASE_N(n_) PHASE if (tid >= (i64)(n_)) {} else\n"
    "#define YX_(y_, x_, NX_) int tid = TID_, y_ = tid / (NX_), x_ = tid % (NX_), once_ = 1\n"
    "#define STEP2(y_, NY_, x_, NX_) for (YX_(y_, x_, NX_); once_; once_ = 0)\n"
    "#define PHASE2(y_, NY_, x_, NX_) for (YX_(y_, x_, NX_); once_; once_ = 0, __syncthreads())\n"
    "#define SYNC __syncthreads()\n"

    "#define PRIV(T_, v_) T_ v_\n"
    "#define P(v_) (v_)\n"
    "#define PRIVA(T_, v_, K_) T_ v_[K_]\n"
    "#define PA(v_, k_) (v_)[k_]\n"
    "#define SHARED(T_, s_, n_) __shared__ __align__(16) T_ s_[n_]\n"

    "#define PRAGMA_(x_) _Pragma(#x_)\n"
    "#define UNROLL(n_) PRAGMA_(unroll n_)\n"
    "#define UNROLL_DEV(n_) PRAGMA_(unroll n_)\n"

    /* Halves of a warp, then halves of the list of warps; lane 0's order of operands is the host's. The first
     * barrier keeps the scratch of the last call until all have read it. */
    "#define ALL_ 0xffffffffu\n"
    "#define BLOCK_FN_(T_, name_, op_) FN_ T_ name_(T_ x_, int threads_) {"
    " __shared__ T_ warp_[32];"
    " _Pragma(\"unroll\") for (int d_ = 16; d_ > 0; d_ /= 2) x_ = op_(x_, __shfl_xor_sync(ALL_, x_, d_));"
    " if (threads_ > 32) {"
    " __syncthreads();"
    " if (TID_ % 32 == 0) warp_[TID_ / 32] = x_;"
    " __syncthreads();"
    " x_ = warp_[TID_ & (threads_ / 32 - 1)];"
    " _Pragma(\"unroll\") for (int d_ = threads_ / 64; d_ > 0; d_ /= 2)"
    " x_ = op_(x_, __shfl_xor_sync(ALL_, x_, d_));"
    " }"
    " return __shfl_sync(ALL_, x_, 0); }\n";

const char ein__prelude_cuda_functions[] =
    "FN_ float as_f32(u32 x_) { return __uint_as_float(x_); }\n"
    "FN_ u32 as_u32(float x_) { return __float_as_uint(x_); }\n"
    "FN_ float k_fma(float a_, float b_, float c_) { return __fmaf_rn(a_, b_, c_); }\n"
    "FN_ float k_sqrt(float x_) { return __fsqrt_rn(x_); }\n"
    "FN_ float k_abs(float x_) { return fabsf(x_); }\n"
    "FN_ float k_log(float x_) { return logf(x_); }\n"
    "FN_ float k_erf(float x_) { return erff(x_); }\n"
    "FN_ float k_pow(float a_, float b_) { return powf(a_, b_); }\n"
    "FN_ float k_floor(float x_) { return floorf(x_); }\n"
    "FN_ float k_ceil(float x_) { return ceilf(x_); }\n"
    "FN_ float k_round(float x_) { return rintf(x_); }\n"
    "FN_ float k_trunc(float x_) { return truncf(x_); }\n"
    "FN_ float k_fmod_(float a_, float b_) { return fmodf(a_, b_); }\n"
    "FN_ double as_f64(u64 x_) { return __longlong_as_double((i64)x_); }\n"
    "FN_ u64 as_u64(double x_) { return (u64)__double_as_longlong(x_); }\n"
    "FN_ double d_fma(double a_, double b_, double c_) { return __fma_rn(a_, b_, c_); }\n"
    "FN_ double d_sqrt(double x_) { return __dsqrt_rn(x_); }\n"
    "FN_ double d_abs(double x_) { return fabs(x_); }\n"
    "FN_ double d_log(double x_) { return log(x_); }\n"
    "FN_ double d_erf(double x_) { return erf(x_); }\n"
    "FN_ double d_pow(double a_, double b_) { return pow(a_, b_); }\n"
    "FN_ double d_floor(double x_) { return floor(x_); }\n"
    "FN_ double d_ceil(double x_) { return ceil(x_); }\n"
    "FN_ double d_round(double x_) { return rint(x_); }\n"
    "FN_ double d_trunc(double x_) { return trunc(x_); }\n"
    "FN_ double d_fmod_(double a_, double b_) { return fmod(a_, b_); }\n"
    "FN_ u64 mulhi_(u64 a_, u64 b_) { return __umul64hi(a_, b_); }\n"
    "FN_ float from_f16(u16 x_) { float f_; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(f_) : \"h\"(x_)); return f_; }\n"
    "FN_ u16 to_f16(float x_) { u16 h_; asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(h_) : \"f\"(x_)); return h_; }\n";

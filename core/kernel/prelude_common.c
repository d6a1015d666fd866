/* SPDX-License-Identifier: Apache-2.0 */
/* What both readings share, so that their bits are equal: k_exp and what is built on it, minimum and maximum,
 * block collectives. Straight-line code with selects: the host's loops over threads vectorize through it.
 *
 * k_exp: exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln 2 / 2. Adding 1.5 * 2^23 leaves n in the low
 * bits of t, from where it is added to the exponent of exp(r) = 1 + r + r^2 q(r). Results below 2^-126 are 0:
 * the device's instruction does so, and subnormals would be slow on the host. x + inf is inf or NaN.
 * k_tanh: x + x^3 q(x^2) below 0.625, else 1 - 2 / (exp(2x) + 1). The q are minimax fits of relative error
 * 3e-9 and 5e-9.
 *
 * k_sin, k_cos: x = n pi/2 + r. Below 105615, n times the first of three parts of pi/2 is subtracted exactly
 * (Cody and Waite); above, n and r are read off the product of x's 24 bits with the 96 bits of 2/pi that
 * matter to it (Payne and Hanek). The device's own functions keep that product in an array, which costs a
 * stack frame. */
#include "core/kernel/prelude.h"

const char ein__prelude_access[] =
    "#define LD(p_, i_) ((p_)[i_])\n"
    "#define ST(p_, i_, v_) ((p_)[i_] = (v_))\n";

const char ein__prelude_common[] =
    "#define K_INF as_f32(0x7f800000u)\n"
    "#define K_NAN as_f32(0x7fc00000u)\n"

    "FN_ float k_exp(float x_) {\n"
    "    const float t_ = k_fma(x_, 1.44269502f, 12582912.0f), n_ = t_ - 12582912.0f;\n"
    "    const float r_ = k_fma(n_, 1.90465421e-9f, k_fma(n_, -0.693147182f, x_));\n"
    "    float q_ = k_fma(0.00138145522f, r_, 0.00836874545f);\n"
    "    q_ = k_fma(q_, r_, 0.041668389f);\n"
    "    q_ = k_fma(q_, r_, 0.166665211f);\n"
    "    q_ = k_fma(q_, r_, 0.49999994f);\n"
    "    const float p_ = k_fma(q_, r_ * r_, r_) + 1.0f;\n"
    "    const float e_ = as_f32(as_u32(p_) + (as_u32(t_) << 23)), over_ = x_ + K_INF;\n"
    "    const float y_ = x_ < 88.7228394f ? e_ : over_;\n"
    "    return x_ < -87.3365402f ? 0.0f : y_;\n"
    "}\n"
    "FN_ float k_sigmoid(float x_) { return 1.0f / (1.0f + k_exp(-x_)); }\n"
    "FN_ float k_tanh(float x_) {\n"
    "    const float a_ = k_abs(x_), z_ = a_ * a_;\n"
    "    float q_ = k_fma(-0.0056654904f, z_, 0.0206048787f);\n"
    "    q_ = k_fma(q_, z_, -0.0537296198f);\n"
    "    q_ = k_fma(q_, z_, 0.133313268f);\n"
    "    q_ = k_fma(q_, z_, -0.333332777f);\n"
    "    const float small_ = k_fma(q_, a_ * z_, a_), large_ = 1.0f - 2.0f / (k_exp(2.0f * a_) + 1.0f);\n"
    "    return as_f32(as_u32(a_ < 0.625f ? small_ : large_) | (as_u32(x_) & 0x80000000u));\n"
    "}\n"
    "FN_ float k_rsqrt(float x_) { return 1.0f / k_sqrt(x_); }\n"
    "FN_ float k_relu(float x_) { return x_ < 0.0f ? 0.0f : x_; }\n"
    "FN_ float k_min(float a_, float b_) { return ((a_ < b_) | (a_ != a_)) ? a_ : b_; }\n"
    "FN_ float k_max(float a_, float b_) { return ((a_ > b_) | (a_ != a_)) ? a_ : b_; }\n"
    "TABLE_ u32 two_over_pi_[8] = {0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u,"
    " 0x3c439041u, 0xfe5163abu};\n"
    "FN_ u32 window_(u32 w_, u32 s_) {\n"
    "    return (u32)(((u64)two_over_pi_[w_] << 32 | two_over_pi_[w_ + 1]) >> (32 - s_));\n"
    "}\n"
    /* The window starts at weight 2: the top two bits of the product are n, the rest is r / (pi/2). */
    "FN_ float reduce_far_(float a_, u32 *n_) {\n"
    "    const u32 bits_ = as_u32(a_), m_ = (bits_ & 0x7fffffu) | 0x800000u;\n"
    "    const u32 at_bit_ = (bits_ >> 23) - 120u, w_ = at_bit_ >> 5, s_ = at_bit_ & 31u;\n"
    "    const u64 low_ = (u64)window_(w_ + 2u, s_) * m_;\n"
    "    const u64 mid_ = (u64)window_(w_ + 1u, s_) * m_ + (low_ >> 32);\n"
    "    const u32 high_ = window_(w_, s_) * m_ + (u32)(mid_ >> 32);\n"
    "    const u64 part_ = (u64)high_ << 34 | (mid_ & 0xffffffffu) << 2 | (low_ & 0xffffffffu) >> 30;\n"
    "    *n_ = (high_ >> 30) + (u32)(part_ >> 63);\n"
    "    return bits_ < 0x7f800000u ? (float)((double)(i64)part_ * 8.5153039502163861e-20) : K_NAN;\n"
    "}\n"
    "FN_ float reduce_near_(float a_, u32 *n_) {\n"
    "    const float t_ = k_fma(a_, 0.636619747f, 12582912.0f), f_ = t_ - 12582912.0f;\n"
    "    *n_ = as_u32(t_);\n"
    "    return k_fma(f_, 1.71512451e-15f, k_fma(f_, 4.37113883e-08f, k_fma(f_, -1.57079637f, a_)));\n"
    "}\n"
    "FN_ float circle_(float a_, u32 quarter_) {\n"
    "    u32 n_;\n"
    "    const float r_ = a_ < 105615.0f ? reduce_near_(a_, &n_) : reduce_far_(a_, &n_), z_ = r_ * r_;\n"
    "    float s_ = k_fma(2.71808972e-06f, z_, -0.000198393085f);\n"
    "    float c_ = k_fma(2.44329676e-05f, z_, -0.00138873141f);\n"
    "    s_ = k_fma(s_, z_, 0.00833332911f);\n"
    "    c_ = k_fma(c_, z_, 0.0416666456f);\n"
    "    s_ = k_fma(s_, z_, -0.166666672f);\n"
    "    c_ = k_fma(c_, z_, -0.5f);\n"
    "    const float v_ = ((n_ + quarter_) & 1u) ? k_fma(c_, z_, 1.0f) : k_fma(s_, r_ * z_, r_);\n"
    "    return as_f32(as_u32(v_) ^ ((n_ + quarter_) & 2u) << 30);\n"
    "}\n"
    "FN_ float k_sin(float x_) {\n"
    "    return as_f32(as_u32(circle_(k_abs(x_), 0u)) ^ (as_u32(x_) & 0x80000000u));\n"
    "}\n"
    "FN_ float k_cos(float x_) { return circle_(k_abs(x_), 1u); }\n"
    "FN_ float add_(float a_, float b_) { return a_ + b_; }\n"

    "BLOCK_FN_(float, block_sum_, add_)\n"
    "BLOCK_FN_(float, block_max_, k_max)\n"
    /* A count of threads that is no power of two does not compile. */
    "#define TREE_ (THREADS + 0 * (int)sizeof(char[(THREADS & (THREADS - 1)) == 0 ? 1 : -1]))\n"
    "#define BLOCK_SUM(u_, v_) const float u_ = block_sum_(v_, TREE_)\n"
    "#define BLOCK_MAX(u_, v_) const float u_ = block_max_(v_, TREE_)\n";

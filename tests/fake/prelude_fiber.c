/* SPDX-License-Identifier: Apache-2.0 */
/* The fiber reading is the text of the CUDA reading, phases and collectives included, with CUDA's words defined for
 * C: a thread index, a barrier, shuffles, shared memory; functions are those of the host reading. Compiled with
 * ThreadSanitizer's instrumentation, which calls a function before every access to memory: the functions of the
 * preludes are left out, since they touch only their own variables and the collectives' scratch, which orders
 * nothing. Pointers carry no restrict: it would let the compiler move an access across a barrier. */
#include "tests/fake/prelude_fiber.h"

#include "core/kernel/dialect.h"
#include "core/kernel/prelude.h"

static const char head[] =
    "typedef signed char i8;\n"
    "typedef unsigned char u8;\n"
    "typedef unsigned short u16;\n"
    "typedef long long i64;\n"
    "typedef int i32;\n"
    "typedef unsigned int u32;\n"
    "typedef unsigned long long u64;\n"

    "int fiber_step_(int line_);\n"
    "void fiber_at_(int line_);\n"
    "void fiber_sync_(void);\n"
    "void fiber_meet_(void);\n"
    "void *fiber_shared_(int key_, unsigned long bytes_);\n"
    "void fiber_touch_(const void *p_, unsigned long bytes_, int flags_);\n"
    "void fiber_shuffle_(void *value_, int bytes_, int from_);\n"

    "#define COMMA_ ,\n"
    "#define SEMICOLON_ ;\n"
    "#define IN_(T_, n_) const T_ *n_\n"
    "#define OUT_(T_, n_) T_ *n_\n"
    "#define VAL_(T_, n_) const T_ n_\n"
    "#define GET_IN_(T_, n_) const T_ *n_; __builtin_memcpy(&n_, args_[i_++], sizeof n_)\n"
    "#define GET_OUT_(T_, n_) T_ *n_; __builtin_memcpy(&n_, args_[i_++], sizeof n_)\n"
    "#define GET_VAL_(T_, n_) T_ n_; __builtin_memcpy(&n_, args_[i_++], sizeof n_)\n"
    "#define PASS_(T_, n_) n_\n"
    "#define JOIN2_(a_, b_) a_##b_\n"
    "#define JOIN_(a_, b_) JOIN2_(a_, b_)\n"
    "#define BLOCK_ JOIN_(NAME, _block)\n"
    "#define BLOCK_PARAMS_(P_) (P_(IN_, OUT_, VAL_, COMMA_), const i64 bx, const i64 by, const i64 bz,"
    " const int tid_)\n"
    "#define UNSEEN_ __attribute__((no_sanitize_thread, unused))\n"
    "#define KERNEL(P_)"
    " static void BLOCK_ BLOCK_PARAMS_(P_);"
    " const int JOIN_(NAME, _threads) = THREADS;"
    " UNSEEN_ void NAME(void **args_, i64 x_, i64 y_, i64 z_, int tid_) {"
    " int i_ = 0; P_(GET_IN_, GET_OUT_, GET_VAL_, SEMICOLON_); (void)i_;"
    " BLOCK_(P_(PASS_, PASS_, PASS_, COMMA_), x_, y_, z_, tid_); }"
    " static __attribute__((noinline)) void BLOCK_ BLOCK_PARAMS_(P_)\n"

    "#define FN_ static inline UNSEEN_\n"
    "#define TABLE_ static const\n"

    /* CUDA's words, as the collectives use them: they meet, but order no memory. */
    "#define TID_ fiber_step_(0)\n"
    "#define __shared__ static\n"
    "#define __syncthreads() fiber_meet_()\n"
    "#define SHUFFLE_(x_, from_)"
    " ({ __typeof__(x_) y_ = (x_); fiber_shuffle_(&y_, (int)sizeof y_, (from_)); y_; })\n"
    "#define __shfl_xor_sync(mask_, x_, d_) SHUFFLE_(x_, TID_ ^ (d_))\n"
    "#define __shfl_sync(mask_, x_, lane_) SHUFFLE_(x_, (TID_ & ~31) | (lane_))\n";

/* The whole of what is loaded or stored, of which the compiler may take only a part. */
static const char access[] =
    "#define TOUCH_(a_, write_) fiber_touch_(a_, sizeof *a_, (sizeof *a_ == __alignof__(*a_) ? 2 : 0) + write_)\n"
    "#define LD(p_, i_) (*({ __typeof__(&(p_)[0]) a_ = &(p_)[i_]; TOUCH_(a_, 0); a_; }))\n"
    "#define ST(p_, i_, v_) ({ __typeof__(&(p_)[0]) a_ = &(p_)[i_]; __typeof__(*a_) w_ = (v_);"
    " TOUCH_(a_, 1); *a_ = w_; })\n";

/* For the bodies: lines, barriers that order memory, shared arrays of the block. */
static const char tail[] =
    "#undef TID_\n"
    "#define TID_ fiber_step_(__LINE__)\n"
    "#undef __syncthreads\n"
    "#define __syncthreads() (fiber_at_(__LINE__), fiber_sync_())\n"
    "#undef TREE_\n"
    "#define TREE_"
    " (fiber_at_(__LINE__), THREADS + 0 * (int)sizeof(char[(THREADS & (THREADS - 1)) == 0 ? 1 : -1]))\n"
    "#undef SHARED\n"
    "#define SHARED(T_, s_, n_)"
    " T_ *const s_ = (T_ *)fiber_shared_(__COUNTER__, sizeof(T_) * (unsigned long)(n_))\n";

void fiber_prelude(text *out)
{
    ein__text_add(out, "%s%s%s%s%s%s%s%s", head, ein__prelude_threads, ein__prelude_c_functions,
                  access, ein__prelude_common, ein__prelude_wide, tail, EIN__KERNEL_MARK);
}

const char fiber_hooks_source[] =
    "struct fiber_hooks {\n"
    "    void (*access)(const void *, unsigned long, int, const void *);\n"
    "    int (*step)(int);\n"
    "    void (*at)(int);\n"
    "    void (*sync)(void);\n"
    "    void (*meet)(void);\n"
    "    void *(*shared)(int, unsigned long);\n"
    "    void (*shuffle)(void *, int, int);\n"
    "};\n"
    "static struct fiber_hooks hooks;\n"
    "void fiber_bind_(const struct fiber_hooks *h) { hooks = *h; }\n"
    "#pragma GCC visibility push(hidden)\n"
    "int fiber_step_(int line) { return hooks.step(line); }\n"
    "void fiber_at_(int line) { hooks.at(line); }\n"
    "void fiber_sync_(void) { hooks.sync(); }\n"
    "void fiber_meet_(void) { hooks.meet(); }\n"
    "void *fiber_shared_(int key, unsigned long bytes) { return hooks.shared(key, bytes); }\n"
    "void fiber_touch_(const void *p, unsigned long n, int flags)\n"
    "    { hooks.access(p, n, flags, __builtin_return_address(0)); }\n"
    "void fiber_shuffle_(void *value, int bytes, int from) { hooks.shuffle(value, bytes, from); }\n"
    "void __tsan_init(void) {}\n"
    "void __tsan_func_entry(void *pc) { (void)pc; }\n"
    "void __tsan_func_exit(void) {}\n"
    "#define ACCESS(name, bytes, flags) \\\n"
    "    void __tsan_##name(void *p) { hooks.access(p, bytes, flags, __builtin_return_address(0)); }\n"
    "#define SIZE(n) ACCESS(read##n, n, 2) ACCESS(write##n, n, 3) \\\n"
    "    ACCESS(unaligned_read##n, n, 0) ACCESS(unaligned_write##n, n, 1)\n"
    "SIZE(1) SIZE(2) SIZE(4) SIZE(8) SIZE(16)\n"
    "void __tsan_read_range(void *p, unsigned long n) { hooks.access(p, n, 0, __builtin_return_address(0)); }\n"
    "void __tsan_write_range(void *p, unsigned long n) { hooks.access(p, n, 1, __builtin_return_address(0)); }\n"
    "#pragma GCC visibility pop\n";

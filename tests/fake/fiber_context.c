/* SPDX-License-Identifier: Apache-2.0 */
/* Switching stacks: the registers that a function must keep go on the old stack and come from the new one. */
#include "tests/fake/fiber_inner.h"

#if defined __x86_64__ && !defined FIBER_UCONTEXT

void fiber_switch_(void **from, void *to);
__asm__(".text\n"
        ".globl fiber_switch_\n.hidden fiber_switch_\n.type fiber_switch_, @function\n"
        "fiber_switch_:\n"
        "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
        "    movq %rsp, (%rdi)\n    movq %rsi, %rsp\n"
        "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n    ret\n"
        ".size fiber_switch_, . - fiber_switch_\n");

/* Six registers, the first return address, and no caller. */
void fiber_context_make(fiber_context *c, char *stack, size_t bytes, void (*enter)(void))
{
    void **top = (void **)(void *)(stack + bytes);
    top[-1] = NULL;
    top[-2] = (void *)(uintptr_t)enter;
    for (int i = 3; i <= 8; i++) top[-i] = NULL;
    c->sp = top - 8;
}

#elif defined __aarch64__ && !defined FIBER_UCONTEXT

void fiber_switch_(void **from, void *to);
__asm__(".text\n"
        ".globl fiber_switch_\n.hidden fiber_switch_\n.type fiber_switch_, @function\n"
        "fiber_switch_:\n"
        "    sub sp, sp, 160\n"
        "    stp x19, x20, [sp]\n    stp x21, x22, [sp, 16]\n    stp x23, x24, [sp, 32]\n"
        "    stp x25, x26, [sp, 48]\n    stp x27, x28, [sp, 64]\n    stp x29, x30, [sp, 80]\n"
        "    stp d8, d9, [sp, 96]\n    stp d10, d11, [sp, 112]\n"
        "    stp d12, d13, [sp, 128]\n    stp d14, d15, [sp, 144]\n"
        "    mov x9, sp\n    str x9, [x0]\n    mov sp, x1\n"
        "    ldp x19, x20, [sp]\n    ldp x21, x22, [sp, 16]\n    ldp x23, x24, [sp, 32]\n"
        "    ldp x25, x26, [sp, 48]\n    ldp x27, x28, [sp, 64]\n    ldp x29, x30, [sp, 80]\n"
        "    ldp d8, d9, [sp, 96]\n    ldp d10, d11, [sp, 112]\n"
        "    ldp d12, d13, [sp, 128]\n    ldp d14, d15, [sp, 144]\n"
        "    add sp, sp, 160\n    ret\n"
        ".size fiber_switch_, . - fiber_switch_\n");

/* Twenty registers; x30 is where the switch returns to. */
void fiber_context_make(fiber_context *c, char *stack, size_t bytes, void (*enter)(void))
{
    void **sp = (void **)(void *)(stack + bytes) - 20;
    for (int i = 0; i < 20; i++) sp[i] = NULL;
    sp[11] = (void *)(uintptr_t)enter;
    c->sp = sp;
}

#else
#define BY_UCONTEXT
#include <ucontext.h>

#include "core/base/alloc.h"

void fiber_context_make(fiber_context *c, char *stack, size_t bytes, void (*enter)(void))
{
    if (c->sp == NULL) c->sp = ein__calloc(1, sizeof(ucontext_t));
    ucontext_t *u = c->sp;
    if (u == NULL || getcontext(u) != 0) return;
    u->uc_stack.ss_sp = stack;
    u->uc_stack.ss_size = bytes;
    if (enter != NULL) makecontext(u, enter, 0);
}

void fiber_context_switch(fiber_context *from, const fiber_context *to)
{
    if (from->sp == NULL) fiber_context_make(from, NULL, 0, NULL);
    swapcontext(from->sp, to->sp);
}
#endif

#ifndef BY_UCONTEXT
void fiber_context_switch(fiber_context *from, const fiber_context *to) { fiber_switch_(&from->sp, to->sp); }
#endif

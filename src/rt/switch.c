// SPDX-License-Identifier: Apache-2.0
/*
 * Stacks of fibers, and the switch from one stack to another.
 *
 * For the compiler a switch is an ordinary function call, so context_switch saves only the
 * registers that a call must preserve: rbx, rbp and r12 to r15. It pushes these registers on the
 * old stack; the saved context is the stack pointer. Floating-point control words are not saved: no
 * fiber may change them.
 *
 *   fresh stack, growing down            guard page | usable ......................... | top
 *   stack_prepare writes there           [6 zeroed registers][entry][0 = end of backtrace]
 *                                        ^ saved stack pointer
 *
 * context_switch pops the registers and "returns" into entry, which must never return. The zero
 * above it ends a debugger's backtrace. At entry the stack pointer is 8 below a multiple of 16, as
 * after any call.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/base.h"
#include "rt/core.h"

#ifndef __x86_64__
#error "rt/switch.c: context_switch is written for x86-64 only; a new CPU needs its own here"
#endif

/* clang-format off */
__asm__(".text\n"
	".globl context_switch\n"
	".type context_switch, @function\n"
	"context_switch:\n"
	"	pushq %rbp\n"
	"	pushq %rbx\n"
	"	pushq %r12\n"
	"	pushq %r13\n"
	"	pushq %r14\n"
	"	pushq %r15\n"
	"	movq %rsp, (%rdi)\n"
	"	movq %rsi, %rsp\n"
	"	popq %r15\n"
	"	popq %r14\n"
	"	popq %r13\n"
	"	popq %r12\n"
	"	popq %rbx\n"
	"	popq %rbp\n"
	"	ret\n"
	".size context_switch, . - context_switch\n");
/* clang-format on */

#define SAVED_REGISTERS 6

void *stack_prepare(struct stack *st, void (*entry)(void))
{
	uintptr_t top = ((uintptr_t)st->base + st->size_bytes) & ~(uintptr_t)15;
	uintptr_t *slot = (uintptr_t *)top;
	assert(st->base != NULL && top - (uintptr_t)st->base > 1024);
	*--slot = 0;
	*--slot = (uintptr_t)entry;
	slot -= SAVED_REGISTERS;
	assert((uintptr_t)(slot + SAVED_REGISTERS + 1) % 16 ==
	       8); /* stack alignment that the ABI requires at entry */
	memset(slot, 0, SAVED_REGISTERS * sizeof(*slot));
	return slot;
}

int stack_map(struct stack *st, size_t size_bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t size = (size_bytes + page - 1) & ~(page - 1);
	char *p = mmap(NULL, page + size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	if (mprotect(p, page, PROT_NONE) != 0) {
		munmap(p, page + size);
		return -ENOMEM;
	}
	st->base = p + page;
	st->size_bytes = size;
	return 0;
}

void stack_unmap(struct stack *st)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	assert(st->base != NULL && st->size_bytes % page == 0);
	munmap((char *)st->base - page, st->size_bytes + page);
}

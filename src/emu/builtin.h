// SPDX-License-Identifier: Apache-2.0
/* The profiles of src/emu/profiles/, which are part of the program. */
#ifndef EMU_BUILTIN_H
#define EMU_BUILTIN_H

#include <stddef.h>

#include "base/strbuf.h"

struct emu_builtin {
	const char *name;
	const char *text;
	size_t len;
};

extern const struct emu_builtin emu_builtin_files[];
extern const size_t emu_builtin_files_count;

struct emu_profile;

/* Adds them to a profile. Errors are those of emu_profile_add. */
int emu_profile_add_builtin(struct emu_profile *p, struct strbuf *err);

#endif

// SPDX-License-Identifier: Apache-2.0
#include "emu/builtin.h"

#include "emu/profile.h"

int emu_profile_add_builtin(struct emu_profile *p, struct strbuf *err)
{
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < emu_builtin_files_count; i++) {
		const struct emu_builtin *f = &emu_builtin_files[i];
		rc = emu_profile_add(p, f->name, f->text, f->len, err);
	}
	return rc;
}

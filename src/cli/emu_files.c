// SPDX-License-Identifier: Apache-2.0
#include "cli/emu_files.h"

#include <errno.h>
#include <stdio.h>

#include "base/err.h"
#include "base/strbuf.h"
#include "cli/cli.h"
#include "emu/builtin.h"
#include "emu/profile.h"

#define FILE_MAX (16 * MIB)

static int fail(const struct strbuf *err, int rc)
{
	(void)cli_fail("%s", err->len > 0 ? strbuf_text(err) : err_text(rc));
	return rc;
}

int emu_files_add(struct emu_profile *p, const char *path)
{
	AUTO_FREE char *text = malloc(FILE_MAX + 1);
	FILE *file = fopen(path, "re");
	if (text == NULL || file == NULL) {
		int rc = text == NULL ? -ENOMEM : -errno;
		(void)cli_fail("cannot read the profile %s: %s", path, err_text(rc));
		if (file != NULL)
			(void)fclose(file);
		return rc;
	}
	size_t len = fread(text, 1, FILE_MAX + 1, file);
	int rc = ferror(file) ? -EIO : len > FILE_MAX ? -EFBIG : 0;
	(void)fclose(file);
	if (rc < 0) {
		(void)cli_fail("cannot read the profile %s: %s", path, err_text(rc));
		return rc;
	}
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 4096);
	rc = emu_profile_add(p, path, text, len, &err);
	return rc < 0 ? fail(&err, rc) : 0;
}

int emu_files_builtin(struct emu_profile *p)
{
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 4096);
	int rc = emu_profile_add_builtin(p, &err);
	return rc < 0 ? fail(&err, rc) : 0;
}

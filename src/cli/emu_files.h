// SPDX-License-Identifier: Apache-2.0
/* Files of profiles (emu/profile.h), for commands. Errors are printed. */
#ifndef CLI_EMU_FILES_H
#define CLI_EMU_FILES_H

struct emu_profile;

/* Adds a file to a profile. Returns 0 or a negative error, which it has printed. */
int emu_files_add(struct emu_profile *p, const char *path);
/* Adds the profiles that are part of the program. */
int emu_files_builtin(struct emu_profile *p);

#endif

// SPDX-License-Identifier: Apache-2.0
#ifndef BASE_NAME_SYNC_H
#define BASE_NAME_SYNC_H

/*
 * Makes the name of a file or directory durable: syncs the directory that has it. The bytes of a file need an fsync of
 * their own. For code that uses no loop; in fibers it is rt_name_sync. Returns 0 or -errno; 0 also on filesystems that
 * cannot sync a directory.
 */
int name_sync(const char *path);

#endif

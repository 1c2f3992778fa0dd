// SPDX-License-Identifier: Apache-2.0
/*
 * A main function for a fuzz target without libFuzzer: runs the target over the given files, or over every file of
 * the given folders. It fails if there is no input, so that a missing seed folder does not count as a passed test.
 * A finding ends the program with a sanitizer report or a failed assertion.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/base.h"
#include "fuzz.h"

#define INPUT_BYTES_MAX (16 * MIB)

static int replay_file(const char *path, size_t size)
{
	if (size > INPUT_BYTES_MAX)
		return -EFBIG;
	/* Allocate exactly the size of the input, so that the sanitizer reports a read past its end. */
	AUTO_FREE uint8_t *data = malloc(size > 0 ? size : 1);
	if (data == NULL)
		return -ENOMEM;
	FILE *f = fopen(path, "rb");
	if (f == NULL)
		return -errno;
	size_t n = fread(data, 1, size, f);
	fclose(f);
	if (n != size)
		return -EIO;
	fprintf(stderr, "replay %s (%zu bytes)\n", path, size);
	LLVMFuzzerTestOneInput(data, size);
	return 1;
}

static int replay(const char *path);

static int replay_folder(const char *path)
{
	struct dirent **entries = NULL;
	int n = scandir(path, &entries, NULL, alphasort);
	if (n < 0)
		return -errno;
	int count = 0;
	for (int i = 0; i < n; i++) {
		char child[4096];
		int len = snprintf(child, sizeof(child), "%s/%s", path, entries[i]->d_name);
		if (entries[i]->d_name[0] != '.' && count >= 0) {
			int result = (size_t)len < sizeof(child) ? replay(child) : -ENAMETOOLONG;
			count = result < 0 ? result : count + result;
		}
		free(entries[i]);
	}
	free(entries);
	return count;
}

/* Returns the number of inputs run, or -errno. */
static int replay(const char *path)
{
	struct stat st;
	if (stat(path, &st) != 0)
		return -errno;
	return S_ISDIR(st.st_mode) ? replay_folder(path) : replay_file(path, (size_t)st.st_size);
}

int main(int argc, char **argv)
{
	int count = 0;
	for (int i = 1; i < argc; i++) {
		int n = replay(argv[i]);
		if (n < 0) {
			fprintf(stderr, "%s: %s\n", argv[i], strerror(-n));
			return 1;
		}
		count += n;
	}
	if (count == 0) {
		fprintf(stderr, "usage: %s FILE-OR-FOLDER... (no input found)\n", argv[0]);
		return 1;
	}
	return 0;
}

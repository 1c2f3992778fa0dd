// SPDX-License-Identifier: Apache-2.0
/* Stores its argument in a cluster and reads it back: cc hello.c $(pkg-config --cflags --libs libterrane) */
#include <stdio.h>
#include <string.h>
#include <terrane/terrane.h>

static int fail(const char *what, const struct terrane_error *e)
{
	fprintf(stderr, "%s: %s (%s)\n", what, e->text, terrane_error_name(e->code));
	return 1;
}

int main(int argc, char **argv)
{
	const char *text = argc > 1 ? argv[1] : "hello, terrane";
	char back[4096] = "";
	struct terrane *t;
	struct terrane_file *f;
	struct terrane_error why = {0};
	struct terrane_open_options open = {.error = &why};
	struct terrane_options o = {.error = &why, .encoding = "rs:4+2", .timeout_ms = 10000};

	if (terrane_open(&t, NULL, &open) < 0) /* $TERRANE_CLUSTER, or ./cluster.ini */
		return fail("open", &why);
	if (terrane_mkdir(t, "/examples", TERRANE_PARENTS, &o) < 0)
		return fail("mkdir", &why);
	if (terrane_create(t, "/examples/hello", TERRANE_REPLACE, &f, &o) < 0)
		return fail("create", &why);
	if (terrane_append(f, text, strlen(text), &o) < 0)
		return fail("append", &why);
	if (terrane_file_close(f, &o) < 0) /* now all clients can read it */
		return fail("close", &why);
	if (terrane_file_open(t, "/examples/hello", &f, &o) < 0)
		return fail("open", &why);
	if (terrane_pread(f, back, sizeof(back) - 1, 0, &o) < 0)
		return fail("read", &why);
	terrane_file_close(f, NULL);
	terrane_close(t);
	printf("%s\n", back);
	return strcmp(text, back) != 0;
}

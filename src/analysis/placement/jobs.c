// SPDX-License-Identifier: Apache-2.0
#include "analysis/placement/jobs.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/base.h"

static int reserve(struct jobs *t)
{
	if (t->n < t->cap)
		return 0;
	if (t->n >= JOBS_MAX)
		return -E2BIG;
	size_t cap = t->cap == 0 ? 256 : t->cap * 2;
	/* Each array that could be enlarged stays valid when a later one could not. */
	void *io = realloc(t->io, cap * sizeof(*t->io));
	if (io != NULL)
		t->io = io;
	void *id = realloc(t->id, cap * sizeof(*t->id));
	if (id != NULL)
		t->id = id;
	void *numbers = realloc(t->numbers, cap * (t->numbers_n + 1) * sizeof(*t->numbers));
	if (numbers != NULL)
		t->numbers = numbers;
	void *texts = realloc(t->texts, cap * (t->texts_n + 1) * sizeof(*t->texts));
	if (texts != NULL)
		t->texts = texts;
	if (io == NULL || id == NULL || numbers == NULL || texts == NULL)
		return -ENOMEM;
	t->cap = cap;
	return 0;
}

void jobs_fini(struct jobs *t)
{
	free(t->io);
	free(t->id);
	free(t->numbers);
	free(t->texts);
	strings_fini(&t->strings);
	*t = (struct jobs){0};
}

int jobs_column(struct jobs *t, const char *name)
{
	assert(t->n == 0);
	bool number = strncmp(name, "n_", 2) == 0;
	size_t len = strlen(name);
	if ((!number && strncmp(name, "s_", 2) != 0) || len < 3 || len >= JOBS_NAME_MAX ||
	    strspn(name + 2, "abcdefghijklmnopqrstuvwxyz0123456789_") != len - 2)
		return -EINVAL;
	uint32_t *n = number ? &t->numbers_n : &t->texts_n;
	char(*names)[JOBS_NAME_MAX] = number ? t->number_names : t->text_names;
	for (uint32_t i = 0; i < *n; i++)
		if (strcmp(names[i], name) == 0)
			return -EEXIST;
	if (*n == JOBS_FEATURES_MAX)
		return -E2BIG;
	memcpy(names[(*n)++], name, len + 1);
	return 0;
}

int jobs_add(struct jobs *t, const char *id, const struct job_io *io, const double *numbers,
	     const char *const *texts)
{
	assert(io->end_s > io->start_s && io->size_bytes > 0);
	assert(t->n == 0 || io->start_s >= t->io[t->n - 1].start_s);
	int rc = reserve(t);
	if (rc != 0)
		return rc;
	for (uint32_t i = 0; i < t->texts_n; i++) {
		uint32_t *cell = &t->texts[t->n * t->texts_n + i];
		*cell = JOBS_MISSING;
		if (texts[i] != NULL && texts[i][0] != '\0')
			rc = strings_add(&t->strings, texts[i], strlen(texts[i]), cell);
		if (rc != 0)
			return rc;
	}
	if (t->numbers_n > 0)
		memcpy(t->numbers + t->n * t->numbers_n, numbers, t->numbers_n * sizeof(*numbers));
	t->io[t->n] = *io;
	snprintf(t->id[t->n], sizeof(t->id[0]), "%s", id);
	t->n++;
	return 0;
}

const char *jobs_text(const struct jobs *t, size_t job, uint32_t i)
{
	assert(job < t->n && i < t->texts_n);
	uint32_t number = t->texts[job * t->texts_n + i];
	return number == JOBS_MISSING ? NULL : t->strings.texts[number];
}

int jobs_text_column(const struct jobs *t, const char *name)
{
	for (uint32_t i = 0; i < t->texts_n; i++)
		if (strcmp(t->text_names[i], name) == 0)
			return (int)i;
	return -1;
}

int jobs_print(const struct jobs *t, FILE *out)
{
	fprintf(out, "job,start_s,end_s,size_bytes,bytes_read,reads,bytes_written,writes");
	for (uint32_t i = 0; i < t->numbers_n; i++)
		fprintf(out, ",%s", t->number_names[i]);
	for (uint32_t i = 0; i < t->texts_n; i++)
		fprintf(out, ",%s", t->text_names[i]);
	fputc('\n', out);
	for (size_t j = 0; j < t->n; j++) {
		const struct job_io *io = &t->io[j];
		fprintf(out, "%s,%.3f,%.3f,%llu,%llu,%llu,%llu,%llu", t->id[j], io->start_s,
			io->end_s, (unsigned long long)io->size_bytes,
			(unsigned long long)io->read_bytes, (unsigned long long)io->reads,
			(unsigned long long)io->written_bytes, (unsigned long long)io->writes);
		for (uint32_t i = 0; i < t->numbers_n; i++) {
			double v = t->numbers[j * t->numbers_n + i];
			if (isnan(v))
				fputc(',', out);
			else
				fprintf(out, ",%.9g", v);
		}
		for (uint32_t i = 0; i < t->texts_n; i++) {
			const char *text = jobs_text(t, j, i);
			fprintf(out, ",%s", text != NULL ? text : "");
		}
		fputc('\n', out);
	}
	return fflush(out) != 0 || ferror(out) ? -EIO : 0;
}

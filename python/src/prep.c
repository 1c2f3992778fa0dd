// SPDX-License-Identifier: Apache-2.0
/*
 * Functions for images whose samples may be worked on near the data (_near.py): drawing crops, planning an epoch, and
 * making tensors of what was read.
 *
 * Arrays are buffers: entries as of Dataset.lookup; struct terrane_prep for each sample, in which width 0 says that the
 * size of the image is not known; bytes for flips and forms.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/dataset.h"
#include "ext.h"
#include "prep/draw.h"
#include "prep/op.h"
#include "prep/price.h"
#include "prep/tensor.h"

#define SIDE_MAX 4096u
#define BUFFERS_MAX 8

/* Buffers of one call, one record of size[i] bytes for each sample. */
struct arrays {
	Py_buffer at[BUFFERS_MAX];
	int count;
};

static void arrays_release(struct arrays *a)
{
	while (a->count > 0)
		PyBuffer_Release(&a->at[--a->count]);
}

/* Takes a buffer; bytes: its least length. Returns NULL with an exception. */
static void *array(struct arrays *a, PyObject *object, int flags, uint64_t bytes)
{
	Py_buffer *b = &a->at[a->count];
	if (PyObject_GetBuffer(object, b, flags) < 0)
		return NULL;
	a->count++;
	if ((uint64_t)b->len >= bytes)
		return b->buf;
	PyErr_SetString(PyExc_ValueError, "a buffer is too small for these samples");
	return NULL;
}

/* Takes the entries, and sets their number. */
static const struct dataset_entry *entries_of(struct arrays *a, PyObject *object, size_t *n)
{
	const struct dataset_entry *entries = array(a, object, PyBUF_SIMPLE, 0);
	*n = entries != NULL ? (size_t)a->at[a->count - 1].len / sizeof(*entries) : 0;
	return entries;
}

static bool side_ok(unsigned side)
{
	if (side >= 1 && side <= SIDE_MAX)
		return true;
	PyErr_SetString(PyExc_ValueError, "the size of images must be 1 to 4096 pixels");
	return false;
}

/* --- drawing -------------------------------------------------------------------------------------- */

static bool has_size(uint32_t width, uint32_t height)
{
	return width > 0 && height > 0 && width <= PREP_SIDE_MAX && height <= PREP_SIDE_MAX;
}

/* Sets the crop of a sample; that of an image whose size is not known is drawn when it is decoded. */
static uint8_t draw_one(struct prep_draw_key *key, uint32_t width, uint32_t height, unsigned side,
			struct terrane_prep *p)
{
	*p = (struct terrane_prep){.out_width = side, .out_height = side};
	if (!has_size(width, height)) {
		p->width = p->height = p->reserved = 1;
		return 0;
	}
	struct prep_drawn d = prep_draw(&prep_draw_default, key, width, height);
	p->x = d.crop.x;
	p->y = d.crop.y;
	p->width = d.crop.width;
	p->height = d.crop.height;
	return d.flip;
}

/* prep_draw(entries, seed, epoch, side, preps, flips): draws the crop and the flip of each sample. */
PyObject *py_prep_draw(PyObject *module, PyObject *args)
{
	PyObject *in, *out, *out_flips;
	unsigned long long seed, epoch;
	unsigned side;
	struct arrays a = {0};
	size_t n;
	(void)module;
	if (!PyArg_ParseTuple(args, "OKKIOO", &in, &seed, &epoch, &side, &out, &out_flips))
		return NULL;
	const struct dataset_entry *entries = entries_of(&a, in, &n);
	struct terrane_prep *preps =
		entries != NULL ? array(&a, out, PyBUF_WRITABLE, n * sizeof(*preps)) : NULL;
	uint8_t *flips = preps != NULL ? array(&a, out_flips, PyBUF_WRITABLE, n) : NULL;
	bool ok = flips != NULL && side_ok(side);
	for (size_t i = 0; ok && i < n; i++) {
		struct prep_draw_key key = {
			.seed = seed, .epoch = epoch, .sample = entries[i].sample};
		flips[i] = draw_one(&key, entries[i].width, entries[i].height, side, &preps[i]);
	}
	arrays_release(&a);
	return ok ? Py_NewRef(Py_None) : NULL;
}

/* prep_draw_one(seed, epoch, sample, width, height): returns (x, y, width, height, flip). */
PyObject *py_prep_draw_one(PyObject *module, PyObject *args)
{
	unsigned long long seed, epoch, sample;
	unsigned width, height;
	struct terrane_prep p;
	(void)module;
	if (!PyArg_ParseTuple(args, "KKKII", &seed, &epoch, &sample, &width, &height))
		return NULL;
	if (!has_size(width, height)) {
		PyErr_SetString(PyExc_ValueError, "an image has 1 to 65,535 pixels on each side");
		return NULL;
	}
	struct prep_draw_key key = {.seed = seed, .epoch = epoch, .sample = sample};
	uint8_t flip = draw_one(&key, width, height, 1, &p);
	return Py_BuildValue("IIIIO", p.x, p.y, p.width, p.height, flip ? Py_True : Py_False);
}

/* --- tensors -------------------------------------------------------------------------------------- */

static void to_tensor(uint8_t *pixels, uint32_t side, bool flip, float *out)
{
	struct prep_image image = {.pixels = pixels, .width = side, .height = side};
	if (flip)
		prep_image_flip(&image);
	prep_tensor(&image, &prep_norm_imagenet, out);
}

struct finish {
	const struct dataset_entry *entries;
	const struct terrane_prep *preps;
	const uint8_t *data, *flips;
	float *out;
	uint8_t *left;
	size_t n;
	uint32_t side;
};

/* Makes the tensors of all samples that the library can decode; left[i] is 1 for the others. -ENOMEM. */
static int finish_all(const struct finish *f)
{
	size_t values = (size_t)f->side * f->side * PREP_CHANNELS;
	uint8_t *pixels = malloc(values);
	uint64_t at = 0;
	int rc = pixels != NULL ? 0 : -ENOMEM;
	for (size_t i = 0; rc == 0 && i < f->n; at += f->entries[i++].size) {
		const struct terrane_prep *p = &f->preps[i];
		int one = p->reserved != 0 ? -ENOTSUP
					   : terrane_prep_finish(p, f->data + at, p->bytes, pixels);
		rc = one == -ENOMEM ? one : 0;
		f->left[i] = one < 0;
		if (one == 0)
			to_tensor(pixels, f->side, f->flips[i] != 0, f->out + i * values);
	}
	free(pixels);
	return rc;
}

/* Returns whether the results fit the buffers. */
static bool finish_ok(const struct finish *f, uint64_t data_len)
{
	uint64_t at = 0;
	for (size_t i = 0; i < f->n; i++) {
		if (f->entries[i].size > data_len - at || f->preps[i].bytes > f->entries[i].size ||
		    f->preps[i].out_width != f->side || f->preps[i].out_height != f->side) {
			PyErr_SetString(PyExc_ValueError, "these are not samples that were read");
			return false;
		}
		at += f->entries[i].size;
	}
	return true;
}

/* prep_finish(entries, preps, data, flips, side, out, left): makes normalized tensors, 3 * side * side floats for each
 * sample; left[i] becomes 1 for a sample that is no JPEG file which the library decodes. */
PyObject *py_prep_finish(PyObject *module, PyObject *args)
{
	PyObject *o[6];
	struct arrays a = {0};
	struct finish f = {0};
	(void)module;
	if (!PyArg_ParseTuple(args, "OOOOIOO", &o[0], &o[1], &o[2], &o[3], &f.side, &o[4], &o[5]))
		return NULL;
	bool ok = side_ok(f.side);
	uint64_t floats = (uint64_t)f.side * f.side * PREP_CHANNELS * sizeof(float);
	ok = ok && (f.entries = entries_of(&a, o[0], &f.n)) != NULL;
	ok = ok && (f.preps = array(&a, o[1], PyBUF_SIMPLE, f.n * sizeof(*f.preps))) != NULL;
	ok = ok && (f.data = array(&a, o[2], PyBUF_SIMPLE, 0)) != NULL;
	uint64_t data_len = ok ? (uint64_t)a.at[a.count - 1].len : 0;
	ok = ok && (f.flips = array(&a, o[3], PyBUF_SIMPLE, f.n)) != NULL;
	ok = ok && (f.out = array(&a, o[4], PyBUF_WRITABLE, f.n * floats)) != NULL;
	ok = ok && (f.left = array(&a, o[5], PyBUF_WRITABLE, f.n)) != NULL;
	if (ok && (ok = finish_ok(&f, data_len))) {
		int rc;
		Py_BEGIN_ALLOW_THREADS;
		rc = finish_all(&f);
		Py_END_ALLOW_THREADS;
		if (rc < 0)
			PyErr_NoMemory();
		ok = rc == 0;
	}
	arrays_release(&a);
	return ok ? Py_NewRef(Py_None) : NULL;
}

/* prep_tensor(pixels, side, flip, out): the same of pixels that were decoded elsewhere, which it may mirror in place. */
PyObject *py_prep_tensor(PyObject *module, PyObject *args)
{
	PyObject *in, *result;
	unsigned side;
	int flip;
	struct arrays a = {0};
	(void)module;
	if (!PyArg_ParseTuple(args, "OIpO", &in, &side, &flip, &result))
		return NULL;
	bool ok = side_ok(side);
	uint64_t values = (uint64_t)side * side * PREP_CHANNELS;
	uint8_t *pixels = ok ? array(&a, in, PyBUF_WRITABLE, values) : NULL;
	float *out =
		pixels != NULL ? array(&a, result, PyBUF_WRITABLE, values * sizeof(float)) : NULL;
	if (out != NULL)
		to_tensor(pixels, side, flip != 0, out);
	arrays_release(&a);
	return out != NULL ? Py_NewRef(Py_None) : NULL;
}

/* --- planning ------------------------------------------------------------------------------------- */

/* Speeds of processors: what the model's times are multiplied by. */
struct speeds {
	double client, node;
};

static void price(const struct dataset_entry *e, const struct terrane_prep *p,
		  const struct speeds *speeds, struct prep_cost form[PREP_FORMS])
{
	struct prep_facts facts = {
		.raw_bytes = (double)e->size,
		.width = e->width,
		.height = e->height,
		.crop = {.x = p->x, .y = p->y, .width = p->width, .height = p->height},
		.out_width = p->out_width,
		.out_height = p->out_height,
		.decode_s = -1,
		.crop_s = -1,
		.cut_s = -1,
		.cut_bytes = -1};
	prep_price(&prep_model_default, &facts, form);
	for (int i = 0; i < PREP_FORMS; i++) {
		form[i].client_s *= speeds->client;
		form[i].node_s *= speeds->node;
	}
}

/* Prices a sample that is always sent as it is. */
static void price_raw(const struct dataset_entry *e, struct prep_cost form[PREP_FORMS])
{
	for (int i = 0; i < PREP_FORMS; i++)
		form[i] = (struct prep_cost){.bytes = (double)e->size};
}

/* Returns whether a sample has an image and an operation on it that can be priced: both are from the caller. */
static bool may_offload(const struct dataset_entry *e, const struct terrane_prep *p)
{
	return p->reserved == 0 && has_size(e->width, e->height) && e->size > 0 && p->width > 0 &&
	       p->height > 0 && (uint64_t)p->x + p->width <= e->width &&
	       (uint64_t)p->y + p->height <= e->height && p->out_width - 1 < SIDE_MAX &&
	       p->out_height - 1 < SIDE_MAX;
}

/* prep_cost(entries, preps, forms): returns the seconds that the model gives the client for these forms, and the nodes. */
PyObject *py_prep_cost(PyObject *module, PyObject *args)
{
	PyObject *in, *in_preps, *in_forms;
	struct arrays a = {0};
	size_t n;
	double client_s = 0, node_s = 0;
	static const struct speeds model = {1, 1};
	(void)module;
	if (!PyArg_ParseTuple(args, "OOO", &in, &in_preps, &in_forms))
		return NULL;
	const struct dataset_entry *entries = entries_of(&a, in, &n);
	const struct terrane_prep *preps =
		entries != NULL ? array(&a, in_preps, PyBUF_SIMPLE, n * sizeof(*preps)) : NULL;
	const uint8_t *forms = preps != NULL ? array(&a, in_forms, PyBUF_SIMPLE, n) : NULL;
	for (size_t i = 0; forms != NULL && i < n; i++) {
		struct prep_cost form[PREP_FORMS];
		if (!may_offload(&entries[i], &preps[i]) || forms[i] > TERRANE_PREP_PIXELS)
			continue;
		price(&entries[i], &preps[i], &model, form);
		client_s += form[forms[i]].client_s;
		node_s += form[forms[i]].node_s;
	}
	arrays_release(&a);
	return forms != NULL ? Py_BuildValue("dd", client_s, node_s) : NULL;
}

struct planning {
	const struct dataset_entry *entries;
	const struct terrane_prep *preps;
	const uint32_t *nodes;
	const uint8_t *never;
	uint8_t *forms;
	size_t n;
	struct speeds speeds;
	struct prep_setup setup;
};

static int plan(const struct planning *g, enum prep_policy policy, struct prep_plan *out)
{
	struct prep_sample *samples = calloc(g->n + 1, sizeof(*samples));
	if (samples == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < g->n; i++) {
		samples[i].node = g->nodes[i] % g->setup.nodes;
		if (g->never[i] == 0 && may_offload(&g->entries[i], &g->preps[i]))
			price(&g->entries[i], &g->preps[i], &g->speeds, samples[i].form);
		else
			price_raw(&g->entries[i], samples[i].form);
	}
	int rc = prep_plan_make(policy, &g->setup, samples, g->n, g->forms, out);
	free(samples);
	/* A node sends no tensors. */
	for (size_t i = 0; rc == 0 && i < g->n; i++)
		if (g->forms[i] > TERRANE_PREP_PIXELS || g->never[i] != 0)
			g->forms[i] = TERRANE_PREP_RAW;
	return rc;
}

static int policy_of(const char *name)
{
	for (int i = 0; i < PREP_POLICIES; i++)
		if (strcmp(prep_policy_name((enum prep_policy)i), name) == 0)
			return i;
	PyErr_Format(PyExc_ValueError, "there is no policy %s", name);
	return -1;
}

static bool setup_ok(const struct planning *g)
{
	const struct prep_setup *s = &g->setup;
	if (s->bandwidth_bytes_s > 0 && s->client_cores > 0 && s->nodes > 0 &&
	    s->nodes <= UINT16_MAX && s->disk_bytes_s >= 0 && s->accelerator_s >= 0 &&
	    s->node_cores >= 0 && g->speeds.client > 0 && g->speeds.node > 0)
		return true;
	PyErr_SetString(PyExc_ValueError, "a speed of the plan is out of range");
	return false;
}

/* prep_plan(policy, entries, preps, nodes, never, forms, (bandwidth, disk bandwidth, accelerator seconds per sample, client
 * cores, cores of a node, nodes), (speed factor of the client, of the nodes)): fills forms and returns (bytes, seconds,
 * CPU seconds of the nodes, offloaded). */
PyObject *py_prep_plan(PyObject *module, PyObject *args)
{
	const char *name;
	PyObject *o[5];
	struct arrays a = {0};
	struct planning g = {0};
	struct prep_plan made;
	(void)module;
	if (!PyArg_ParseTuple(args, "sOOOOO(dddddI)(dd)", &name, &o[0], &o[1], &o[2], &o[3], &o[4],
			      &g.setup.bandwidth_bytes_s, &g.setup.disk_bytes_s,
			      &g.setup.accelerator_s, &g.setup.client_cores, &g.setup.node_cores,
			      &g.setup.nodes, &g.speeds.client, &g.speeds.node))
		return NULL;
	int policy = policy_of(name);
	bool ok = policy >= 0 && setup_ok(&g);
	ok = ok && (g.entries = entries_of(&a, o[0], &g.n)) != NULL;
	ok = ok && (g.preps = array(&a, o[1], PyBUF_SIMPLE, g.n * sizeof(*g.preps))) != NULL;
	ok = ok && (g.nodes = array(&a, o[2], PyBUF_SIMPLE, g.n * sizeof(*g.nodes))) != NULL;
	ok = ok && (g.never = array(&a, o[3], PyBUF_SIMPLE, g.n)) != NULL;
	ok = ok && (g.forms = array(&a, o[4], PyBUF_WRITABLE, g.n)) != NULL;
	if (ok) {
		int rc;
		Py_BEGIN_ALLOW_THREADS;
		rc = plan(&g, (enum prep_policy)policy, &made);
		Py_END_ALLOW_THREADS;
		if (rc < 0)
			PyErr_NoMemory();
		ok = rc == 0;
	}
	arrays_release(&a);
	return ok ? Py_BuildValue("dddn", made.bytes, made.epoch_s, made.node_cpu_s,
				  (Py_ssize_t)made.offloaded)
		  : NULL;
}

/* prep_reason(number): the text of why a node sent a file as it is. */
PyObject *py_prep_reason(PyObject *module, PyObject *number)
{
	(void)module;
	unsigned long n = PyLong_AsUnsignedLong(number);
	if (n == (unsigned long)-1 && PyErr_Occurred() != NULL)
		return NULL;
	return PyUnicode_FromString(terrane_prep_reason(n < UINT32_MAX ? (uint32_t)n : UINT32_MAX));
}

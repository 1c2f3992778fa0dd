// SPDX-License-Identifier: Apache-2.0
#include "roles/node_conf.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "auth/keys.h"
#include "base/base.h"
#include "base/units.h"
#include "code/encoding.h"
#include "roles/role_security.h"

#define FOLDERS_MAX 2048
#define GROUPS_MAX 512
#define WORD_MAX CONF_LINE_MAX
#define NODE_THREADS "1"

static const char *const log_levels[] = {"debug", "info", "warn", "error", "off", NULL};
static const char *const medias[] = {"disk", "flash", NULL};
static const char *const kinds[] = {"hdd", "sata", "nvme", NULL};
static const char *const repairs[] = {"inside", "outside", NULL};
static const char *const placements[] = {"clustered", "declustered", "single-overlap", NULL};

const struct conf_key node_conf_schema[] = {
	CONF_STRING(
		"node", "cluster", struct node_conf, cluster, NULL, 32, 32,
		"id of the cluster: 32 hexadecimal digits; disks of other clusters are refused"),
	CONF_INT("node", "id", struct node_conf, node, NULL, 1, CONF_MAX,
		 "id of the node in the cluster"),
	CONF_STRING("node", "listen", struct node_conf, listen, "127.0.0.1:7100", 1, 120,
		    "where to listen: HOST:PORT or unix:PATH"),
	CONF_STRING("node", "metrics", struct node_conf, metrics, "", 0, 70,
		    "where to serve /metrics and /healthz: HOST:PORT; empty: nowhere"),
	CONF_STRING("node", "metadata", struct node_conf, metadata, "", 0, 190,
		    "metadata servers for its heartbeats, separated by commas; empty: none"),
	CONF_STRING("node", "announce", struct node_conf, announce, "", 0, 120,
		    "address for clients; empty: that of listen"),
	CONF_STRING("node", "rack", struct node_conf, rack, "rack1", 1, 63,
		    "name of its rack, the fault domain"),
	CONF_STRING("node", "name", struct node_conf, name, "", 0, 63,
		    "name of the node; empty: node and its id"),
	CONF_SIZE("node", "memory", struct node_conf, pool_bytes, "512MiB", NODE_POOL_MIN,
		  1024 * GIB, "memory for bytes of chunks in flight"),
	CONF_INT("node", "connections", struct node_conf, connections, "1024", 1, 100000,
		 "connections at the same time; more are refused"),
	CONF_STRING("node", "threads", struct node_conf, threads, NODE_THREADS, 1, 4,
		    "threads that serve the disks; auto: the processors that the process may use"),
	CONF_INT("node", "prep_cores", struct node_conf, prep_cores, "1", 0, 256,
		 "images on which the node works for clients at the same time; 0: none"),
	CONF_DURATION("node", "grace", struct node_conf, grace_ns, "5s", 0, CONF_MAX,
		      "time for requests in flight after a request to stop"),
	CONF_LIST("disks", "disk", struct node_conf, disks, NODE_DISKS_MAX,
		  "a disk: NUMBER [media=MEDIA] [kind=KIND] [emulate=KIND] FOLDER"),
	CONF_LIST("disks", "pool", struct node_conf, pools, NODE_DISKS_MAX,
		  "a local pool: NUMBER K+P clustered|declustered|single-overlap [piece=SIZE] "
		  "[media=MEDIA] [kind=KIND] [emulate=KIND]"),
	CONF_LIST("disks", "member", struct node_conf, members, FOLDERS_MAX,
		  "a member of a pool, in order: POOL NUMBER FOLDER"),
	CONF_LIST("disks", "spare", struct node_conf, spares, FOLDERS_MAX,
		  "a disk that replaces a failed member of a pool: POOL NUMBER FOLDER"),
	CONF_LIST("disks", "flash", struct node_conf, flash, NODE_DISKS_MAX,
		  "a cache for hot chunks of DISK: DISK NUMBER SIZE FILLED-PER-SECOND FOLDER"),
	CONF_CHOICE("disks", "kind", struct node_conf, kind, "hdd", kinds,
		    "kind of the disks, for their scheduler; kind=KIND of a disk overrides it"),
	CONF_CHOICE("disks", "media", struct node_conf, media, "disk", medias,
		    "media of disks and pools; media=MEDIA of a disk overrides it. Blocks are put "
		    "on disk or "
		    "flash, and stay there"),
	CONF_BOOL("disks", "format", struct node_conf, format, "false",
		  "format empty folders as new disks when the node starts"),
	CONF_SIZE("disks", "keep_free", struct node_conf, keep_free_bytes, "1GiB", 0, CONF_MAX,
		  "free space of each disk that is never used"),
	CONF_INT("disks", "sharers", struct node_conf, sharers, "1", 1, 1000000,
		 "number of disks that share one filesystem; each reports its part of the space"),
	CONF_INT("disks", "open_chunks", struct node_conf, open_chunks, "1024", 16, 1000000,
		 "chunk files of each disk to keep open"),
	CONF_INT("disks", "errors", struct node_conf, errors, "10", 1, 1000000,
		 "I/O errors within an hour that a disk may have; one more makes it failed"),
	CONF_DURATION("disks", "probe", struct node_conf, probe_ns, "10s", 10 * NS_PER_MS, CONF_MAX,
		      "interval between tries of missing and suspect disks"),
	CONF_DURATION("disks", "give_up", struct node_conf, give_up_ns, "10m", NS_PER_MS, CONF_MAX,
		      "a pool gives up a member that was missing or failed for so long"),
	CONF_SIZE("disks", "rebuild_rate", struct node_conf, rebuild_bytes_per_s, "0", 0, CONF_MAX,
		  "bytes per second that the rebuild of a pool may write; 0: no limit"),
	CONF_SIZE("disks", "rebuild_disk_rate", struct node_conf, rebuild_member_bytes_per_s,
		  "40MiB", 0, CONF_MAX,
		  "bytes per second that a rebuild may read and write on each member; 0: no limit"),
	CONF_CHOICE(
		"disks", "repair", struct node_conf, repair, "inside", repairs,
		"who rebuilds what a pool can still rebuild after it lost more than its code "
		"tolerates: inside: the pool (for r_min and r_hyb of the janitor); outside: the "
		"janitor (for r_fco and r_all)"),
	CONF_INT("disks", "rebuild_parallel", struct node_conf, rebuild_parallel, "0", 0, 1000,
		 "chunks that a pool rebuilds at the same time; 0: 3 for each member, 8 to 128"),
	CONF_LIST("traffic", "group", struct node_conf, groups, GROUPS_MAX,
		  "the weight of a traffic group: TENANT/GROUP WEIGHT; others have 100"),
	CONF_STRING("security", "credentials", struct node_conf, credentials, "", 0, 1024,
		    "file with the credentials of the node, which only its owner may read; empty: "
		    "clients "
		    "are not authenticated"),
	CONF_DURATION("security", "clock_skew", struct node_conf, clock_skew_ns, "5m", 0,
		      TOKEN_SKEW_MAX_MS *NS_PER_MS,
		      "by how much the clock of the node may differ from those of the metadata "
		      "servers; tokens are accepted for so much longer"),
	ROLE_SECURITY_KEYS(struct node_conf),
	ROLE_METRICS_KEY(struct node_conf),
	ROLE_AUDIT_KEY(struct node_conf),
	CONF_CHOICE("log", "level", struct node_conf, log_level, "info", log_levels,
		    "what to log: this level and above"),
};

const size_t node_conf_count = ARRAY_LEN(node_conf_schema);

/* --- parsing a value ------------------------------------------------------------------------- */

struct value {
	const char *key;
	char text[CONF_LINE_MAX];
	char *at; /* the rest of the text to parse */
	struct strbuf *err;
};

static int refuse(const struct value *v, const char *why)
{
	strbuf_clear(v->err);
	strbuf_printf(v->err, "[%s] %s = %s: %s",
		      strcmp(v->key, "group") == 0 ? "traffic" : "disks", v->key, v->text, why);
	return -EINVAL;
}

/* Returns the length of the word that begins at `at`; 0 at the end of the text. */
static size_t word_len(const char *at)
{
	return strcspn(at, " \t");
}

static void skip_blanks(struct value *v)
{
	v->at += strspn(v->at, " \t");
}

/* Copies the next word to out. -EINVAL: the text has no further word. */
static int next_word(struct value *v, char out[WORD_MAX])
{
	skip_blanks(v);
	size_t n = word_len(v->at);
	assert(v->at >= v->text && v->at + n < v->text + sizeof(v->text) && n < WORD_MAX);
	memcpy(out, v->at, n);
	out[n] = '\0';
	v->at += n;
	return n > 0 ? 0 : -EINVAL;
}

static int next_number(struct value *v, uint64_t *out, const char *why)
{
	char word[WORD_MAX];
	int64_t n = 0;
	if (next_word(v, word) < 0 || units_parse_int(word, &n) < 0 || n <= 0)
		return refuse(v, why);
	*out = (uint64_t)n;
	return 0;
}

/* Takes the next word if it is name=VALUE, and copies VALUE to out. */
static bool next_option(struct value *v, const char *name, char out[WORD_MAX])
{
	skip_blanks(v);
	size_t n = strlen(name);
	if (strncmp(v->at, name, n) != 0 || v->at[n] != '=')
		return false;
	char word[WORD_MAX];
	(void)next_word(v, word);
	memcpy(out, word + n + 1, strlen(word + n + 1) + 1);
	return true;
}

/* Copies a text; node_setup_fini frees the copy. NULL: out of memory. */
static const char *keep(struct node_setup *s, const char *text)
{
	char **all = realloc(s->texts, (s->text_count + 1) * sizeof(all[0]));
	if (all == NULL)
		return NULL;
	s->texts = all;
	char *copy = strdup(text);
	if (copy != NULL)
		s->texts[s->text_count++] = copy;
	return copy;
}

static int rest_is_path(struct node_setup *s, struct value *v, const char **out)
{
	skip_blanks(v);
	if (v->at[0] == '\0')
		return refuse(v, "the folder is missing");
	if (strlen(v->at) >= NODE_PATH_MAX)
		return refuse(v, "the folder's name is too long");
	*out = keep(s, v->at);
	return *out != NULL ? 0 : -ENOMEM;
}

/* --- disks ------------------------------------------------------------------------------------ */

static int device_options(struct value *v, const struct node_conf *c, struct node_disk_spec *d)
{
	char word[WORD_MAX];
	d->sched = sched_preset(kinds[c->kind]);
	d->is_flash = c->media == 1;
	assert(d->sched != NULL); /* the schema allows presets only */
	for (;;) {
		if (next_option(v, "kind", word)) {
			d->sched = sched_preset(word);
			if (d->sched == NULL)
				return refuse(v, "kind must be hdd, sata or nvme");
		} else if (next_option(v, "media", word)) {
			d->is_flash = strcmp(word, medias[1]) == 0;
			if (!d->is_flash && strcmp(word, medias[0]) != 0)
				return refuse(v, "media must be disk or flash");
		} else if (next_option(v, "emulate", word)) {
			d->emulate = drive_preset(word);
			if (d->emulate == NULL)
				return refuse(v, "emulate must be hdd, sata or nvme");
			d->sched = sched_preset(word);
		} else if (next_option(v, "piece", word)) {
			uint64_t bytes = 0;
			if (!d->pool || units_parse_size(word, &bytes) < 0 || bytes == 0 ||
			    bytes > 16 * MIB || bytes % 4096 != 0)
				return refuse(v, "piece must be a multiple of 4KiB up to 16MiB, "
						 "and is for pools only");
			d->shape.piece_bytes = (uint32_t)bytes;
		} else {
			return 0;
		}
	}
}

static int add_disk(struct node_setup *s, const struct node_conf *c, struct value *v)
{
	struct node_disks_options *o = &s->options.disks;
	struct node_disk_spec *d = &s->disks[o->disk_count];
	*d = (struct node_disk_spec){.folder_count = 1};
	int rc = next_number(v, &d->disk, "the disk's number is missing");
	if (rc == 0)
		rc = device_options(v, c, d);
	const char *path = NULL;
	if (rc == 0)
		rc = rest_is_path(s, v, &path);
	if (rc != 0)
		return rc;
	struct node_folder *f = &s->folders[o->disk_count];
	*f = (struct node_folder){.disk = d->disk, .path = path};
	d->folders = f;
	o->disk_count++;
	return 0;
}

static int add_pool(struct node_setup *s, const struct node_conf *c, struct value *v)
{
	struct node_disks_options *o = &s->options.disks;
	struct node_disk_spec *d = &s->disks[o->disk_count];
	char word[WORD_MAX], code[WORD_MAX + 4];
	struct encoding e;
	*d = (struct node_disk_spec){.pool = true};
	int rc = next_number(v, &d->disk, "the pool's number is missing");
	if (rc != 0)
		return rc;
	/* add_members would add the members of an id that occurs twice two times. */
	for (const struct node_disk_spec *other = s->disks; other < d; other++)
		if (other->disk == d->disk)
			return refuse(v, "its number is used twice");
	if (next_word(v, word) < 0)
		return refuse(v, "the code is missing: K+P, such as 4+1");
	snprintf(code, sizeof(code), "rs:%s", word);
	if (encoding_parse(code, &e, NULL, 0) < 0 || e.kind != ENCODING_RS ||
	    e.rs.p > POOL_PARITY_MAX)
		return refuse(v, "the code must be K+P, such as 4+1, with P up to 15");
	d->shape.k = (uint32_t)e.rs.k;
	d->shape.p = (uint32_t)e.rs.p;
	if (next_word(v, word) < 0)
		return refuse(v, "the placement is missing");
	int place = 0;
	while (placements[place] != NULL && strcmp(placements[place], word) != 0)
		place++;
	if (placements[place] == NULL)
		return refuse(v, "the placement must be clustered, declustered or single-overlap");
	d->shape.place = (enum place_kind)place;
	rc = device_options(v, c, d);
	skip_blanks(v);
	if (rc == 0 && v->at[0] != '\0')
		rc = refuse(v, "a pool has no folder; give its members folders");
	if (rc == 0)
		o->disk_count++;
	return rc;
}

/* Adds the folders of one pool from the list of all pools, so that the folders of each pool are consecutive. */
static int add_folders(struct node_setup *s, const char *list, const char *key,
		       struct node_disk_spec *d, struct node_folder *to, uint32_t *count,
		       struct strbuf *err)
{
	struct value v = {.key = key, .err = err};
	const char *at = list;
	while (conf_list_next(&at, v.text, sizeof(v.text))) {
		uint64_t pool = 0;
		v.at = v.text;
		int rc = next_number(&v, &pool, "the pool's number is missing");
		if (rc != 0)
			return rc;
		if (pool != d->disk)
			continue;
		struct node_folder *f = &to[*count];
		rc = next_number(&v, &f->disk, "the disk's number is missing");
		if (rc == 0)
			rc = rest_is_path(s, &v, &f->path);
		if (rc != 0)
			return rc;
		(*count)++;
	}
	return 0;
}

static size_t list_len(const char *list)
{
	size_t n = 0;
	for (; list != NULL && *list != '\0'; list++)
		n += *list == '\n';
	return n;
}

static int each_value(struct node_setup *s, const struct node_conf *c, const char *list,
		      const char *key, struct strbuf *err,
		      int (*fn)(struct node_setup *s, const struct node_conf *c, struct value *v))
{
	struct value v = {.key = key, .err = err};
	const char *at = list;
	while (conf_list_next(&at, v.text, sizeof(v.text))) {
		v.at = v.text;
		int rc = fn(s, c, &v);
		if (rc != 0)
			return rc;
	}
	return 0;
}

static int add_members(struct node_setup *s, const struct node_conf *c, size_t used,
		       struct strbuf *err)
{
	struct node_disks_options *o = &s->options.disks;
	size_t listed = list_len(c->members) + list_len(c->spares), taken = 0;
	for (size_t i = 0; i < o->disk_count; i++) {
		struct node_disk_spec *d = &s->disks[i];
		if (!d->pool)
			continue;
		struct node_folder *at = s->folders + used + taken;
		int rc = add_folders(s, c->members, "member", d, at, &d->folder_count, err);
		d->folders = at;
		if (rc == 0)
			rc = add_folders(s, c->spares, "spare", d, at + d->folder_count,
					 &d->spare_count, err);
		d->spares = at + d->folder_count;
		if (rc != 0)
			return rc;
		taken += d->folder_count + d->spare_count;
		if (d->folder_count < d->shape.k + d->shape.p) {
			strbuf_printf(err,
				      "[disks] pool %" PRIu64 " has %u members; its code needs at "
				      "least %u",
				      d->disk, d->folder_count, d->shape.k + d->shape.p);
			return -EINVAL;
		}
	}
	assert(taken <= listed); /* check in add_pool: no pool occurs twice */
	if (taken == listed)
		return 0;
	strbuf_puts(err, "[disks] a member or spare names a pool that is not configured");
	return -EINVAL;
}

/* Adds a cache of a disk. The folder of the cache comes after the folders of disks, members and spares. */
static int add_flash(struct node_setup *s, const struct node_conf *c, struct value *v)
{
	struct node_folder *f = &s->folders[s->flash_at];
	uint64_t disk = 0, bytes = 0, rate = 0;
	char word[WORD_MAX];
	(void)c;
	int rc = next_number(v, &disk, "the disk's number is missing");
	if (rc == 0)
		rc = next_number(v, &f->disk, "the number of the flash folder is missing");
	if (rc != 0)
		return rc;
	if (next_word(v, word) < 0 || units_parse_size(word, &bytes) < 0 || bytes == 0)
		return refuse(v, "the size of the cache is missing, such as 64GiB");
	if (next_word(v, word) < 0 || units_parse_size(word, &rate) < 0 || rate == 0)
		return refuse(v, "the bytes written per second are missing, such as 20MiB");
	rc = rest_is_path(s, v, &f->path);
	if (rc != 0)
		return rc;
	for (size_t i = 0; i < s->options.disks.disk_count; i++) {
		struct node_disk_spec *d = &s->disks[i];
		if (d->disk != disk)
			continue;
		if (d->flash != NULL)
			return refuse(v, "the disk has a cache already; it can have one");
		d->flash = f;
		d->flash_bytes = bytes;
		d->flash_write_bytes_per_s = rate;
		s->flash_at++;
		return 0;
	}
	return refuse(v, "no disk or pool of this number is configured");
}

/* Refuses an id or a folder that is used twice. */
static int check_unique(const struct node_setup *s, size_t folders, struct strbuf *err)
{
	const struct node_disks_options *o = &s->options.disks;
	for (size_t i = 0; i < folders; i++)
		for (size_t k = 0; k < i; k++) {
			assert(s->folders[i].path != NULL && s->folders[k].path != NULL);
			bool path = strcmp(s->folders[i].path, s->folders[k].path) == 0;
			if (!path && s->folders[i].disk != s->folders[k].disk)
				continue;
			if (path)
				strbuf_printf(err, "[disks] folder %s is used twice",
					      s->folders[i].path);
			else
				strbuf_printf(err, "[disks] number %" PRIu64 " is used twice",
					      s->folders[i].disk);
			return -EINVAL;
		}
	for (size_t i = 0; i < o->disk_count; i++)
		for (size_t k = 0; k < i; k++)
			if (s->disks[i].disk == s->disks[k].disk) {
				strbuf_printf(err, "[disks] number %" PRIu64 " is used twice",
					      s->disks[i].disk);
				return -EINVAL;
			}
	return 0;
}

/* --- traffic ---------------------------------------------------------------------------------- */

static int add_group(struct node_setup *s, const struct node_conf *c, struct value *v)
{
	struct node_disks_options *o = &s->options.disks;
	char name[WORD_MAX];
	uint64_t weight = 0;
	(void)c;
	if (next_word(v, name) < 0 || strlen(name) > SCHED_NAME_MAX)
		return refuse(v, "the name of the group is missing or too long");
	int rc = next_number(v, &weight, "the weight is a number from 1 to 10000");
	if (rc == 0 && weight > SCHED_WEIGHT_MAX)
		rc = refuse(v, "the weight is a number from 1 to 10000");
	if (rc != 0)
		return rc;
	const char *kept = keep(s, name);
	if (kept == NULL)
		return -ENOMEM;
	s->weights[o->weight_count++] =
		(struct node_weight){.group = kept, .weight = (uint32_t)weight};
	return 0;
}

/* --- the setup -------------------------------------------------------------------------------- */

int role_cluster_id(const char *section, const char *text, uint64_t out[2], struct strbuf *err)
{
	assert(strlen(text) == 32); /* the schema allows no other length */
	for (size_t i = 0; i < 2; i++) {
		char half[17];
		char *end = NULL;
		memcpy(half, text + i * 16, 16);
		half[16] = '\0';
		out[i] =
			strspn(half, "0123456789abcdefABCDEF") == 16 ? strtoull(half, &end, 16) : 0;
		if (end == NULL || *end != '\0') {
			strbuf_printf(err, "[%s] cluster = %s: must be 32 hexadecimal digits",
				      section, text);
			return -EINVAL;
		}
	}
	return 0;
}

/* Copies the settings that are not lists to the options of the node service. */
static void take_plain(struct node_setup *s, const struct node_conf *c)
{
	s->options = (struct node_serve_options){
		.listen = c->listen,
		.pool_bytes = c->pool_bytes,
		.connections_max = (size_t)c->connections,
		.prep_cores = (unsigned)c->prep_cores,
		.grace_ns = c->grace_ns,
		.disks = {.node = (uint64_t)c->node,
			  .disks = s->disks,
			  .weights = s->weights,
			  .format = c->format,
			  .keep_free_bytes = c->keep_free_bytes,
			  .sharers = (uint32_t)c->sharers,
			  .open_chunks_max = (uint32_t)c->open_chunks,
			  .errors_max = (uint32_t)c->errors,
			  .probe_ns = c->probe_ns,
			  .give_up_ns = c->give_up_ns,
			  .rebuild_bytes_per_s = c->rebuild_bytes_per_s,
			  .rebuild_member_bytes_per_s = c->rebuild_member_bytes_per_s,
			  .repair_outside = c->repair == 1,
			  .rebuild_parallel = (uint32_t)c->rebuild_parallel},
	};
}

static int setup_fill(struct node_setup *s, const struct node_conf *c, struct strbuf *err)
{
	size_t plain = list_len(c->disks);
	size_t behind = plain + list_len(c->members) + list_len(c->spares);
	size_t folders = behind + list_len(c->flash);
	size_t disks = plain + list_len(c->pools);
	if (disks > NODE_DISKS_MAX || folders > FOLDERS_MAX) {
		strbuf_printf(err, "[disks] a node has at most %d disks and pools, and %d folders",
			      NODE_DISKS_MAX, FOLDERS_MAX);
		return -EINVAL;
	}
	s->disks = calloc(disks + 1, sizeof(s->disks[0]));
	s->folders = calloc(folders + 1, sizeof(s->folders[0]));
	s->weights = calloc(list_len(c->groups) + 1, sizeof(s->weights[0]));
	if (s->disks == NULL || s->folders == NULL || s->weights == NULL)
		return -ENOMEM;
	take_plain(s, c);
	int rc = role_cluster_id("node", c->cluster, s->options.disks.cluster, err);
	if (rc == 0)
		rc = each_value(s, c, c->disks, "disk", err, add_disk);
	if (rc == 0)
		rc = each_value(s, c, c->pools, "pool", err, add_pool);
	if (rc == 0)
		rc = add_members(s, c, plain, err);
	s->flash_at = behind;
	if (rc == 0)
		rc = each_value(s, c, c->flash, "flash", err, add_flash);
	if (rc == 0)
		rc = check_unique(s, folders, err);
	if (rc == 0)
		rc = each_value(s, c, c->groups, "group", err, add_group);
	assert(rc != 0 || (s->options.disks.disk_count == disks && s->flash_at == folders));
	assert(rc != 0 || s->options.disks.weight_count == list_len(c->groups));
	return rc;
}

int node_setup_init(struct node_setup *s, const struct node_conf *c, struct strbuf *err)
{
	*s = (struct node_setup){0};
	strbuf_clear(err);
	int rc = setup_fill(s, c, err);
	if (rc != 0)
		node_setup_fini(s);
	return rc;
}

void node_setup_fini(struct node_setup *s)
{
	for (size_t i = 0; i < s->text_count; i++)
		free(s->texts[i]);
	free(s->texts);
	free(s->disks);
	free(s->folders);
	free(s->weights);
	*s = (struct node_setup){0};
}

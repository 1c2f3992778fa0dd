// SPDX-License-Identifier: Apache-2.0
/* Makes the parts of a box: ports, folders, settings. */
#include <arpa/inet.h>
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/name_sync.h"
#include "box/box.h"
#include "box/conf.h"

#define PORT_FIRST 10000
#define PORT_LAST 32000 /* the system gives higher ports to clients */
#define PORT_TRIES 200
#define DISK_NUMBERS 1000  /* disk 2 of node 3 is 3002 */
#define POOL_NUMBERS 900   /* pool 1 of node 3 is 3901 */
#define CACHE_NUMBERS 800  /* the cache of its first disk or pool is 3801 */
#define CACHE_RATE "64MiB" /* bytes per second that a cache may write */
#define FILE_LIMIT (4 * MIB)
#define CLAIM_MS 30000   /* time in which the lock of the folder must come */
#define CLAIM_STEP_MS 20 /* time between two tries */

/* --- ports -------------------------------------------------------------------------------------- */

static bool port_free(int64_t port)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t)port),
				 .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int one = 1;
	bool ok = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
		  bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0;
	if (fd >= 0)
		close(fd);
	return ok;
}

/* Chooses consecutive free ports: two for the metadata server and for each node, one for the janitor's metrics, and two for
 * each cache node. */
static int choose_ports(struct box_shape *s, struct strbuf *err)
{
	int64_t count = 2 * (s->nodes + 1) + 1 + 2 * s->cache_nodes;
	assert(count < PORT_LAST - PORT_FIRST);
	for (int i = 0; i < PORT_TRIES; i++) {
		uint32_t chance;
		if (getrandom(&chance, sizeof(chance), 0) != sizeof(chance))
			return -EIO;
		int64_t first = PORT_FIRST + chance % (PORT_LAST - PORT_FIRST - count);
		int64_t free = 0;
		while (free < count && port_free(first + free))
			free++;
		if (free == count) {
			s->port = first;
			return 0;
		}
	}
	strbuf_printf(err,
		      "cannot find %ld consecutive free ports from %d to %d; stop other servers",
		      count, PORT_FIRST, PORT_LAST);
	return -EADDRINUSE;
}

/* --- files -------------------------------------------------------------------------------------- */

static int make_dir(const struct box *b, const char *name)
{
	char path[BOX_PATH_MAX];
	int rc = box_path(b, path, "%s", name);
	return rc < 0 ? rc : mkdir(path, 0755) == 0 || errno == EEXIST ? 0 : -errno;
}

static int write_text(const struct box *b, const char *name, const struct strbuf *text)
{
	char path[BOX_PATH_MAX];
	int rc = box_path(b, path, "%s", name);
	int fd = rc == 0 ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : -1;
	if (fd < 0)
		return rc < 0 ? rc : -errno;
	ssize_t n = write(fd, text->text, text->len);
	rc = n == (ssize_t)text->len ? 0 : n < 0 ? -errno : -ENOSPC;
	if (rc == 0 && fsync(fd) < 0)
		rc = -errno;
	close(fd);
	return rc == 0 ? name_sync(path) : rc;
}

static void add_credentials(const struct box_shape *s, const char *name, struct strbuf *t)
{
	bool serves = strcmp(name, "janitor") != 0;
	if (s->security == BOX_SECURITY_ON)
		strbuf_printf(t, "[security]\ncredentials = keys/%s.key\ntls = %s\n%s%s%s", name,
			      s->tls == BOX_SECURITY_ON ? "on" : "off",
			      serves ? "audit = log/" : "", serves ? name : "",
			      serves ? ".audit\n" : "");
}

static void add_identities(const struct box *b, struct strbuf *t)
{
	char name[BOX_NAME_MAX];
	strbuf_puts(t, "identity = " BOX_ADMIN "\n");
	for (int64_t i = 1; box_role(b, i, name); i++)
		strbuf_printf(t, "identity = %s\n", name);
}

static int write_meta(const struct box *b)
{
	const struct box_shape *s = &b->shape;
	AUTO_STRBUF struct strbuf t;
	strbuf_init(&t, FILE_LIMIT);
	strbuf_printf(&t,
		      "[meta]\nlisten = 127.0.0.1:%ld\nmetrics = 127.0.0.1:%ld\nthreads = %s\n"
		      "[cluster]\nid = %s\ntenant = default\nnetwork = %s\n[store]\n",
		      s->port, s->port + s->nodes + 1, s->threads, s->cluster,
		      s->scheme != NULL && s->scheme[0] == 'c' ? "clustered" : "declustered");
	if (strncmp(s->metadata, "rados:", 6) == 0)
		strbuf_printf(&t, "engine = rados\nceph_conf = %s\nnamespace = %s\n",
			      s->metadata + 6, s->cluster);
	else
		strbuf_puts(&t, "engine = rocksdb\ndir = meta\n");
	add_credentials(s, "meta", &t);
	if (s->security == BOX_SECURITY_ON)
		add_identities(b, &t);
	int rc = strbuf_puts(&t, "[usage]\nevery = 15s\n[nodes]\nbeat = 500ms\nsuspect = 3s\n");
	return rc < 0 ? rc : write_text(b, "conf/meta.ini", &t);
}

static void add_disks(const struct box_shape *s, int64_t node, struct strbuf *t)
{
	static const char *const places[] = {
		['c'] = "clustered", ['d'] = "declustered", ['s'] = "single-overlap"};
	char emulate[32] = "", flash[48] = "media=flash ";
	if (s->emulate != BOX_NONE) {
		snprintf(emulate, sizeof(emulate), "emulate=%s ", box_speeds[s->emulate]);
		snprintf(flash, sizeof(flash), "media=flash emulate=%s ", box_speeds[BOX_NVME]);
	}
	int64_t pools = box_pool_count(s), base = node * DISK_NUMBERS;
	for (int64_t p = 1; p <= pools; p++)
		strbuf_printf(t, "pool = %ld %s %s %s\n", base + POOL_NUMBERS + p, s->pools,
			      places[(unsigned char)s->scheme[2]], emulate);
	for (int64_t d = 1; d <= s->disks; d++) {
		if (pools > 0)
			strbuf_printf(t, "member = %ld %ld disks/node-%ld/%ld\n",
				      base + POOL_NUMBERS + 1 + (d - 1) / (s->disks / pools),
				      base + d, node, d);
		else
			strbuf_printf(t, "disk = %ld %sdisks/node-%ld/%ld\n", base + d,
				      d > s->disks - s->flash ? flash : emulate, node, d);
	}
}

/* Adds a cache for each disk or pool that is not flash. */
static void add_caches(const struct box_shape *s, int64_t node, struct strbuf *t)
{
	int64_t pools = box_pool_count(s), base = node * DISK_NUMBERS;
	int64_t n = pools > 0 ? pools : s->disks - s->flash;
	for (int64_t i = 1; s->node_flash > 0 && i <= n; i++)
		strbuf_printf(t, "flash = %ld %ld %lu %s flash/node-%ld/%ld\n",
			      base + (pools > 0 ? POOL_NUMBERS : 0) + i, base + CACHE_NUMBERS + i,
			      s->node_flash / (uint64_t)n, CACHE_RATE, node, i);
}

static int write_node(const struct box *b, int64_t node)
{
	const struct box_shape *s = &b->shape;
	char name[64];
	AUTO_STRBUF struct strbuf t;
	strbuf_init(&t, FILE_LIMIT);
	strbuf_printf(&t,
		      "[node]\ncluster = %s\nid = %ld\nname = node-%ld\nrack = rack-%ld\n"
		      "listen = 127.0.0.1:%ld\nmetrics = 127.0.0.1:%ld\n"
		      "metadata = 127.0.0.1:%ld\nmemory = 128MiB\nthreads = %s\n"
		      "[disks]\nkind = %s\nkeep_free = 256MiB\nsharers = %ld\nprobe = 2s\n",
		      s->cluster, node, node, box_rack_of(s, node), s->port + node,
		      s->port + s->nodes + 1 + node, s->port, s->threads,
		      s->emulate == BOX_NONE ? "nvme" : box_speeds[s->emulate],
		      s->nodes * s->disks);
	/* With these methods the janitor also rebuilds chunks that the pool could rebuild itself. */
	if (s->repair != NULL &&
	    (strcmp(s->repair, "r_all") == 0 || strcmp(s->repair, "r_fco") == 0))
		strbuf_printf(&t, "repair = outside\n");
	add_disks(s, node, &t);
	add_caches(s, node, &t);
	snprintf(name, sizeof(name), "node-%ld", node);
	add_credentials(s, name, &t);
	int rc = strbuf_puts(&t, "");
	snprintf(name, sizeof(name), "conf/node-%ld.ini", node);
	return rc < 0 ? rc : write_text(b, name, &t);
}

/*
 * Writes the settings of the janitor. Its times are shorter than the defaults, so that a user sees a box repair itself.
 */
static int write_janitor(const struct box *b)
{
	const struct box_shape *s = &b->shape;
	bool has_method = s->repair != NULL && s->repair[0] != 0;
	AUTO_STRBUF struct strbuf t;
	strbuf_init(&t, FILE_LIMIT);
	int rc = strbuf_printf(&t,
			       "[janitor]\nmetadata = 127.0.0.1:%ld\nmetrics = 127.0.0.1:%ld\n"
			       "memory = 256MiB\nlease = 20s\nround = 5s\nthreads = %s\n"
			       "[collection]\ngrace = 5m\norphans = 10m\n"
			       "[repair]\ndelay = 1m\nlook = 15s\n%s%s%s"
			       "[survey]\nperiod = 15s\n",
			       s->port, s->port + 2 * (s->nodes + 1), s->threads,
			       has_method ? "method = " : "", has_method ? s->repair : "",
			       has_method ? "\n" : "");
	if (rc == 0)
		add_credentials(s, "janitor", &t);
	rc = strbuf_puts(&t, "");
	return rc < 0 ? rc : write_text(b, "conf/janitor.ini", &t);
}

/* Writes the settings of cache node i, from 1, and makes the folder of its flash. */
static int write_cache_node(const struct box *b, int64_t i)
{
	const struct box_shape *s = &b->shape;
	char name[64];
	int64_t node = s->nodes + i, port = s->port + 2 * (s->nodes + 1) + 2 * i - 1;
	AUTO_STRBUF struct strbuf t;
	strbuf_init(&t, FILE_LIMIT);
	strbuf_printf(&t,
		      "[cache]\ncluster = %s\nid = %ld\nname = cache-%ld\nrack = rack-%ld\n"
		      "listen = 127.0.0.1:%ld\nmetrics = 127.0.0.1:%ld\n"
		      "metadata = 127.0.0.1:%ld\nmemory = 64MiB\ndram = 16MiB\n"
		      "path = cache/cache-%ld\nflash = %lu\n",
		      s->cluster, node, node, (i - 1) % s->racks + 1, port, port + 1, s->port, node,
		      s->cache_flash);
	snprintf(name, sizeof(name), "cache-%ld", node);
	add_credentials(s, name, &t);
	int rc = strbuf_puts(&t, "");
	if (rc == 0)
		rc = make_dir(b, "cache");
	snprintf(name, sizeof(name), "conf/cache-%ld.ini", node);
	return rc < 0 ? rc : write_text(b, name, &t);
}

static int make_disks(const struct box *b, int64_t node)
{
	char name[64];
	snprintf(name, sizeof(name), "disks/node-%ld", node);
	int rc = make_dir(b, name);
	for (int64_t d = 1; rc == 0 && d <= b->shape.disks; d++) {
		snprintf(name, sizeof(name), "disks/node-%ld/%ld", node, d);
		rc = make_dir(b, name);
	}
	for (int64_t d = 1; rc == 0 && b->shape.node_flash > 0 && d <= b->shape.disks; d++) {
		if (d == 1)
			rc = make_dir(b, "flash");
		snprintf(name, sizeof(name), "flash/node-%ld", node);
		if (rc == 0 && d == 1)
			rc = make_dir(b, name);
		snprintf(name, sizeof(name), "flash/node-%ld/%ld", node, d);
		if (rc == 0)
			rc = make_dir(b, name);
	}
	return rc;
}

static int write_cluster(const struct box *b)
{
	const struct box_shape *s = &b->shape;
	AUTO_STRBUF struct strbuf t;
	strbuf_init(&t, FILE_LIMIT);
	int rc = strbuf_printf(
		&t,
		"[cluster]\nid = %s\nmetadata = 127.0.0.1:%ld\n%s%s"
		"[client]\ntenant = default\nencoding = %s\n",
		s->cluster, s->port,
		s->security == BOX_SECURITY_ON ? "credentials = keys/" BOX_ADMIN ".key\n" : "",
		s->security == BOX_SECURITY_OFF ? ""
		: s->tls == BOX_SECURITY_ON     ? "tls = on\n"
						: "tls = off\n",
		s->encoding);
	return rc < 0 ? rc : write_text(b, "cluster.ini", &t);
}

static int write_shape(const struct box *b)
{
	assert(strlen(b->shape.cluster) == 32 && b->shape.port != 0);
	AUTO_STRBUF struct strbuf t;
	strbuf_init(&t, FILE_LIMIT);
	int rc = conf_show(box_schema, box_schema_count, &b->shape, &t);
	return rc < 0 ? rc : write_text(b, "box.ini.part", &t);
}

/* --- making a box ---------------------------------------------------------------------------------- */

bool box_may_make(const struct box *b)
{
	char path[BOX_PATH_MAX];
	if (box_path(b, path, "box.ini.part") == 0 && access(path, F_OK) == 0)
		return true;
	DIR *d = opendir(b->dir);
	struct dirent *e;
	bool empty = true;
	// cppcheck-suppress readdirCalled ; a stream of our own
	while (d != NULL && empty && (e = readdir(d)) != NULL)
		empty = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
	if (d != NULL)
		closedir(d);
	return d != NULL && empty;
}

/* Loads the shape of an incomplete box, whose disks may have the cluster's id already. -ENOENT: the folder has no
 * incomplete box. */
static int resume(struct box *b, struct strbuf *err)
{
	char path[BOX_PATH_MAX];
	struct box_shape begun = {0};
	int rc = box_path(b, path, "box.ini.part");
	if (rc < 0 || access(path, F_OK) < 0)
		return rc < 0 ? rc : -ENOENT;
	rc = conf_load(path, box_schema, box_schema_count, &begun, err);
	if (rc < 0) {
		/* The file is incomplete. Its write was the first step, so nothing else of the box exists. */
		strbuf_clear(err);
		return -ENOENT;
	}
	box_free(b);
	b->shape = begun;
	return 0;
}

static int draw_id(struct box_shape *s)
{
	assert(s->cluster == NULL);
	uint8_t raw[16];
	if (getrandom(raw, sizeof(raw), 0) != sizeof(raw))
		return -EIO;
	s->cluster = malloc(2 * sizeof(raw) + 1);
	if (s->cluster == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < sizeof(raw); i++)
		snprintf(s->cluster + 2 * i, 3, "%02x", raw[i]);
	return 0;
}

static int make_folders(const struct box *b)
{
	static const char *const names[] = {"conf", "disks", "log", "run"};
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(names); i++)
		rc = make_dir(b, names[i]);
	return rc;
}

/* Chooses ports and makes folders and settings. Each step accepts what exists already. */
static int make_files(struct box *b, struct strbuf *err)
{
	int rc = resume(b, err);
	if (rc == -ENOENT) {
		rc = draw_id(&b->shape);
		if (rc == 0)
			rc = choose_ports(&b->shape, err);
		if (rc == 0)
			rc = write_shape(b);
	}
	if (rc == 0)
		rc = make_folders(b);
	if (rc == 0 && b->shape.security == BOX_SECURITY_ON)
		rc = box_keys_make(b, err);
	if (rc == 0)
		rc = write_meta(b);
	for (int64_t node = 1; rc == 0 && node <= b->shape.nodes; node++) {
		rc = write_node(b, node);
		if (rc == 0)
			rc = make_disks(b, node);
	}
	if (rc == 0)
		rc = write_janitor(b);
	for (int64_t i = 1; rc == 0 && i <= b->shape.cache_nodes; i++)
		rc = write_cache_node(b, i);
	if (rc == 0)
		rc = write_cluster(b);
	if (rc < 0 && err->len == 0)
		strbuf_printf(err, "cannot make %s: %s", b->dir, err_text(rc));
	return rc;
}

/* Renames box.ini.part to box.ini as the last step, so that a box with a box.ini is complete; makes all names in its
 * folder durable, and its own. */
static int make_done(const struct box *b)
{
	char part[BOX_PATH_MAX], path[BOX_PATH_MAX];
	int rc = box_path(b, part, "box.ini.part");
	if (rc == 0)
		rc = box_path(b, path, "box.ini");
	if (rc == 0 && rename(part, path) < 0)
		rc = -errno;
	if (rc == 0)
		rc = name_sync(path);
	return rc == 0 ? name_sync(b->dir) : rc;
}

int box_make(struct box *b, struct strbuf *err)
{
	assert(b->shape.encoding != NULL && b->shape.metadata != NULL); /* settled */
	int rc = make_files(b, err);
	if (rc == 0)
		rc = box_format(b, err);
	return rc == 0 ? make_done(b) : rc;
}

/* --- its folder --------------------------------------------------------------------------------- */

static int make_parents(const char *dir)
{
	char path[BOX_PATH_MAX];
	if (snprintf(path, sizeof(path), "%s", dir) >= BOX_PATH_MAX)
		return -ENAMETOOLONG;
	for (char *at = path + 1;; at++) {
		char was = *at;
		if (was != '/' && was != 0)
			continue;
		*at = 0;
		if (mkdir(path, 0755) < 0 && errno != EEXIST)
			return -errno;
		*at = was;
		if (was == 0)
			return 0;
	}
}

static int lock_folder(struct box *b)
{
	b->claim = open(b->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (b->claim < 0)
		return -errno;
	for (int ms = 0; flock(b->claim, LOCK_EX | LOCK_NB) < 0; ms += CLAIM_STEP_MS) {
		if (errno != EWOULDBLOCK || ms >= CLAIM_MS)
			return -errno;
		nanosleep(&(struct timespec){.tv_nsec = CLAIM_STEP_MS * 1000000L}, NULL);
	}
	return 0;
}

int box_claim(struct box *b, const char *dir, struct strbuf *err)
{
	int rc = make_parents(dir);
	if (rc < 0) {
		strbuf_printf(err, "cannot make %s: %s", dir, err_text(rc));
		return rc;
	}
	AUTO_FREE char *real = realpath(dir, NULL);
	if (real == NULL || strlen(real) + 64 > BOX_PATH_MAX) {
		strbuf_printf(err, "cannot use %s as the folder of a cluster: its path is too long",
			      dir);
		return -EINVAL;
	}
	memcpy(b->dir, real, strlen(real) + 1);
	rc = lock_folder(b);
	if (rc < 0)
		strbuf_printf(err, "cannot lock %s: %s", dir,
			      rc == -EWOULDBLOCK ? "another \"terrane up\" works on it"
						 : err_text(rc));
	return rc;
}

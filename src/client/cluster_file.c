// SPDX-License-Identifier: Apache-2.0
#include "client/cluster_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auth/credentials.h"
#include "base/base.h"
#include "base/context.h"
#include "client/cache_tier.h"
#include "secure/secure.h"
#include "secure/tls.h"

static const char *const classes[] = {"gold", "silver", "bronze", NULL};

const struct conf_key cluster_file_schema[] = {
	CONF_STRING(
		"cluster", "id", struct cluster_file, id, "", 0, 32,
		"the cluster's id, 32 hexadecimal digits: servers of another cluster are refused"),
	CONF_STRING("cluster", "metadata", struct cluster_file, metadata, NULL, 1, 4096,
		    "comma-separated addresses of the metadata servers"),
	CONF_STRING("cluster", "credentials", struct cluster_file, credentials, "", 0, 1024,
		    "file with the credentials of the client, which only its owner may read; "
		    "relative to this file; $TERRANE_KEY_FILE overrides it; empty: none"),
	CONF_STRING("cluster", "certificates", struct cluster_file, certificates, "", 0, 1024,
		    "file in PEM with the certificates of trusted authorities; relative to this "
		    "file; empty: those in the credentials"),
	CONF_CHOICE("cluster", "tls", struct cluster_file, tls, "auto", tls_modes,
		    "auto: connections use TLS if there are certificates; on: there must be; off: "
		    "for trusted networks, connections are authenticated only"),
	CONF_STRING("client", "tenant", struct cluster_file, tenant, "default", 1, 64,
		    "the tenant whose files to use"),
	CONF_STRING("client", "traffic_group", struct cluster_file, traffic_group, "", 0, 63,
		    "the traffic group that requests are counted in"),
	CONF_CHOICE("client", "traffic_class", struct cluster_file, traffic_class, "silver",
		    classes, "the priority of requests at the disks"),
	CONF_STRING("client", "encoding", struct cluster_file, encoding, "rs:4+2", 1, 31,
		    "encoding of files that name none"),
	CONF_SIZE("client", "block", struct cluster_file, block_bytes, "64MiB", 64LL * 1024,
		  64LL * 1024 * 1024, "block size of files that name none"),
	CONF_STRING("client", "threads", struct cluster_file, threads, "auto", 1, 4,
		    "threads of the library; auto: the processors that the process may use, at "
		    "most 16"),
	CONF_BOOL("cache", "use", struct cluster_file, cache, "true",
		  "ask cache nodes, if the cluster has any, before the disks"),
	CONF_DURATION("cache", "timeout", struct cluster_file, cache_timeout_ns, "50ms", NS_PER_MS,
		      60 * NS_PER_S,
		      "a cache node that is silent for so long is slow: the disks are read"),
	CONF_DURATION("cache", "pause", struct cluster_file, cache_pause_ns, "5s", NS_PER_MS,
		      3600 * NS_PER_S, "time for which a slow or dead cache node is not asked"),
	CONF_STRING("cache", "classes", struct cluster_file, cache_classes, "", 0, 63,
		    "traffic classes that may use cache nodes: gold, silver, bronze; empty: all"),
	CONF_STRING("cache", "directories", struct cluster_file, cache_directories, "", 0, 1200,
		    "ids of the directories whose data may use cache nodes, in hexadecimal; empty: "
		    "all"),
	CONF_SIZE("cache", "content_min", struct cluster_file, cache_content_min, "128KiB", 1,
		  4LL * 1024 * 1024,
		  "smallest samples that tenants share by content (terrane tenant share): half a "
		  "segment of the cache nodes or more, since each takes whole segments"),
};
const size_t cluster_file_keys = ARRAY_LEN(cluster_file_schema);

/* Makes a path that is relative to the folder of the file one that is not. */
static int make_full(char **field, const char *file)
{
	const char *slash = strrchr(file, '/');
	char *full = NULL;
	if ((*field)[0] == '\0' || (*field)[0] == '/' || slash == NULL)
		return 0;
	if (asprintf(&full, "%.*s/%s", (int)(slash - file), file, *field) < 0)
		return -ENOMEM;
	free(*field);
	*field = full;
	return 0;
}

int cluster_file_load(struct cluster_file *f, const char *path, struct strbuf *err)
{
	if (path == NULL)
		path = getenv(CLUSTER_FILE_ENV);
	if (path == NULL || path[0] == '\0')
		path = CLUSTER_FILE_NAME;
	AUTO_FREE char *inside = NULL;
	struct stat st;
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
		if (asprintf(&inside, "%s/" CLUSTER_FILE_NAME, path) < 0)
			return -ENOMEM;
		path = inside;
	}
	if (access(path, F_OK) < 0 && errno == ENOENT) {
		strbuf_printf(err,
			      "%s does not exist; name the cluster file, or the folder of a "
			      "cluster, with "
			      "-c or in $" CLUSTER_FILE_ENV
			      ", or make a cluster with \"terrane up --dir DIR\"",
			      path);
		return -ENOENT;
	}
	int rc = conf_load(path, cluster_file_schema, cluster_file_keys, f, err);
	if (rc < 0)
		return rc;
	rc = make_full(&f->credentials, path);
	if (rc == 0)
		rc = make_full(&f->certificates, path);
	if (rc < 0)
		cluster_file_free(f);
	return rc;
}

int cluster_file_self(const struct cluster_file *f, struct secure_self *out, struct strbuf *err)
{
	uint64_t high, low;
	const char *path = getenv(CREDENTIALS_ENV);
	*out = (struct secure_self){0};
	if (path == NULL || path[0] == '\0')
		path = f->credentials;
	if (path[0] == '\0')
		return 0;
	int rc = secure_self_load(out, path, err);
	if (rc < 0)
		return rc;
	const struct credentials *c = out->credentials;
	bool any = cluster_file_id(f, &high, &low) < 0 || (high == 0 && low == 0);
	if (any || (c->cluster_high == high && c->cluster_low == low)) {
		rc = secure_self_tls(out,
				     &(struct secure_settings){.tls = f->tls,
							       .credentials = path,
							       .certificates = f->certificates},
				     err);
		if (rc < 0)
			secure_self_close(out);
		return rc;
	}
	strbuf_printf(err, "%s: credentials of another cluster than the cluster file names", path);
	secure_self_close(out);
	return -EINVAL;
}

const struct secure_self *cluster_file_channel(const struct secure_self *self)
{
	return self->credentials != NULL ? self : NULL;
}

void cluster_file_free(struct cluster_file *f)
{
	conf_free(cluster_file_schema, cluster_file_keys, f);
}

int cluster_file_id(const struct cluster_file *f, uint64_t *high, uint64_t *low)
{
	char half[17];
	*high = 0;
	*low = 0;
	if (f->id[0] == '\0')
		return 0;
	if (strlen(f->id) != 32 || strspn(f->id, "0123456789abcdef") != 32)
		return -EINVAL;
	memcpy(half, f->id, 16);
	half[16] = '\0';
	*high = strtoull(half, NULL, 16);
	*low = strtoull(f->id + 16, NULL, 16);
	return 0;
}

static int refuse_word(struct strbuf *err, const char *key, const char *word)
{
	strbuf_clear(err);
	strbuf_printf(err, "[cache] %s: \"%.40s\" is not allowed here", key, word);
	return -EINVAL;
}

static int take_class(struct cache_tier_options *o, const char *word, struct strbuf *err)
{
	for (size_t i = 0; classes[i] != NULL; i++) {
		if (strcmp(word, classes[i]) == 0) {
			o->classes |= 1u << (TRAFFIC_GOLD + i);
			return 0;
		}
	}
	return refuse_word(err, "classes", word);
}

int cluster_file_cache(const struct cluster_file *f, uint64_t *directories,
		       struct cache_tier_options *out, struct strbuf *err)
{
	AUTO_FREE char *names = strdup(f->cache_classes);
	AUTO_FREE char *ids = strdup(f->cache_directories);
	char *save = NULL, *end;
	int rc = 0;
	if (names == NULL || ids == NULL)
		return -ENOMEM;
	*out = (struct cache_tier_options){.timeout_ns = f->cache_timeout_ns,
					   .pause_ns = f->cache_pause_ns,
					   .content_bytes_min = f->cache_content_min,
					   .directories = directories};
	for (char *w = strtok_r(names, ", ", &save); rc == 0 && w != NULL;
	     w = strtok_r(NULL, ", ", &save))
		rc = take_class(out, w, err);
	for (char *w = strtok_r(ids, ", ", &save); rc == 0 && w != NULL;
	     w = strtok_r(NULL, ", ", &save)) {
		uint64_t id = strtoull(w, &end, 16);
		if (*end != '\0' || id == 0 || out->directory_count == CACHE_TIER_DIRECTORIES_MAX)
			return refuse_word(err, "directories", w);
		directories[out->directory_count++] = id;
	}
	return rc;
}

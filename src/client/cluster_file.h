// SPDX-License-Identifier: Apache-2.0
/* The file that describes a cluster to its clients. */
#ifndef CLIENT_CLUSTER_FILE_H
#define CLIENT_CLUSTER_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/conf.h"
#include "base/strbuf.h"

struct secure_self;

#define CLUSTER_FILE_NAME "cluster.ini"
#define CLUSTER_FILE_ENV "TERRANE_CLUSTER"

struct cluster_file {
	char *id;           /* cluster id, 32 hexadecimal digits; empty: any cluster */
	char *metadata;     /* comma-separated addresses of the metadata servers */
	char *credentials;  /* path of a file (auth/credentials.h); empty: none */
	char *certificates; /* path of a file in PEM; empty: those in the credentials */
	int tls;            /* enum tls_mode */
	char *tenant;
	char *traffic_group;
	int traffic_class; /* 0 gold, 1 silver, 2 bronze */
	char *encoding;
	uint64_t block_bytes;
	char *threads; /* number of loops, or "auto" */
	/* reads through cache nodes (cache_tier.h) */
	bool cache;
	uint64_t cache_timeout_ns;
	uint64_t cache_pause_ns;
	char *cache_classes;     /* names of traffic classes; empty: all */
	char *cache_directories; /* ids of directories; empty: all */
	uint64_t cache_content_min;
};

struct cache_tier_options;
/* Makes the options of the tier; directories has room for CACHE_TIER_DIRECTORIES_MAX. -EINVAL with one line in err. */
int cluster_file_cache(const struct cluster_file *f, uint64_t *directories,
		       struct cache_tier_options *out, struct strbuf *err);

extern const struct conf_key cluster_file_schema[];
extern const size_t cluster_file_keys;

/* Loads `path`, else the file that $TERRANE_CLUSTER names, else ./cluster.ini. -ENOENT, -EINVAL
 * and errors of reading a file, with one line in err. */
int cluster_file_load(struct cluster_file *f, const char *path, struct strbuf *err);
void cluster_file_free(struct cluster_file *f);

/* Loads the credentials that $TERRANE_KEY_FILE or else the cluster file names; *out is empty if neither does. The caller
 * closes *out. Errors of credentials_load, with one line in err; -EINVAL: they are for another cluster. */
int cluster_file_self(const struct cluster_file *f, struct secure_self *out, struct strbuf *err);
/* Returns what channels take: NULL without credentials. */
const struct secure_self *cluster_file_channel(const struct secure_self *self);

/* Parses the cluster id of 32 hexadecimal digits; an empty id gives 0. -EINVAL: it is neither. */
int cluster_file_id(const struct cluster_file *f, uint64_t *high, uint64_t *low);

#endif

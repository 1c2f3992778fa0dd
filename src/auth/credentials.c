// SPDX-License-Identifier: Apache-2.0
#include "auth/credentials.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "auth/secret.h"

#define FIRST_LINE "terrane-credentials 1"

struct parser {
	const char *at, *end;
	unsigned line;
	const char *name;
	struct strbuf *err;
	unsigned seen; /* set of the keys that were read */
};

struct credentials *credentials_new(void)
{
	return secret_alloc(sizeof(struct credentials));
}

void credentials_free(struct credentials *c)
{
	secret_free(c, sizeof(*c));
}

/* what must be a constant: bytes of the file are not repeated, because they may be the secret */
static int refuse(const struct parser *p, const char *what)
{
	(void)strbuf_printf(p->err, "%s:%u: %s", p->name, p->line, what);
	return -EINVAL;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int hex_read(const char *text, size_t len, uint8_t *out, size_t bytes)
{
	if (len != 2 * bytes)
		return -EINVAL;
	for (size_t i = 0; i < bytes; i++) {
		int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
		if (high < 0 || low < 0)
			return -EINVAL;
		out[i] = (uint8_t)(high << 4 | low);
	}
	return 0;
}

static uint64_t big_endian(const uint8_t *bytes)
{
	uint64_t v = 0;
	for (int i = 0; i < 8; i++)
		v = v << 8 | bytes[i];
	return v;
}

static int read_cluster(struct credentials *c, const char *v, size_t len)
{
	uint8_t id[16];
	if (hex_read(v, len, id, sizeof(id)) < 0)
		return -EINVAL;
	c->cluster_high = big_endian(id);
	c->cluster_low = big_endian(id + 8);
	return c->cluster_high == 0 && c->cluster_low == 0 ? -EINVAL : 0;
}

static int read_identity(struct credentials *c, const char *v, size_t len)
{
	if (len == 0 || len > IDENTITY_NAME_MAX || memchr(v, 0, len) != NULL)
		return -EINVAL;
	memcpy(c->identity, v, len);
	c->identity[len] = 0;
	return identity_name_check(c->identity);
}

static int read_version(struct credentials *c, const char *v, size_t len)
{
	uint64_t n = 0;
	if (len == 0 || len > 10)
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		if (v[i] < '0' || v[i] > '9')
			return -EINVAL;
		n = n * 10 + (uint64_t)(v[i] - '0');
	}
	c->version = (uint32_t)n;
	return n == 0 || n > UINT32_MAX ? -EINVAL : 0;
}

static int read_secret(struct credentials *c, const char *v, size_t len)
{
	return hex_read(v, len, c->secret, sizeof(c->secret));
}

static const struct {
	const char *name;
	int (*read)(struct credentials *c, const char *value, size_t len);
	const char *fault;
} keys[] = {
	{"cluster", read_cluster, "cluster must be 32 hexadecimal digits, not all 0"},
	{"identity", read_identity, "identity must be the name of a user or service"},
	{"version", read_version, "version must be a number from 1 to 4294967295"},
	{"secret", read_secret, "secret must be 64 hexadecimal digits, in lower case"},
};

static bool next_line(struct parser *p, const char **line, size_t *len)
{
	if (p->at == p->end)
		return false;
	const char *newline = memchr(p->at, '\n', (size_t)(p->end - p->at));
	*line = p->at;
	*len = (size_t)((newline == NULL ? p->end : newline) - p->at);
	p->at = newline == NULL ? p->end : newline + 1;
	p->line++;
	return true;
}

static int parse_key(struct parser *p, struct credentials *c, const char *line, size_t len)
{
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		size_t n = strlen(keys[i].name);
		if (len < n + 3 || memcmp(line, keys[i].name, n) != 0 ||
		    memcmp(line + n, " = ", 3) != 0)
			continue;
		if ((p->seen & 1U << i) != 0)
			return refuse(p, "the key is set twice");
		p->seen |= 1U << i;
		return keys[i].read(c, line + n + 3, len - n - 3) < 0 ? refuse(p, keys[i].fault)
								      : 0;
	}
	return refuse(p, "expected cluster, identity, version or secret, as in \"version = 1\"");
}

static int parse_pem(struct parser *p, struct credentials *c)
{
	size_t len = (size_t)(p->end - p->at);
	p->line++;
	if (len == 0)
		return 0;
	if (len > CREDENTIALS_PEM_MAX)
		return refuse(p, "the certificates are too long");
	if (memchr(p->at, 0, len) != NULL || len < 11 || memcmp(p->at, "-----BEGIN ", 11) != 0)
		return refuse(p, "expected certificates in PEM after the empty line");
	memcpy(c->pem, p->at, len);
	c->pem[len] = 0;
	c->pem_len = len;
	return 0;
}

static int parse(struct parser *p, struct credentials *c)
{
	const char *line;
	size_t len;
	if (!next_line(p, &line, &len) || len != strlen(FIRST_LINE) ||
	    memcmp(line, FIRST_LINE, len) != 0)
		return refuse(p, "no credentials: the first line must be " FIRST_LINE);
	while (next_line(p, &line, &len) && len > 0) {
		int rc = parse_key(p, c, line, len);
		if (rc < 0)
			return rc;
	}
	if (p->seen != (1U << ARRAY_LEN(keys)) - 1)
		return refuse(p, "cluster, identity, version and secret must all be set");
	return parse_pem(p, c);
}

int credentials_parse(struct credentials **out, const char *text, size_t len, const char *name,
		      struct strbuf *err)
{
	struct parser p = {.at = text, .end = text + len, .name = name, .err = err};
	struct credentials *c = credentials_new();
	*out = NULL;
	if (c == NULL)
		return -ENOMEM;
	int rc = parse(&p, c);
	if (rc < 0) {
		credentials_free(c);
		return rc;
	}
	*out = c;
	return 0;
}

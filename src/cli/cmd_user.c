// SPDX-License-Identifier: Apache-2.0
/* terrane user: identities of users and services, their credentials and grants. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "auth/credentials.h"
#include "auth/secret.h"
#include "base/err.h"
#include "base/json.h"
#include "base/name_sync.h"
#include "cli/admin.h"
#include "cli/cli.h"
#include "meta_api/id.h"
#include "meta_client/identity.h"
#include "secure/tls.h"

static const char usage_text[] =
	"usage: terrane user list [options]\n"
	"       terrane user show NAME [options]\n"
	"       terrane user add NAME [--role ROLE] [--tenant TENANT] [--path PREFIX]\n"
	"                             [--key FILE] [--authority FILE] [options]\n"
	"       terrane user grant NAME --role ROLE [--tenant TENANT] [--path PREFIX]\n"
	"       terrane user revoke NAME GRANT [options]\n"
	"       terrane user rotate NAME [--key FILE] [--authority FILE] [options]\n"
	"       terrane user disable|enable NAME [options]\n"
	"       terrane user remove NAME [options]\n"
	"\n"
	"A user may do what its grants allow, and nothing else. add and rotate write the\n"
	"user's credentials to a file; old credentials are refused from then on. Give the\n"
	"file to the user, whose programs name it in $TERRANE_KEY_FILE.\n"
	"\n"
	"  --role ROLE         read-only, read-write or tenant-admin in a tenant; operator of\n"
	"                      the cluster; node, cache or janitor for a service of the cluster,\n"
	"                      whose NAME is node-NUMBER, cache-NUMBER or janitor\n"
	"  --tenant TENANT     tenant of the role (default: that of the cluster file)\n"
	"  --path PREFIX       the role holds for this path and below (default /)\n"
	"  --key FILE          file for the credentials (default NAME.key); add refuses one that\n"
	"                      exists, rotate replaces it\n"
	"  --authority FILE    certificate and private key of the authority of the cluster\n"
	"                      (keys/authority.pem): the credentials get a certificate of their\n"
	"                      own, which a service needs for TLS\n"
	"  -c, --cluster FILE  the cluster file (default: $TERRANE_CLUSTER, else ./cluster.ini)\n"
	"  --dir DIR           the cluster in this folder\n"
	"  --json              print JSON\n";

#define KEY_PATH_MAX 4096
#define CERTIFICATE_DAYS 730

struct asked {
	const char *name, *role, *tenant, *path, *key, *authority;
	uint64_t grant;
	enum identity_change change;
	bool json;
	json_t *all;      /* array to fill; NULL: print text */
	uint32_t version; /* of the credentials of `name`; 0: there is no such user */
	int shown;
};

static int failed(const struct meta_call *c, int rc, const char *name)
{
	return cli_fail("user %s: %s", name, c->error[0] != 0 ? c->error : err_text(rc));
}

/* --- showing ----------------------------------------------------------------------------------- */

static json_t *grants_json(const Terrane__Meta__Identity *m)
{
	json_t *all = json_array();
	for (size_t i = 0; i < m->n_grants; i++)
		json_array_append_new(
			all,
			json_pack("{s:I, s:s, s:I, s:o}", "id", (json_int_t)m->grants[i]->id,
				  "role", m->grants[i]->role, "tenant",
				  (json_int_t)m->grants[i]->tenant, "path",
				  json_text(m->grants[i]->prefix, strlen(m->grants[i]->prefix))));
	return all;
}

static void print_user(const Terrane__Meta__Identity *m)
{
	printf("%-24s %11u  %s\n", m->name, m->version, m->disabled ? "disabled" : "");
	for (size_t i = 0; i < m->n_grants; i++) {
		const Terrane__Meta__IdentityGrant *g = m->grants[i];
		printf("  grant %-20" PRIu64 " %s", g->id, g->role);
		if (g->tenant != 0)
			printf(" of tenant %u below %s", g->tenant, g->prefix);
		printf("\n");
	}
}

static int show_one(void *ctx, const Terrane__Meta__Identity *m)
{
	struct asked *q = ctx;
	if (q->name != NULL && strcmp(q->name, m->name) != 0)
		return 0;
	if (q->shown++ == 0 && q->all == NULL)
		printf("%-24s %11s\n", "user", "credentials");
	if (q->all == NULL)
		print_user(m);
	else
		json_array_append_new(q->all,
				      json_pack("{s:s, s:I, s:b, s:o}", "name", m->name, "version",
						(json_int_t)m->version, "disabled",
						(int)m->disabled, "grants", grants_json(m)));
	return 0;
}

static int run_show(struct admin *a)
{
	struct asked *q = a->ctx;
	struct meta_call c = {.client = a->client};
	AUTO_JSON json_t *all = q->json ? json_array() : NULL;
	q->all = all;
	int rc = meta_client_identity_list(&c, show_one, q);
	if (rc < 0)
		return cli_fail("cannot list the users: %s",
				c.error[0] != 0 ? c.error : err_text(rc));
	if (q->name != NULL && q->shown == 0)
		return cli_fail("there is no user %s", q->name);
	if (!q->json)
		return CLI_OK;
	const json_t *out = q->name != NULL ? json_array_get(all, 0) : all;
	return json_emit(stdout, out) < 0 ? cli_fail("cannot write the output") : CLI_OK;
}

static int find_version(void *ctx, const Terrane__Meta__Identity *m)
{
	struct asked *q = ctx;
	if (strcmp(q->name, m->name) == 0)
		q->version = m->version;
	return 0;
}

/* --- credentials --------------------------------------------------------------------------------- */

static int key_path(const struct asked *q, char out[KEY_PATH_MAX])
{
	int n = q->key != NULL ? snprintf(out, KEY_PATH_MAX, "%s", q->key)
			       : snprintf(out, KEY_PATH_MAX, "%s.key", q->name);
	return n > 0 && n < KEY_PATH_MAX - 8 ? 0 : -ENAMETOOLONG;
}

/* Gives credentials the certificates of authorities that the own ones have. */
static int copy_trusted(const struct credentials *own, struct credentials *c)
{
	char public[TLS_PEM_MAX];
	int rc = tls_public_part(own->pem, public);
	if (rc == 0)
		c->pem_len = (size_t)snprintf(c->pem, sizeof(c->pem), "%s", public);
	return rc;
}

/* Gives credentials a certificate that the authority signs. */
static int sign(const struct asked *q, struct credentials *c)
{
	char own[TLS_PEM_MAX] = "", public[TLS_PEM_MAX];
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 4096);
	char *text = secret_alloc(CREDENTIALS_BYTES_MAX + 1);
	int64_t len = text == NULL ? -ENOMEM : credentials_read(q->authority, text, &err);
	int rc = len < 0 ? (int)len : 0;
	if (rc == 0) {
		text[len] = '\0';
		rc = tls_make_certificate(text, q->name, time(NULL), CERTIFICATE_DAYS, own);
	}
	if (rc == 0)
		rc = tls_public_part(text, public);
	if (rc == 0)
		c->pem_len = (size_t)snprintf(c->pem, sizeof(c->pem), "%s%s", own, public);
	secret_free(text, CREDENTIALS_BYTES_MAX + 1);
	secret_wipe(own, sizeof(own));
	if (rc < 0 && err.len > 0)
		cli_fail("%s", strbuf_text(&err));
	else if (rc < 0)
		cli_fail("%s: cannot sign with this authority: %s", q->authority, err_text(rc));
	return rc;
}

/* Decrypts the secret of an answer, which is for the identity of this command. */
static int fill(const struct admin *a, const struct asked *q,
		const struct meta_identity_changed *answer, struct credentials *c)
{
	char purpose[sizeof(IDENTITY_WRAP_SECRET) + IDENTITY_NAME_MAX];
	const struct credentials *own = a->self.credentials;
	snprintf(purpose, sizeof(purpose), IDENTITY_WRAP_SECRET "%s", q->name);
	snprintf(c->identity, sizeof(c->identity), "%s", q->name);
	c->cluster_high = own->cluster_high;
	c->cluster_low = own->cluster_low;
	c->version = answer->version;
	int rc = q->authority != NULL ? sign(q, c) : own->pem_len > 0 ? copy_trusted(own, c) : 0;
	if (rc < 0)
		return rc;
	return secure_unwrap(own->secret, purpose, answer->secret, c->secret);
}

/* Writes the credentials beside the file and renames them to it, so that it never has a part of them. */
static int write_key(const struct admin *a, const struct asked *q,
		     const struct meta_identity_changed *answer, const char *path)
{
	char part[KEY_PATH_MAX + 8];
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 8192);
	struct credentials *c = credentials_new();
	int rc = c != NULL ? fill(a, q, answer, c) : -ENOMEM;
	snprintf(part, sizeof(part), "%s.part", path);
	if (rc == 0 && unlink(part) < 0 && errno != ENOENT)
		rc = -errno;
	if (rc == 0)
		rc = credentials_store(c, part, &err);
	if (rc == 0 && rename(part, path) < 0)
		rc = -errno;
	if (rc == 0)
		rc = name_sync(path);
	credentials_free(c);
	if (rc < 0)
		return cli_fail("user %s was changed, but its credentials cannot be written: %s; "
				"run \"terrane user rotate %s\" to get others",
				q->name, err.len > 0 ? strbuf_text(&err) : err_text(rc), q->name);
	return CLI_OK;
}

/* --- changing ------------------------------------------------------------------------------------ */

static int find_tenant(struct admin *a, const struct asked *q, uint32_t *id)
{
	struct meta_call c = {.client = a->client};
	struct meta_tenant t;
	const char *name = q->tenant != NULL ? q->tenant : a->file.tenant;
	*id = 0;
	enum auth_role role = role_from_name(q->role);
	if (role == ROLE_OPERATOR || role > ROLE_READ_ONLY)
		return CLI_OK; /* a role of the cluster */
	int rc = meta_client_tenant_get(&c, 0, name, &t);
	if (rc < 0)
		return cli_fail("tenant %s: %s", name, c.error[0] != 0 ? c.error : err_text(rc));
	*id = t.id;
	return CLI_OK;
}

static int take_grant(struct admin *a, const struct asked *q, Terrane__Meta__IdentityGrant *g)
{
	*g = (Terrane__Meta__IdentityGrant)TERRANE__META__IDENTITY_GRANT__INIT;
	g->id = q->grant;
	if (q->change == IDENTITY_REVOKE)
		return CLI_OK;
	g->id = meta_id() >> 33 | 1; /* short, because people type it */
	g->role = (char *)q->role;
	int status = find_tenant(a, q, &g->tenant);
	g->prefix = (char *)(g->tenant == 0 ? "" : q->path != NULL ? q->path : "/");
	return status;
}

static int next_version(struct admin *a, struct asked *q)
{
	struct meta_call c = {.client = a->client};
	int rc = meta_client_identity_list(&c, find_version, q);
	if (rc < 0)
		return failed(&c, rc, q->name);
	if (q->version == 0)
		return cli_fail("there is no user %s", q->name);
	q->version++;
	return CLI_OK;
}

static int tell(const struct asked *q, const char *path, uint32_t version)
{
	if (path == NULL)
		return CLI_OK;
	if (!q->json) {
		printf("credentials of %s are in %s\n", q->name, path);
		return CLI_OK;
	}
	AUTO_JSON json_t *root =
		json_pack("{s:s, s:I, s:o}", "name", q->name, "version", (json_int_t)version, "key",
			  json_text(path, strlen(path)));
	return json_emit(stdout, root) < 0 ? cli_fail("cannot write the output") : CLI_OK;
}

static int run_change(struct admin *a)
{
	struct asked *q = a->ctx;
	struct meta_call c = {.client = a->client};
	struct meta_identity_changed answer;
	Terrane__Meta__IdentityGrant g;
	Terrane__Meta__IdentityChangeRequest m = TERRANE__META__IDENTITY_CHANGE_REQUEST__INIT;
	bool key = q->change == IDENTITY_ADD || q->change == IDENTITY_ROTATE;
	char path[KEY_PATH_MAX];
	int status = CLI_OK;
	if (a->self.credentials == NULL)
		return cli_fail("the cluster file names no credentials; set $" CREDENTIALS_ENV
				" to those of an operator");
	if (key && key_path(q, path) < 0)
		return cli_usage("user: the name of the file is too long");
	if (q->change == IDENTITY_ADD && access(path, F_OK) == 0)
		return cli_fail("%s exists; name another file with --key", path);
	if (q->change == IDENTITY_ROTATE)
		status = next_version(a, q);
	if (status == CLI_OK && (q->role != NULL || q->change == IDENTITY_REVOKE)) {
		status = take_grant(a, q, &g);
		m.grant = &g;
	}
	if (status != CLI_OK)
		return status;
	m.name = (char *)q->name;
	m.change = q->change;
	m.id = meta_id();
	m.version = q->version;
	int rc = meta_client_identity_change(&c, &m, &answer);
	if (rc < 0)
		return failed(&c, rc, q->name);
	status = key ? write_key(a, q, &answer, path) : CLI_OK;
	return status == CLI_OK ? tell(q, key ? path : NULL, answer.version) : status;
}

/* --- the command line ------------------------------------------------------------------------------ */

static int take_option(struct asked *q, struct admin_where *where, int c)
{
	switch (c) {
	case 'c':
		where->file = optarg;
		return CLI_GO_ON;
	case 'd':
		where->dir = optarg;
		return CLI_GO_ON;
	case 'j':
		q->json = true;
		return CLI_GO_ON;
	case 'r':
		q->role = optarg;
		return role_from_name(optarg) != ROLE_END
			       ? CLI_GO_ON
			       : cli_usage("user: --role %s: must be read-only, read-write, "
					   "tenant-admin, operator, node, cache or janitor",
					   optarg);
	case 't':
		q->tenant = optarg;
		return CLI_GO_ON;
	case 'p':
		q->path = optarg;
		return CLI_GO_ON;
	case 'k':
		q->key = optarg;
		return CLI_GO_ON;
	case 'a':
		q->authority = optarg;
		return CLI_GO_ON;
	case 'h':
		fputs(usage_text, stdout);
		return CLI_OK;
	default:
		return CLI_USAGE;
	}
}

static const struct {
	const char *verb;
	enum identity_change change;
} changes[] = {
	{"add", IDENTITY_ADD},       {"rotate", IDENTITY_ROTATE}, {"remove", IDENTITY_REMOVE},
	{"grant", IDENTITY_GRANT},   {"revoke", IDENTITY_REVOKE}, {"disable", IDENTITY_DISABLE},
	{"enable", IDENTITY_ENABLE},
};

static bool parse_grant(const char *text, uint64_t *out)
{
	char *end = NULL;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return text[0] >= '1' && text[0] <= '9' && *end == 0 && errno == 0;
}

static int run_verb(struct asked *q, const struct admin_where *where, int n, char **words)
{
	const char *verb = n > 0 ? words[0] : "";
	q->name = n > 1 ? words[1] : NULL;
	if ((n == 1 && strcmp(verb, "list") == 0) || (n == 2 && strcmp(verb, "show") == 0))
		return admin_run(where, run_show, q);
	for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
		q->change = changes[i].change;
		bool revoke = q->change == IDENTITY_REVOKE;
		if (strcmp(verb, changes[i].verb) != 0 || n != (revoke ? 3 : 2))
			continue;
		if (revoke && !parse_grant(words[2], &q->grant))
			return cli_usage("user revoke: \"%s\" must be the number of a grant, as "
					 "\"terrane user show\" prints it",
					 words[2]);
		if (q->change == IDENTITY_GRANT && q->role == NULL)
			return cli_usage("user grant needs --role");
		if (q->change != IDENTITY_GRANT && q->change != IDENTITY_ADD && q->role != NULL)
			return cli_usage("user %s takes no --role", verb);
		return admin_run(where, run_change, q);
	}
	return cli_usage("user needs list, or show, add, grant, revoke, rotate, disable, enable or "
			 "remove with the NAME of a user; see --help");
}

int cmd_user(int argc, char **argv)
{
	static const struct option options[] = {
		{"cluster", required_argument, NULL, 'c'},
		{"dir", required_argument, NULL, 'd'},
		{"role", required_argument, NULL, 'r'},
		{"tenant", required_argument, NULL, 't'},
		{"path", required_argument, NULL, 'p'},
		{"key", required_argument, NULL, 'k'},
		{"authority", required_argument, NULL, 'a'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	struct admin_where where = {0};
	struct asked q = {0};
	int c;
	while ((c = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
		int status = take_option(&q, &where, c);
		if (status != CLI_GO_ON)
			return status;
	}
	return run_verb(&q, &where, argc - optind, argv + optind);
}

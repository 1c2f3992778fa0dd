// SPDX-License-Identifier: Apache-2.0
#include "tally_oracle.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

struct content_head {
	uint32_t server;
	uint32_t blob;
	uint32_t version;
	uint32_t len;
};

void oracle_init(struct oracle *o, char *violation)
{
	memset(o, 0, sizeof(*o));
	o->violation = violation;
	for (unsigned s = 0; s < SERVERS; s++)
		for (unsigned b = 0; b < BLOBS; b++)
			o->blobs[s][b].next = 1;
}

void oracle_violation(struct oracle *o, const char *fmt, ...)
{
	va_list args;
	if (o->violation[0] != '\0')
		return;
	va_start(args, fmt);
	vsnprintf(o->violation, VIOLATION_BYTES, fmt, args);
	va_end(args);
}

void oracle_counter_name(char out[NAME_BYTES], unsigned server, unsigned counter)
{
	snprintf(out, NAME_BYTES, "counter-%u-%u", server, counter);
}

void oracle_blob_name(char out[NAME_BYTES], unsigned server, unsigned blob)
{
	snprintf(out, NAME_BYTES, "blob-%u-%u", server, blob);
}

/* How it ended for who asked. */
static void settle(uint8_t *asked, enum asked result)
{
	if (*asked != ASKED_SEEN || result != ASKED_IN_DOUBT)
		*asked = (uint8_t)result;
}

/* --- counters -------------------------------------------------------------------------------- */

int64_t oracle_add_begin(struct oracle *o, unsigned server, unsigned counter, unsigned *change)
{
	struct counter_oracle *c = &o->counters[server][counter];
	if (c->next == CHANGES)
		return 0;
	*change = c->next++;
	c->asked[*change] = ASKED_IN_DOUBT;
	return (int64_t)1 << (2 * *change);
}

void oracle_add_end(struct oracle *o, unsigned server, unsigned counter, unsigned change,
		    enum asked result)
{
	settle(&o->counters[server][counter].asked[change], result);
	o->acknowledged += result == ASKED_DONE;
}

struct counter_oracle oracle_counter(const struct oracle *o, unsigned server, unsigned counter)
{
	return o->counters[server][counter];
}

static const char *digit_fault(enum asked before, enum asked now, unsigned digit, bool lossy)
{
	if (digit > 1)
		return "was applied more than once";
	if (digit == 1 && now == ASKED_NEVER)
		return "was never asked for, but is there";
	if (digit == 1 && now == ASKED_REFUSED)
		return "was refused, but is there";
	if (digit == 0 && before == ASKED_DONE && !lossy)
		return "was acknowledged, but is lost";
	if (digit == 0 && before == ASKED_SEEN && !lossy)
		return "was there once, but is lost";
	return NULL;
}

void oracle_check_counter(struct oracle *o, unsigned server, unsigned counter,
			  const struct counter_oracle *before, int64_t value, bool lossy)
{
	struct counter_oracle *now = &o->counters[server][counter];
	o->reads++;
	if (value < 0 || value >> (2 * CHANGES) != 0) {
		oracle_violation(o, "counter %u of server %u is %" PRId64, counter, server, value);
		return;
	}
	for (unsigned i = 0; i < CHANGES; i++) {
		unsigned digit = (unsigned)(value >> (2 * i)) & 3;
		const char *fault = digit_fault(before->asked[i], now->asked[i], digit, lossy);
		if (fault != NULL)
			oracle_violation(o, "change %u of counter %u of server %u %s", i, counter,
					 server, fault);
		if (digit == 1 && now->asked[i] == ASKED_IN_DOUBT)
			now->asked[i] = ASKED_SEEN;
	}
}

/* --- blobs ----------------------------------------------------------------------------------- */

unsigned oracle_put_begin(struct oracle *o, unsigned server, unsigned blob, uint64_t client)
{
	struct blob_oracle *b = &o->blobs[server][blob];
	if (b->next == VERSIONS)
		return 0;
	b->asked[b->next] = ASKED_IN_DOUBT;
	b->client[b->next] = client;
	return b->next++;
}

void oracle_put_end(struct oracle *o, unsigned server, unsigned blob, unsigned version,
		    enum asked result)
{
	settle(&o->blobs[server][blob].asked[version], result);
	o->acknowledged += result == ASKED_DONE;
}

size_t oracle_blob_content(unsigned server, unsigned blob, unsigned version, uint8_t *out)
{
	struct rng rng;
	rng_init(&rng, ((uint64_t)server << 48) | ((uint64_t)blob << 32) | version);
	uint64_t kind = rng_below(&rng, 100);
	uint64_t max = kind < 80   ? 3000
		       : kind < 98 ? 40000
				   : BLOB_BYTES_MAX - sizeof(struct content_head);
	struct content_head head = {.server = server, .blob = blob, .version = version};
	head.len = (uint32_t)(sizeof(head) + rng_below(&rng, max));
	memcpy(out, &head, sizeof(head));
	rng_fill(&rng, out + sizeof(head), head.len - sizeof(head));
	return head.len;
}

unsigned oracle_blob_latest(const struct oracle *o, unsigned server, unsigned blob)
{
	const struct blob_oracle *b = &o->blobs[server][blob];
	for (unsigned v = b->next - 1; v > 0; v--)
		if (b->asked[v] >= ASKED_SEEN)
			return v;
	return 0;
}

/* What is wrong with reading this version. */
static const char *blob_fault(const struct blob_oracle *b, unsigned latest, unsigned version,
			      bool lossy)
{
	if (version == 0 || version >= b->next)
		return "was never put";
	if (b->asked[version] == ASKED_REFUSED)
		return "was refused, but is there";
	if (version >= latest || lossy)
		return NULL;
	/* What another client left in doubt may come late; this client's own cannot. */
	if (b->asked[version] != ASKED_DONE && b->client[version] != b->client[latest])
		return NULL;
	return "is older than one that was acknowledged or seen";
}

void oracle_check_blob(struct oracle *o, unsigned server, unsigned blob, unsigned latest,
		       const uint8_t *data, size_t len, bool lossy)
{
	struct content_head head;
	o->reads++;
	if (data == NULL) {
		if (latest != 0 && !lossy)
			oracle_violation(o, "blob %u of server %u is gone", blob, server);
		return;
	}
	AUTO_FREE uint8_t *expected = malloc(BLOB_BYTES_MAX);
	if (expected == NULL || len < sizeof(head)) {
		oracle_violation(o, "blob %u of server %u has %zu bytes", blob, server, len);
		return;
	}
	memcpy(&head, data, sizeof(head));
	const char *fault = blob_fault(&o->blobs[server][blob], latest, head.version, lossy);
	if (fault != NULL) {
		oracle_violation(o, "version %u of blob %u of server %u %s", head.version, blob,
				 server, fault);
		return;
	}
	if (oracle_blob_content(server, blob, head.version, expected) != len ||
	    memcmp(data, expected, len) != 0)
		oracle_violation(o, "blob %u of server %u has wrong bytes", blob, server);
	uint8_t *asked = &o->blobs[server][blob].asked[head.version];
	if (*asked == ASKED_IN_DOUBT)
		*asked = ASKED_SEEN;
}

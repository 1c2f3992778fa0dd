// SPDX-License-Identifier: Apache-2.0
#include "shift/content.h"

#include <errno.h>
#include <string.h>

bool content_claim_of(const Terrane__Shift__GetRequest *q, struct content_claim *out, int *rc)
{
	*rc = 0;
	if (q->digest.len == 0)
		return false;
	if (q->digest.len != CONTENT_DIGEST_BYTES || q->tenant == 0 || q->length == 0 ||
	    q->length > CONTENT_BYTES_MAX || q->offset > UINT64_MAX - q->length) {
		*rc = -EINVAL;
		return true;
	}
	*out = (struct content_claim){
		.tenant = q->tenant, .block = q->block, .off = q->offset, .len = q->length};
	memcpy(out->digest, q->digest.data, CONTENT_DIGEST_BYTES);
	return true;
}

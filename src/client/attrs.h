// SPDX-License-Identifier: Apache-2.0
/* Attributes of the public interface, in the form in which the metadata service gets them. */
#ifndef CLIENT_ATTRS_H
#define CLIENT_ATTRS_H

#include "meta_api/types.h"
#include <terrane/terrane.h>

struct call;

/* Copies attributes to memory of their own, which the caller frees with free(); their user attributes are sorted and the
 * values of all are checked. *out is NULL if from is NULL. Errors of attributes are those of terrane_attributes_set. */
int attrs_copy_new(struct call *c, const struct terrane_attributes *from, struct meta_attrs **out);

/* Returns the time that attributes give to a file, else the wall clock. */
uint64_t attrs_time_ns(const struct meta_attrs *a);

/* Returns how many bytes user attributes take in a request. */
size_t attrs_bytes(const struct meta_attrs *a);

int engine_attributes_get(struct call *c, const char *path, struct terrane_attributes *out,
			  void *buf, size_t size);
int engine_attributes_set(struct call *c, const char *path,
			  const struct terrane_attributes *change);

#endif

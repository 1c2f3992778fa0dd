// SPDX-License-Identifier: Apache-2.0
/* Little-endian numbers at any address: the format on disk and on the wire. */
#ifndef BASE_LE_H
#define BASE_LE_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline void put_u16(uint8_t *at, uint16_t v)
{
	v = htole16(v);
	memcpy(at, &v, sizeof(v));
}

static inline void put_u32(uint8_t *at, uint32_t v)
{
	v = htole32(v);
	memcpy(at, &v, sizeof(v));
}

static inline void put_u64(uint8_t *at, uint64_t v)
{
	v = htole64(v);
	memcpy(at, &v, sizeof(v));
}

static inline uint16_t get_u16(const uint8_t *at)
{
	uint16_t v;
	memcpy(&v, at, sizeof(v));
	return le16toh(v);
}

static inline uint32_t get_u32(const uint8_t *at)
{
	uint32_t v;
	memcpy(&v, at, sizeof(v));
	return le32toh(v);
}

static inline uint64_t get_u64(const uint8_t *at)
{
	uint64_t v;
	memcpy(&v, at, sizeof(v));
	return le64toh(v);
}

#endif

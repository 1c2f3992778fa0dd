// SPDX-License-Identifier: Apache-2.0
/*
 * A message is a polynomial over GF(2); its CRC is the remainder modulo
 *
 *   P = x^32 + x^28 + x^27 + x^26 + x^25 + x^23 + x^22 + x^20 + x^19 + x^18 + x^14 + x^13 + x^11
 *       + x^10 + x^9 + x^8 + x^6 + 1
 *
 * of the message times x^32. Bits are taken lowest first, so a word holds the coefficient of x^31
 * in bit 0 and of x^0 in bit 31, and P without x^32 reads 0x82f63b78. The register starts as all
 * ones and is inverted at the end; both are undone and redone by ~ on entry and exit, which is what
 * makes the result of one call the start of the next.
 *
 * Combining. Appending n bytes to A multiplies A's register by x^(8n). With R the raw remainder
 * (register starting at zero), the ones that A's run starts with and its final inversion travel
 * through B exactly as B's own do, and cancel:
 *
 *   crc(A B) = crc(A) * x^(8 len(B)) mod P  xor  crc(B)
 *
 * Example: crc("1234") = 0xf63af4ee, crc("56789") = 0x83b565d8, and multiplying the first by x^40
 * gives 0x60b3f75b; the xor of the two is 0xe3069283 = crc("123456789").
 */
#include "base/crc.h"

#include <assert.h>
#include <isa-l/crc.h>

#define CRC_POLY 0x82f63b78U
#define CRC_ONE 0x80000000U    /* the polynomial 1 */
#define CRC_STEP_MAX (1 << 30) /* ISA-L takes the length as an int */

uint32_t crc32c(uint32_t crc, const void *data, size_t len)
{
	/* ISA-L does not write to the data, but its signature is not const. */
	unsigned char *p = (unsigned char *)data;
	uint32_t reg = ~crc;
	assert(data != NULL || len == 0);
	while (len > CRC_STEP_MAX) {
		reg = crc32_iscsi(p, CRC_STEP_MAX, reg);
		p += CRC_STEP_MAX;
		len -= CRC_STEP_MAX;
	}
	if (len > 0)
		reg = crc32_iscsi(p, (int)len, reg);
	return ~reg;
}

/* Multiplies by x: the coefficient of x^31 falls out of bit 0 and comes back as P. */
static uint32_t crc_times_x(uint32_t a)
{
	return (a >> 1) ^ ((a & 1) != 0 ? CRC_POLY : 0);
}

uint32_t crc32c_ref(uint32_t crc, const void *data, size_t len)
{
	const uint8_t *p = data;
	uint32_t reg = ~crc;
	for (size_t i = 0; i < len; i++) {
		reg ^= p[i];
		for (int bit = 0; bit < 8; bit++)
			reg = crc_times_x(reg);
	}
	return ~reg;
}

static uint32_t crc_multiply(uint32_t a, uint32_t b)
{
	uint32_t sum = 0;
	for (uint32_t bit = CRC_ONE; bit != 0; bit >>= 1) {
		if ((a & bit) != 0)
			sum ^= b;
		b = crc_times_x(b);
	}
	return sum;
}

/* x^(8 * 2^i) mod P: each is the square of the one before it. */
static const uint32_t crc_powers[64] = {
	0x00800000U, 0x00008000U, 0x82f63b78U, 0x6ea2d55cU, 0x18b8ea18U, 0x510ac59aU, 0xb82be955U,
	0xb8fdb1e7U, 0x88e56f72U, 0x74c360a4U, 0xe4172b16U, 0x0d65762aU, 0x35d73a62U, 0x28461564U,
	0xbf455269U, 0xe2ea32dcU, 0xfe7740e6U, 0xf946610bU, 0x3c204f8fU, 0x538586e3U, 0x59726915U,
	0x734d5309U, 0xbc1ac763U, 0x7d0722ccU, 0xd289cabeU, 0xe94ca9bcU, 0x05b74f3fU, 0xa51e1f42U,
	0x40000000U, 0x20000000U, 0x08000000U, 0x00800000U, 0x00008000U, 0x82f63b78U, 0x6ea2d55cU,
	0x18b8ea18U, 0x510ac59aU, 0xb82be955U, 0xb8fdb1e7U, 0x88e56f72U, 0x74c360a4U, 0xe4172b16U,
	0x0d65762aU, 0x35d73a62U, 0x28461564U, 0xbf455269U, 0xe2ea32dcU, 0xfe7740e6U, 0xf946610bU,
	0x3c204f8fU, 0x538586e3U, 0x59726915U, 0x734d5309U, 0xbc1ac763U, 0x7d0722ccU, 0xd289cabeU,
	0xe94ca9bcU, 0x05b74f3fU, 0xa51e1f42U, 0x40000000U, 0x20000000U, 0x08000000U, 0x00800000U,
	0x00008000U,
};

uint32_t crc32c_combine(uint32_t crc1, uint32_t crc2, uint64_t len2)
{
	uint32_t shifted = crc1;
	/* Many runs begin with an empty part, whose checksum is 0. */
	for (int i = 0; shifted != 0 && len2 != 0; i++, len2 >>= 1)
		if ((len2 & 1) != 0)
			shifted = crc_multiply(shifted, crc_powers[i]);
	return shifted ^ crc2;
}

void crc_pieces_add(uint32_t *crcs, size_t at, const void *data, size_t len)
{
	const uint8_t *bytes = data;
	while (len > 0) {
		size_t n = min_u64(len, CRC_PIECE_BYTES - at % CRC_PIECE_BYTES);
		uint32_t *crc = &crcs[at / CRC_PIECE_BYTES];
		assert(at % CRC_PIECE_BYTES != 0 || *crc == 0);
		*crc = crc32c(*crc, bytes, n);
		bytes += n;
		at += n;
		len -= n;
	}
}

uint32_t crc_pieces_sum(const uint32_t *crcs, size_t len)
{
	uint32_t sum = 0;
	for (size_t at = 0; at < len; at += CRC_PIECE_BYTES)
		sum = crc32c_combine(sum, crcs[at / CRC_PIECE_BYTES],
				     min_u64(len - at, CRC_PIECE_BYTES));
	return sum;
}

// SPDX-License-Identifier: Apache-2.0
/* What every fuzz target defines: called once per input, returns 0, keeps nothing between calls. */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif

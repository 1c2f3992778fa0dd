// SPDX-License-Identifier: Apache-2.0
/* Every fuzz target defines this: runs the target on one input, returns 0 and keeps no state between calls. */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif

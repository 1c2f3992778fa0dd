// SPDX-License-Identifier: Apache-2.0
/* The settings of box.ini, for the files that read and write it. */
#ifndef BOX_CONF_H
#define BOX_CONF_H

#include "base/conf.h"

extern const struct conf_key box_schema[];
extern const size_t box_schema_count;

#endif

// SPDX-License-Identifier: Apache-2.0
#ifndef CODE_PLACE_KIND_H
#define CODE_PLACE_KIND_H

/*
 * How the stripes of one level are spread over its fault domains; place.h explains each kind. The
 * numbers are stored and must not change.
 */
enum place_kind { PLACE_CLUSTERED, PLACE_DECLUSTERED, PLACE_OVERLAP };

#endif

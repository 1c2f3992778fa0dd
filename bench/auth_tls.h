// SPDX-License-Identifier: Apache-2.0
/* What authentication and TLS cost on connections; rows of bench tls. */
#ifndef BENCH_AUTH_TLS_H
#define BENCH_AUTH_TLS_H

/* Adds the rows to the table. Exits if a measurement fails. */
void auth_tls_rows(void);

#endif

// SPDX-License-Identifier: Apache-2.0
/*
 * The counters of traffic groups: adds up the reports of all clients (limiter.h). Pure logic; the caller passes the
 * time and carries reports and sums over the network.
 *
 *     client 7    demand 300  weight 1.0  \
 *     client 9    demand 100  weight 0.4   }  group 2: demand 450  weight 2.4
 *     client 12   demand  50  weight 1.0  /
 *
 * A report replaces the one before of the same client and resource. A client that is not heard for BOARD_SILENT_NS
 * counts no longer. The sums are exact: reports are kept as integers, so that taking a report out leaves what was there
 * before it.
 *
 * Bounds: clients_max clients with LIMITS_GROUPS_MAX counters for each resource. A client beyond clients_max is refused
 * until another is silent.
 */
#ifndef LIMITS_BOARD_H
#define LIMITS_BOARD_H

#include <stddef.h>
#include <stdint.h>

#include "limits/limiter.h"

#define BOARD_SILENT_NS (5 * LIMITS_WINDOW_NS)
#define BOARD_RESOURCES 2
#define BOARD_CLIENTS_MAX 16384
/* A report with a larger demand counts as this many units per second. */
#define BOARD_DEMAND_MAX 1000000000000ULL

struct board;

/* clients_max 0: BOARD_CLIENTS_MAX. -ENOMEM. */
int board_open(struct board **out, size_t clients_max);
void board_close(struct board *b);

/*
 * Takes the report of a client for one resource; n 0: the client uses nothing. Numbers that are no numbers or negative
 * count as 0. -EINVAL: client 0, too many counters, or a group of 0; -ENOSPC: there are too many clients or groups;
 * -ENOMEM. After an error the report before counts on.
 */
int board_report(struct board *b, uint64_t client, size_t resource, const struct limits_counter *in,
		 size_t n, uint64_t now_ns);

/* Removes the reports of clients that are silent at now_ns. board_report does so, too. */
void board_expire(struct board *b, uint64_t now_ns);

/* Writes the sums of the groups that are in use, at most `room`, in order of their ids; returns their number. */
size_t board_sums(const struct board *b, size_t resource, struct limits_counter *out, size_t room);

/* Returns the number of clients whose reports count. */
size_t board_clients(const struct board *b);

#endif

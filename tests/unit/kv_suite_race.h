// SPDX-License-Identifier: Apache-2.0
/* The cases of kv_suite with many clients. */
#ifndef TESTS_KV_SUITE_RACE_H
#define TESTS_KV_SUITE_RACE_H

#include "kv_suite.h"

void cancelled_and_late_requests_are_not_applied(struct kv_suite *s);
void increments_are_never_lost(struct kv_suite *s);
void version_guarded_increments_are_never_lost(struct kv_suite *s);
void one_of_many_creators_wins(struct kv_suite *s);
void of_many_with_one_version_one_wins(struct kv_suite *s);
void a_read_of_several_keys_is_one_instant(struct kv_suite *s);
void conflicting_transactions_in_flight_get_their_own_results(struct kv_suite *s);
void scan_is_stable_while_others_change(struct kv_suite *s);
void histories_are_linearizable(struct kv_suite *s);

#endif

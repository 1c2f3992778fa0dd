// SPDX-License-Identifier: Apache-2.0
/* The registry of jobs at the metadata service: what is refused, who sees what, leases, bounds, the view of cache nodes. */
#include "meta/jobs.h"
#include "meta_client/jobs.h"
#include "meta_user_fixture.h"

#define LEASE_MS 10000

/* --- fixture ------------------------------------------------------------------------------------ */

static const struct job_part data_part[] = {{JOB_ANY, "/data", 0}};

static struct job_spec spec_of(uint64_t id, const struct job_part *parts, size_t n)
{
	return (struct job_spec){.id = id,
				 .name = "job",
				 .parts = parts,
				 .part_count = n,
				 .readers = 1,
				 .epochs = 3,
				 .order = JOB_WINDOW,
				 .shuffle = JOB_SEEDED,
				 .lease_ms = LEASE_MS};
}

static int add_as(struct meta_call *c, uint64_t id)
{
	uint64_t stamp;
	struct job_spec s = spec_of(id, data_part, 1);
	return meta_client_job_add(c, &s, &stamp);
}

static int64_t active(struct fixture *fx, struct job_view *v)
{
	size_t n = 0;
	CHECK_EQ(job_view_refresh(v, &fx->root, NULL), 0);
	for (size_t i = 0; i < job_view_count(v); i++)
		n += job_view_at(v, i) != NULL;
	return (int64_t)n;
}

static int64_t count_listed(struct meta_call *c, bool only_active)
{
	static struct job_seen page[META_CLIENT_JOBS_MAX];
	struct job_listing at = {.active = only_active};
	int64_t sum = 0;
	while (!at.end) {
		struct arena a;
		arena_init(&a, 64 * MIB);
		int64_t n = meta_client_job_list(c, &at, &a, page);
		arena_fini(&a);
		if (n < 0)
			return n;
		sum += n;
	}
	return sum;
}

/* --- specs ---------------------------------------------------------------------------------------- */

static void a_job_is_kept_with_the_ids_of_its_parts(struct fixture *fx)
{
	uint64_t dir = make_dir(&fx->call, META_ROOT, "data"), stamp, again;
	uint64_t file = make_file(&fx->call, dir, "f");
	const struct job_part parts[] = {{JOB_DATASET, "/data", 99}, {JOB_ANY, "/data/f", 0}};
	struct job_spec s = spec_of(7, parts, 2);
	struct job_seen seen;
	CHECK_EQ(meta_client_job_add(&fx->call, &s, &stamp), 0);
	CHECK_EQ(meta_client_job_get(&fx->call, 0, 7, &fx->arena, &seen), 0);
	CHECK_EQ(seen.spec.part_count, 2);
	CHECK_EQ(seen.spec.parts[0].id, dir);
	CHECK_EQ(seen.spec.parts[0].kind, JOB_DATASET);
	CHECK_EQ(seen.spec.parts[1].id, file);
	CHECK_EQ(seen.spec.parts[1].kind, JOB_FILE);
	CHECK(strcmp(seen.spec.parts[1].path, "/data/f") == 0);
	CHECK(seen.left_ms > 0 && seen.left_ms <= LEASE_MS);
	CHECK_EQ(seen.state.stamp, stamp);
	/* the same again renews the lease of the same registration */
	CHECK_EQ(meta_client_job_add(&fx->call, &s, &again), 0);
	CHECK_EQ(again, stamp);
	CHECK_EQ(count_listed(&fx->call, true), 1);
	CHECK_EQ(meta_client_job_remove(&fx->call, 7), 0);
	CHECK_EQ(meta_client_job_remove(&fx->call, 7), 0);
	CHECK_EQ(meta_client_job_get(&fx->call, 0, 7, &fx->arena, &seen), -ENOENT);
}

static void specs_that_lie_are_refused(struct fixture *fx)
{
	uint64_t dir = make_dir(&fx->call, META_ROOT, "data"), stamp;
	make_file(&fx->call, dir, "f");
	const struct {
		struct job_part part;
		int rc;
	} bad[] = {
		{{JOB_ANY, "/none", 0}, -ENOENT},        {{JOB_ANY, "/data/none/x", 0}, -ENOENT},
		{{JOB_ANY, "/data/f/x", 0}, -ENOTDIR},   {{JOB_FILE, "/data", 0}, -EISDIR},
		{{JOB_DATASET, "/data/f", 0}, -ENOTDIR}, {{JOB_ANY, "/data/../data", 0}, -EINVAL},
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct job_spec s = spec_of(1, &bad[i].part, 1);
		CHECK_EQ(meta_client_job_add(&fx->call, &s, &stamp), bad[i].rc);
	}
	struct job_spec s = spec_of(1, data_part, 1);
	s.lease_ms = 1;
	CHECK_EQ(meta_client_job_add(&fx->call, &s, &stamp), -EINVAL);
	CHECK(strstr(fx->call.error, "lease") != NULL);
	s = spec_of(0, data_part, 1);
	CHECK_EQ(meta_client_job_add(&fx->call, &s, &stamp), -EINVAL);
	s = spec_of(1, data_part, 1);
	s.part_count = 1ULL << 40;
	CHECK_EQ(meta_client_job_add(&fx->call, &s, &stamp), -EINVAL);
	CHECK_EQ(count_listed(&fx->call, false), 0);
}

static void two_jobs_cannot_share_an_id(struct fixture *fx)
{
	make_dir(&fx->call, META_ROOT, "data");
	uint64_t stamp;
	CHECK_EQ(add_as(&fx->call, 5), 0);
	struct job_spec other = spec_of(5, data_part, 1);
	other.seed = 77;
	CHECK_EQ(meta_client_job_add(&fx->call, &other, &stamp), -EEXIST);
	CHECK_EQ(meta_client_job_end(&fx->call, 5), 0);
	CHECK_EQ(meta_client_job_add(&fx->call, &other, &stamp), 0);
	CHECK_EQ(count_listed(&fx->call, false), 1);
}

static void reports_are_checked_and_never_go_back(struct fixture *fx)
{
	make_dir(&fx->call, META_ROOT, "data");
	struct job_progress p = {
		.sequence = 10, .epoch = 1, .position = 5, .total = 10, .steps = 50};
	struct job_seen seen;
	CHECK_EQ(meta_client_job_report(&fx->call, 5, &p), -ENOENT);
	CHECK_EQ(add_as(&fx->call, 5), 0);
	CHECK_EQ(meta_client_job_report(&fx->call, 5, &p), 0);
	struct job_progress late = p;
	late.sequence = 9;
	late.steps = 40;
	CHECK_EQ(meta_client_job_report(&fx->call, 5, &late), 0);
	p.part = 1;
	CHECK_EQ(meta_client_job_report(&fx->call, 5, &p), -EINVAL);
	p.part = 0;
	p.epoch = 4;
	CHECK_EQ(meta_client_job_report(&fx->call, 5, &p), -EINVAL);
	p.epoch = 1;
	p.position = 11;
	CHECK_EQ(meta_client_job_report(&fx->call, 5, &p), -EINVAL);
	CHECK_EQ(meta_client_job_get(&fx->call, 0, 5, &fx->arena, &seen), 0);
	CHECK_EQ(seen.state.progress.steps, 50);
	CHECK_EQ(seen.state.progress.position, 5);
	/* a report that was delayed does not bring back a job that has ended */
	CHECK_EQ(meta_client_job_end(&fx->call, 5), 0);
	p.position = 6;
	p.sequence = 11;
	CHECK_EQ(meta_client_job_report(&fx->call, 5, &p), -ESTALE);
	CHECK_EQ(count_listed(&fx->call, true), 0);
	CHECK_EQ(count_listed(&fx->call, false), 1);
}

/* --- leases --------------------------------------------------------------------------------------- */

static void a_job_stops_counting_when_its_lease_ends(struct fixture *fx)
{
	make_dir(&fx->call, META_ROOT, "data");
	struct job_view *v = NULL;
	bool changed = false;
	CHECK_EQ(job_view_open(&v), 0);
	CHECK_EQ(add_as(&fx->call, 5), 0);
	CHECK_EQ(add_as(&fx->call, 6), 0);
	CHECK_EQ(active(fx, v), 2);
	CHECK(job_view_find(v, TENANT, 5) != NULL && job_view_find(v, TENANT + 1, 5) == NULL);
	CHECK_EQ(rt_sleep_ns((LEASE_MS - 1000) * NS_PER_MS), 0);
	CHECK_EQ(meta_client_job_report(&fx->call, 6, NULL), 0);
	CHECK_EQ(job_view_refresh(v, &fx->root, &changed), 0);
	CHECK(!changed);
	CHECK_EQ(rt_sleep_ns(1100 * NS_PER_MS), 0);
	/* without another refresh, and with one */
	CHECK(job_view_find(v, TENANT, 5) == NULL && job_view_find(v, TENANT, 6) != NULL);
	CHECK_EQ(active(fx, v), 1);
	/* a job that was suspended goes on, with its progress */
	struct job_progress p = {.sequence = 1, .position = 1, .total = 2};
	CHECK_EQ(meta_client_job_report(&fx->call, 5, &p), 0);
	CHECK_EQ(active(fx, v), 2);
	CHECK_EQ(job_view_find(v, TENANT, 5)->state.progress.position, 1);
	CHECK_EQ(job_view_find(v, TENANT, 5)->spec->parts[0].kind, JOB_DIRECTORY);
	CHECK_EQ(meta_client_job_remove(&fx->call, 5), 0);
	CHECK_EQ(job_view_refresh(v, &fx->root, &changed), 0);
	CHECK(changed);
	CHECK_EQ(active(fx, v), 1);
	job_view_close(v);
}

static void a_view_keeps_its_jobs_when_no_server_answers(struct fixture *fx)
{
	make_dir(&fx->call, META_ROOT, "data");
	struct job_view *v = NULL;
	CHECK_EQ(job_view_open(&v), 0);
	CHECK_EQ(add_as(&fx->call, 5), 0);
	CHECK_EQ(active(fx, v), 1);
	server_stop(&fx->servers[0]);
	server_stop(&fx->servers[1]);
	struct meta_call c = {.client = fx->system, .timeout_ns = NS_PER_S};
	CHECK(job_view_refresh(v, &c, NULL) < 0);
	CHECK(job_view_find(v, TENANT, 5) != NULL);
	job_view_close(v);
}

static void old_jobs_make_room(struct fixture *fx)
{
	make_dir(&fx->call, META_ROOT, "data");
	for (uint64_t id = 1; id <= META_JOBS_TENANT_MAX; id++)
		CHECK_EQ(add_as(&fx->call, id), 0);
	CHECK_EQ(add_as(&fx->call, META_JOBS_TENANT_MAX + 1), -ENOSPC);
	CHECK_EQ(count_listed(&fx->call, false), META_JOBS_TENANT_MAX);
	CHECK_EQ(count_listed(&fx->root, false), META_JOBS_TENANT_MAX);
	/* ended jobs stay for people to look at, and then make room */
	CHECK_EQ(rt_sleep_ns((META_JOB_KEEP_MS + LEASE_MS + 1000) * NS_PER_MS), 0);
	CHECK_EQ(meta_client_job_report(&fx->call, 3, NULL), 0);
	CHECK_EQ(count_listed(&fx->call, true), 1);
	CHECK_EQ(add_as(&fx->call, META_JOBS_TENANT_MAX + 1), 0);
	struct job_seen seen;
	CHECK_EQ(meta_client_job_get(&fx->call, 0, 1, &fx->arena, &seen), -ENOENT);
	CHECK_EQ(meta_client_job_get(&fx->call, 0, 3, &fx->arena, &seen), 0);
	CHECK(count_listed(&fx->call, false) < META_JOBS_TENANT_MAX);
	CHECK_EQ(count_listed(&fx->call, true), 2);
}

/* --- identities ----------------------------------------------------------------------------------- */

static void a_job_belongs_to_its_identity_and_tenant(struct fixture *fx)
{
	struct user alice, bob, carol;
	make_dir(&fx->call, META_ROOT, "data");
	make_dir(&fx->call, META_ROOT, "secret");
	user_add(fx, &alice, "alice", "read-only", "/data");
	user_add(fx, &bob, "bob", "read-only", "/");
	user_add(fx, &carol, "carol", "tenant-admin", "/");
	CHECK_EQ(add_as(&alice.call, 5), 0);
	/* what she may not read, whether it exists or not */
	const struct job_part hidden[] = {{JOB_ANY, "/secret", 0}},
			      none[] = {{JOB_ANY, "/none", 0}};
	struct job_spec s = spec_of(6, hidden, 1);
	uint64_t stamp;
	CHECK_EQ(meta_client_job_add(&alice.call, &s, &stamp), -EACCES);
	s = spec_of(6, none, 1);
	CHECK_EQ(meta_client_job_add(&alice.call, &s, &stamp), -EACCES);
	/* others neither take over nor change her job, but see it if they may read everything */
	struct job_seen seen;
	CHECK_EQ(add_as(&bob.call, 5), -EEXIST);
	CHECK_EQ(meta_client_job_report(&bob.call, 5, NULL), -ENOENT);
	CHECK_EQ(meta_client_job_end(&bob.call, 5), -ENOENT);
	CHECK_EQ(meta_client_job_remove(&bob.call, 5), 0);
	CHECK_EQ(meta_client_job_get(&bob.call, 0, 5, &fx->arena, &seen), 0);
	CHECK(strcmp(seen.state.owner, "alice") == 0);
	CHECK_EQ(add_as(&bob.call, 8), 0);
	CHECK_EQ(count_listed(&bob.call, true), 2);
	CHECK_EQ(meta_client_job_get(&alice.call, 0, 8, &fx->arena, &seen), -ENOENT);
	CHECK_EQ(count_listed(&alice.call, true), 1);
	CHECK_EQ(meta_client_job_end(&carol.call, 8), 0);
	CHECK_EQ(count_listed(&bob.call, true), 1);
	/* another tenant's name gives nothing, and "system" is for services */
	CHECK_EQ(meta_client_tenant_create(
			 &fx->root, &(struct meta_tenant){.id = TENANT + 1, .name = "other"}),
		 0);
	static const char *const names[] = {"other", META_SYSTEM, META_SYSTEM ":2"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct meta_client *c = open_client_as(fx, names[i], &bob.self);
		struct meta_call call = {.client = c};
		CHECK_EQ(count_listed(&call, false), -EACCES);
		CHECK_EQ(add_as(&call, 9), -EACCES);
		CHECK_EQ(meta_client_job_end(&call, 8), -EACCES);
		CHECK_EQ(meta_client_job_get(&call, TENANT, 8, &fx->arena, &seen), -EACCES);
		meta_client_close(c);
	}
	CHECK_EQ(count_listed(&fx->root, true), 1);
	struct job_judged verdict = {.tenant = TENANT, .id = 8, .verdict = {.at_ms = 1}};
	CHECK_EQ(meta_client_job_judge(&alice.call, &verdict, 1), -EACCES);
	CHECK_EQ(meta_client_job_judge(&fx->root, &verdict, 1), 0);
	user_close(&alice);
	user_close(&bob);
	user_close(&carol);
}

static void a_tenant_does_not_see_jobs_of_another(struct fixture *fx)
{
	make_dir(&fx->call, META_ROOT, "data");
	CHECK_EQ(meta_client_tenant_create(
			 &fx->root, &(struct meta_tenant){.id = TENANT + 1, .name = "other"}),
		 0);
	struct meta_client *c = open_client(fx, "other");
	struct meta_call call = {.client = c};
	struct job_seen seen;
	CHECK_EQ(add_as(&fx->call, 5), 0);
	CHECK_EQ(add_as(&call, 5), -ENOENT); /* it has no such directory */
	make_dir(&call, META_ROOT, "data");
	CHECK_EQ(add_as(&call, 5), 0); /* the same id is another job */
	CHECK_EQ(meta_client_job_end(&call, 5), 0);
	CHECK_EQ(count_listed(&call, false), 1);
	CHECK_EQ(count_listed(&fx->call, true), 1);
	CHECK_EQ(count_listed(&fx->root, false), 2);
	CHECK_EQ(meta_client_job_get(&fx->root, TENANT + 1, 5, &fx->arena, &seen), 0);
	CHECK(seen.state.ended);
	CHECK_EQ(meta_client_job_get(&fx->root, 0, 5, &fx->arena, &seen), -EINVAL);
	meta_client_close(c);
}

static void large_specs_are_listed_page_by_page(struct fixture *fx)
{
	static char paths[64][512];
	static struct job_part parts[64];
	make_dir(&fx->call, META_ROOT, "data");
	for (size_t i = 0; i < 64; i++) {
		/* a path of many slashes leads to the same directory */
		memset(paths[i], '/', 500);
		memcpy(paths[i] + 500, "data", 5);
		parts[i] = (struct job_part){JOB_ANY, paths[i], 0};
	}
	uint64_t stamp;
	for (uint64_t id = 1; id <= 40; id++) {
		struct job_spec s = spec_of(id, parts, 64);
		CHECK_EQ(meta_client_job_add(&fx->call, &s, &stamp), 0);
	}
	CHECK_EQ(count_listed(&fx->call, true), 40);
	CHECK_EQ(count_listed(&fx->root, false), 40);
}

/* --- windows that jobs share ---------------------------------------------------------------------- */

#define SET 0x5e7
#define WINDOWS 10

static int enter(struct meta_call *c, uint64_t id, uint32_t epoch, uint32_t window, bool begins,
		 uint32_t *in, bool *wait)
{
	struct job_enter e = {.place = {SET, WINDOWS, window}, .epoch = epoch, .begins = begins};
	return meta_client_job_enter(c, id, &e, in, wait);
}

static void an_epoch_begins_where_the_other_jobs_are(struct fixture *fx)
{
	uint32_t in = 99;
	bool wait = true;
	make_dir(&fx->call, META_ROOT, "data");
	for (uint64_t id = 1; id <= 3; id++)
		CHECK_EQ(add_as(&fx->call, id), 0);
	CHECK_EQ(enter(&fx->call, 1, 0, 0, true, &in, &wait), 0);
	CHECK(in == 0 && !wait); /* it is alone */
	CHECK_EQ(enter(&fx->call, 1, 0, 4, false, &in, &wait), 0);
	CHECK(in == 4 && !wait);
	CHECK_EQ(enter(&fx->call, 2, 0, 0, true, &in, &wait), 0);
	CHECK(in == 4 && !wait);
	/* the other ranks of job 2 ask later, when job 1 is elsewhere, and get the same answer */
	CHECK_EQ(enter(&fx->call, 1, 0, 5, false, &in, &wait), 0);
	CHECK_EQ(enter(&fx->call, 2, 0, 0, true, &in, &wait), 0);
	CHECK_EQ(in, 4);
	/* another version of the data set, or other windows, are another matter */
	struct job_enter e = {.place = {SET + 1, WINDOWS, 0}, .begins = true};
	CHECK_EQ(meta_client_job_enter(&fx->call, 3, &e, &in, &wait), 0);
	CHECK_EQ(in, 0);
	e.place = (struct job_place){SET, WINDOWS + 1, 2};
	CHECK_EQ(meta_client_job_enter(&fx->call, 3, &e, &in, &wait), 0);
	CHECK_EQ(in, 2);
	/* jobs that ended do not count */
	CHECK_EQ(meta_client_job_end(&fx->call, 1), 0);
	CHECK_EQ(meta_client_job_end(&fx->call, 2), 0);
	CHECK_EQ(enter(&fx->call, 3, 1, 8, true, &in, &wait), 0);
	CHECK_EQ(in, 8);
	CHECK_EQ(enter(&fx->call, 1, 1, 8, true, &in, &wait), -ESTALE);
	CHECK_EQ(enter(&fx->call, 9, 1, 8, true, &in, &wait), -ENOENT);
}

static void a_job_waits_for_those_two_windows_behind_until_it_forces_its_way(struct fixture *fx)
{
	uint32_t in;
	bool wait = false;
	make_dir(&fx->call, META_ROOT, "data");
	CHECK_EQ(add_as(&fx->call, 1), 0);
	CHECK_EQ(add_as(&fx->call, 2), 0);
	CHECK_EQ(enter(&fx->call, 1, 0, 3, false, &in, &wait), 0);
	CHECK_EQ(enter(&fx->call, 2, 0, 4, false, &in, &wait), 0);
	CHECK(in == 4 && !wait);
	CHECK_EQ(enter(&fx->call, 2, 0, 5, false, &in, &wait), 0);
	CHECK(in == 5 && wait);
	/* while it waits it counts where it was: a third job joins there */
	CHECK_EQ(add_as(&fx->call, 3), 0);
	CHECK_EQ(enter(&fx->call, 3, 0, 0, true, &in, &wait), 0);
	CHECK_EQ(in, 4);
	struct job_enter e = {.place = {SET, WINDOWS, 5}, .force = true};
	CHECK_EQ(meta_client_job_enter(&fx->call, 2, &e, &in, &wait), 0);
	CHECK(!wait);
	CHECK_EQ(enter(&fx->call, 1, 0, 4, false, &in, &wait), 0);
	CHECK(!wait); /* nobody waits for a job that is ahead */
}

static void a_job_that_is_silent_holds_nobody(struct fixture *fx)
{
	uint32_t in;
	bool wait = false;
	make_dir(&fx->call, META_ROOT, "data");
	CHECK_EQ(add_as(&fx->call, 1), 0);
	CHECK_EQ(add_as(&fx->call, 2), 0);
	CHECK_EQ(enter(&fx->call, 1, 0, 3, false, &in, &wait), 0);
	CHECK_EQ(rt_sleep_ns(LEASE_MS / 2 * NS_PER_MS), 0);
	CHECK_EQ(meta_client_job_report(&fx->call, 2, NULL), 0);
	CHECK_EQ(enter(&fx->call, 2, 0, 5, false, &in, &wait), 0);
	CHECK(wait);
	CHECK_EQ(rt_sleep_ns((LEASE_MS / 2 + 1) * NS_PER_MS), 0);
	CHECK_EQ(enter(&fx->call, 2, 0, 5, false, &in, &wait), 0);
	CHECK(!wait);
	/* it comes back after its lease, and counts again */
	CHECK_EQ(meta_client_job_report(&fx->call, 1, NULL), 0);
	CHECK_EQ(add_as(&fx->call, 3), 0);
	CHECK_EQ(enter(&fx->call, 3, 0, 5, false, &in, &wait), 0);
	CHECK(wait);
}

static void windows_that_do_not_exist_are_refused(struct fixture *fx)
{
	uint32_t in = 77;
	bool wait = false;
	make_dir(&fx->call, META_ROOT, "data");
	CHECK_EQ(add_as(&fx->call, 1), 0);
	const struct job_enter bad[] = {
		{.place = {SET, 0, 0}},
		{.place = {SET, 5, 5}},
		{.place = {SET, 5, UINT32_MAX}, .begins = true},
		{.place = {SET, 5, 1}, .epoch = JOB_EPOCHS_MAX + 1},
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK_EQ(meta_client_job_enter(&fx->call, 1, &bad[i], &in, &wait), -EINVAL);
	CHECK_EQ(in, 77);
	/* more epochs than are remembered: the last ones still get the same answer */
	for (uint32_t epoch = 0; epoch < 20; epoch++) {
		CHECK_EQ(enter(&fx->call, 1, epoch, epoch % WINDOWS, true, &in, &wait), 0);
		CHECK_EQ(in, epoch % WINDOWS);
	}
	CHECK_EQ(enter(&fx->call, 1, 17, 0, true, &in, &wait), 0);
	CHECK_EQ(in, 7);
}

static void verdicts_are_for_services_and_for_the_registration_that_they_name(struct fixture *fx)
{
	struct job_seen seen;
	make_dir(&fx->call, META_ROOT, "data");
	CHECK_EQ(add_as(&fx->call, 1), 0);
	CHECK_EQ(meta_client_job_get(&fx->call, 0, 1, &fx->arena, &seen), 0);
	CHECK_EQ(seen.state.verdict.at_ms, 0);
	struct job_judged j = {.tenant = TENANT,
			       .id = 1,
			       .stamp = seen.state.stamp,
			       .verdict = {.at_ms = 100, .keep = JOB_KEEP_PART, .share = 300000}};
	struct job_judged list[3] = {j, j, j};
	list[0].id = 77; /* a job that is gone does not keep the others from theirs */
	list[2].stamp++;
	list[2].verdict.at_ms = 200;
	CHECK_EQ(meta_client_job_judge(&fx->root, list, 3), 0);
	CHECK_EQ(meta_client_job_get(&fx->call, 0, 1, &fx->arena, &seen), 0);
	CHECK_EQ(seen.state.verdict.at_ms, 100);
	CHECK_EQ(seen.state.verdict.share, 300000);
	/* an older one changes nothing, and reports leave it alone */
	j.verdict = (struct job_verdict){.at_ms = 99, .keep = JOB_KEEP_ALL};
	CHECK_EQ(meta_client_job_judge(&fx->root, &j, 1), 0);
	CHECK_EQ(meta_client_job_report(&fx->call, 1, NULL), 0);
	CHECK_EQ(meta_client_job_get(&fx->call, 0, 1, &fx->arena, &seen), 0);
	CHECK_EQ(seen.state.verdict.keep, JOB_KEEP_PART);
	j.verdict = (struct job_verdict){.at_ms = 300, .share = JOB_RANGE_WHOLE + 1};
	CHECK_EQ(meta_client_job_judge(&fx->root, &j, 1), -EINVAL);
	j.verdict = (struct job_verdict){.at_ms = 0};
	CHECK_EQ(meta_client_job_judge(&fx->root, &j, 1), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_job_is_kept_with_the_ids_of_its_parts),
		TEST(specs_that_lie_are_refused),
		TEST(two_jobs_cannot_share_an_id),
		TEST(reports_are_checked_and_never_go_back),
		TEST_SIM(a_job_stops_counting_when_its_lease_ends),
		TEST_SIM(a_view_keeps_its_jobs_when_no_server_answers),
		TEST_SIM(old_jobs_make_room),
		TEST_SECURED(a_job_belongs_to_its_identity_and_tenant),
		TEST(a_tenant_does_not_see_jobs_of_another),
		TEST(large_specs_are_listed_page_by_page),
		TEST(an_epoch_begins_where_the_other_jobs_are),
		TEST(a_job_waits_for_those_two_windows_behind_until_it_forces_its_way),
		TEST_SIM(a_job_that_is_silent_holds_nobody),
		TEST(windows_that_do_not_exist_are_refused),
		TEST(verdicts_are_for_services_and_for_the_registration_that_they_name),
	};
	log_set_level(LOG_OFF);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
/* Traffic groups of the cluster: clients keep to quotas that metadata servers tell them. */
#include <math.h>

#include "meta_api/group.h"
#include "meta_api/wire.h"
#include "meta_service_fixture.h"

#define FIBERS 8
#define WARM_NS (2 * NS_PER_S)

/* --- fixture ------------------------------------------------------------------------------------ */

static void put_note(struct fixture *fx, const char *name, const char *text)
{
	struct meta_note note = {.text = text};
	CHECK(text != NULL);
	snprintf(note.name, sizeof(note.name), "%s", name);
	int rc = meta_client_note_put(&fx->root, &note);
	if (rc == -ESTALE) /* the note's turn is set now */
		rc = meta_client_note_put(&fx->root, &note);
	CHECK_EQ(rc, 0);
}

static uint32_t set_group(struct fixture *fx, const char *tenant, const char *name,
			  enum traffic_class class, uint64_t queries)
{
	struct meta_tenant t;
	struct meta_group g = {.traffic_class = class, .quota = {1000, queries}};
	char note[META_NOTE_NAME_MAX + 1];
	CHECK_EQ(meta_client_tenant_get(&fx->root, 0, tenant, &t), 0);
	g.tenant = t.id;
	snprintf(g.tenant_name, sizeof(g.tenant_name), "%s", tenant);
	snprintf(g.name, sizeof(g.name), "%s", name);
	g.id = meta_group_id(tenant, name);
	meta_group_note(note, g.id);
	char *text = meta_group_text(&g);
	put_note(fx, note, text);
	free(text);
	return g.id;
}

static void set_capacity(struct fixture *fx, uint64_t iops, uint64_t queries)
{
	char *text = meta_capacity_text((uint64_t[]){iops, queries});
	put_note(fx, META_GROUPS_CAPACITY, text);
	free(text);
}

static void add_tenant(struct fixture *fx, uint32_t id, const char *name)
{
	struct meta_tenant t = {.id = id};
	snprintf(t.name, sizeof(t.name), "%s", name);
	CHECK_EQ(meta_client_tenant_create(&fx->root, &t), 0);
}

/* A client of its own, with fibers that look up a name again and again: without a limit at most 8,000 times a second. */
struct user {
	struct fixture *fixture;
	struct meta_client *client;
	const struct context *context;
	struct rt_group fibers;
	uint64_t done;
	bool stop;
};

static struct meta_client *open_sharing(struct fixture *fx, const char *tenant)
{
	struct meta_client *c = NULL;
	const char *addrs[SERVERS] = {fx->servers[0].addr, fx->servers[1].addr};
	CHECK_EQ(meta_client_open(&c, &(struct meta_client_options){.addrs = addrs,
								    .addr_count = SERVERS,
								    .tenant = tenant,
								    .channel = {.pool = &fx->pool},
								    .shares = true}),
		 0);
	return c;
}

static void user_fiber(void *arg)
{
	struct user *u = arg;
	rt_context_set(u->context);
	while (!u->stop) {
		struct meta_call c = {.client = u->client};
		struct meta_entry e;
		CHECK_EQ(meta_client_lookup(&c, META_ROOT, meta_name("none"), &e), -ENOENT);
		u->done++;
		CHECK_EQ(rt_sleep_ns(NS_PER_MS), 0);
	}
}

static void user_open(struct user *u, struct fixture *fx, const char *tenant, const char *group)
{
	*u = (struct user){.fixture = fx, .client = open_sharing(fx, tenant)};
	CHECK_EQ(context_new(&u->context, &(struct context){.tenant = tenant,
							    .traffic_group = group,
							    .traffic_class = TRAFFIC_SILVER}),
		 0);
	rt_group_init(&u->fibers);
}

static void user_start(struct user *u)
{
	for (int i = 0; i < FIBERS; i++)
		CHECK_EQ(rt_group_spawn(&u->fibers, "user", user_fiber, u), 0);
}

static void user_close(struct user *u)
{
	u->stop = true;
	rt_group_join(&u->fibers);
	meta_client_close(u->client);
	context_unref(u->context);
}

static void sleep_ns(uint64_t ns)
{
	CHECK_EQ(rt_sleep_ns(ns), 0);
}

/* Returns the queries per second that the users get in the next second. */
static void measure(struct user *users, size_t n, double *rates)
{
	for (size_t i = 0; i < n; i++)
		users[i].done = 0;
	sleep_ns(NS_PER_S);
	for (size_t i = 0; i < n; i++)
		rates[i] = (double)users[i].done;
}

static void check_near(double got, double want)
{
	if (fabs(got - want) > 0.1 * want)
		fprintf(stderr, "got %f, want %f\n", got, want);
	CHECK(fabs(got - want) <= 0.1 * want);
}

/* --- shares ------------------------------------------------------------------------------------- */

/* The goal of the paper's counters: within 10% of the shares in 2 s. */
static void clients_that_know_nothing_of_each_other_get_their_shares(struct fixture *fx)
{
	struct user users[3];
	double rates[3];
	add_tenant(fx, 2, "other");
	(void)set_group(fx, "default", "train", TRAFFIC_SILVER, 600);
	(void)set_group(fx, "other", "etl", TRAFFIC_SILVER, 200);
	sleep_ns(NS_PER_S);
	user_open(&users[0], fx, "default", "train");
	user_open(&users[1], fx, "default", "train");
	user_open(&users[2], fx, "other", "etl");
	sleep_ns(NS_PER_S);
	for (int i = 0; i < 3; i++)
		user_start(&users[i]);
	sleep_ns(WARM_NS);
	measure(users, 3, rates);
	check_near(rates[0], 300);
	check_near(rates[1], 300);
	check_near(rates[2], 200);

	/* What a group leaves is lent, and comes back. */
	user_close(&users[0]);
	user_close(&users[1]);
	sleep_ns(WARM_NS);
	measure(&users[2], 1, rates);
	check_near(rates[0], 800);
	user_open(&users[0], fx, "default", "train");
	user_start(&users[0]);
	sleep_ns(WARM_NS);
	measure(users, 1, rates);
	check_near(rates[0], 600);
	measure(&users[2], 1, rates);
	check_near(rates[0], 200);
	user_close(&users[0]);
	user_close(&users[2]);
}

static void quotas_change_without_a_restart(struct fixture *fx)
{
	struct user users[1];
	double rate;
	user_open(&users[0], fx, "default", "train");
	user_start(&users[0]);
	sleep_ns(NS_PER_S);
	measure(users, 1, &rate);
	CHECK(rate > 2000); /* nothing is limited */
	for (uint64_t quota = 200; quota <= 600; quota += 400) {
		(void)set_group(fx, "default", "train", TRAFFIC_GOLD, quota);
		sleep_ns(WARM_NS + NS_PER_S);
		measure(users, 1, &rate);
		check_near(rate, (double)quota);
	}
	char note[META_NOTE_NAME_MAX + 1];
	meta_group_note(note, meta_group_id("default", "train"));
	put_note(fx, note, "");
	sleep_ns(WARM_NS);
	measure(users, 1, &rate);
	CHECK(rate > 2000);
	user_close(&users[0]);
}

static void groups_that_are_not_listed_share_what_is_left(struct fixture *fx)
{
	struct user users[2];
	double rates[2];
	(void)set_group(fx, "default", "train", TRAFFIC_GOLD, 300);
	sleep_ns(NS_PER_S);
	user_open(&users[0], fx, "default", "train");
	user_open(&users[1], fx, "default", "invented");
	user_start(&users[0]);
	user_start(&users[1]);
	sleep_ns(WARM_NS);
	measure(users, 2, rates);
	check_near(rates[0], 300);
	CHECK(rates[1] > 2000); /* the capacity is not known */
	set_capacity(fx, 0, 450);
	sleep_ns(WARM_NS + NS_PER_S);
	measure(users, 2, rates);
	check_near(rates[0], 300);
	check_near(rates[1], 150);
	user_close(&users[0]);
	user_close(&users[1]);
}

/* The server that adds up the counters ends: clients go on with the next one. */
static void clients_share_when_a_server_ends(struct fixture *fx)
{
	struct user users[2];
	double rates[2];
	(void)set_group(fx, "default", "train", TRAFFIC_SILVER, 400);
	sleep_ns(NS_PER_S);
	for (int i = 0; i < 2; i++)
		user_open(&users[i], fx, "default", "train");
	sleep_ns(NS_PER_S);
	for (int i = 0; i < 2; i++)
		user_start(&users[i]);
	server_stop(&fx->servers[0]);
	sleep_ns(2 * WARM_NS);
	measure(users, 2, rates);
	check_near(rates[0], 200);
	check_near(rates[1], 200);
	server_start(&fx->servers[0]);
	sleep_ns(4 * WARM_NS);
	measure(users, 2, rates);
	check_near(rates[0], 200);
	check_near(rates[1], 200);
	user_close(&users[0]);
	user_close(&users[1]);
}

/* --- refusals and classes ----------------------------------------------------------------------- */

static void a_request_beyond_its_deadline_is_refused_before_it_is_sent(struct fixture *fx)
{
	struct user u;
	struct meta_entry e;
	struct meta_client_stats before, after;
	struct meta_share_stats stats;
	uint32_t id = set_group(fx, "default", "train", TRAFFIC_GOLD, 1);
	sleep_ns(NS_PER_S);
	user_open(&u, fx, "default", "train");
	sleep_ns(NS_PER_S);
	AUTO_RT_CONTEXT const struct context *old = rt_context_enter(u.context);
	struct meta_call c = {.client = u.client, .timeout_ns = 100 * NS_PER_MS};
	CHECK_EQ(meta_client_lookup(&c, META_ROOT, meta_name("none"), &e), -ENOENT);
	meta_client_stats(u.client, &before);
	uint64_t begin_ns = rt_now_ns();
	CHECK_EQ(meta_client_lookup(&c, META_ROOT, meta_name("none"), &e), -ETIME);
	CHECK(rt_now_ns() - begin_ns < 10 * NS_PER_MS); /* at once, not at the deadline */
	CHECK(strstr(c.error, "quota") != NULL && !c.in_doubt);
	meta_client_stats(u.client, &after);
	CHECK_EQ(after.calls, before.calls);
	CHECK_EQ(meta_client_share_stats(u.client, META_QUERIES, id, &stats), 0);
	CHECK(stats.refused == 1 && stats.sent == 1 && stats.quota == 1);
	/* With time, the request waits and is sent. */
	c.timeout_ns = 10 * NS_PER_S;
	CHECK_EQ(meta_client_lookup(&c, META_ROOT, meta_name("none"), &e), -ENOENT);
	CHECK(rt_now_ns() - begin_ns > 300 * NS_PER_MS);
	user_close(&u);
}

static void admit_fiber(void *arg)
{
	struct user *u = arg;
	enum traffic_class as;
	rt_context_set(u->context);
	u->done = (uint64_t)-meta_client_admit(u->client, META_QUERIES, 1, &as);
}

static void a_cancelled_request_leaves_the_limiter(struct fixture *fx)
{
	struct user u;
	struct meta_share_stats stats;
	struct rt_fiber *f;
	uint32_t id = set_group(fx, "default", "train", TRAFFIC_GOLD, 1);
	sleep_ns(NS_PER_S);
	user_open(&u, fx, "default", "train");
	sleep_ns(NS_PER_S);
	admit_fiber(&u);
	CHECK_EQ(u.done, 0);
	CHECK_EQ(rt_spawn(&f, "user", admit_fiber, &u), 0);
	sleep_ns(NS_PER_S / 4);
	CHECK_EQ(meta_client_share_stats(u.client, META_QUERIES, id, &stats), 0);
	CHECK_EQ(stats.waiting, 1);
	rt_cancel(f);
	rt_join(f);
	CHECK_EQ(u.done, ECANCELED);
	CHECK_EQ(meta_client_share_stats(u.client, META_QUERIES, id, &stats), 0);
	CHECK(stats.waiting == 0 && stats.sent == 1);
	user_close(&u);
}

static void borrowed_capacity_has_the_worse_class(struct fixture *fx)
{
	struct user u;
	enum traffic_class as;
	unsigned seen[TRAFFIC_BRONZE + 1] = {0};
	(void)set_group(fx, "default", "train", TRAFFIC_GOLD, 100);
	(void)set_group(fx, "default", "logs", TRAFFIC_BRONZE, 100);
	sleep_ns(NS_PER_S);
	user_open(&u, fx, "default", "train");
	sleep_ns(NS_PER_S);
	AUTO_CONTEXT const struct context *gold = NULL;
	CHECK_EQ(context_new(&gold, &(struct context){.tenant = "default",
						      .traffic_group = "train",
						      .traffic_class = TRAFFIC_GOLD}),
		 0);
	AUTO_RT_CONTEXT const struct context *old = rt_context_enter(gold);
	for (int i = 0; i < 500; i++) {
		CHECK_EQ(meta_client_admit(u.client, META_QUERIES, 1, &as), 0);
		seen[as]++;
	}
	CHECK(seen[TRAFFIC_GOLD] > 200 && seen[TRAFFIC_BRONZE] > 100);
	CHECK_EQ(seen[TRAFFIC_GOLD] + seen[TRAFFIC_BRONZE], 500);
	/* The request is sent with that class. */
	AUTO_RT_CONTEXT const struct context *before;
	do {
		CHECK_EQ(meta_client_enter(u.client, META_QUERIES, 1, &before), 0);
		as = rt_context()->traffic_class;
		if (as != TRAFFIC_BRONZE)
			rt_context_leave(before);
	} while (as != TRAFFIC_BRONZE);
	CHECK_EQ(strcmp(rt_context()->traffic_group, "train"), 0);
	user_close(&u);
}

static void disk_time_has_a_quota_of_its_own(struct fixture *fx)
{
	struct user u;
	enum traffic_class as;
	(void)set_group(fx, "default", "train", TRAFFIC_GOLD, 0);
	sleep_ns(NS_PER_S);
	user_open(&u, fx, "default", "train");
	sleep_ns(NS_PER_S);
	AUTO_RT_CONTEXT const struct context *old = rt_context_enter(u.context);
	uint64_t begin_ns = rt_now_ns();
	/* 1 + 4 I/Os each, of 1000 per second */
	for (int i = 0; i < 600; i++)
		CHECK_EQ(meta_client_admit(u.client, META_DISK, meta_disk_cost(1, 4 * MIB), &as),
			 0);
	check_near((double)(rt_now_ns() - begin_ns), 3 * (double)NS_PER_S);
	begin_ns = rt_now_ns();
	for (int i = 0; i < 1000; i++)
		CHECK_EQ(meta_client_admit(u.client, META_QUERIES, 1, &as), 0);
	CHECK(rt_now_ns() - begin_ns < NS_PER_MS); /* no group has a quota of queries */
	user_close(&u);
}

/* A client of another tenant cannot take the share of a group by reporting a demand for it. */
static void reports_on_groups_of_others_do_not_count(struct fixture *fx)
{
	struct user u;
	double rate;
	add_tenant(fx, 2, "other");
	(void)set_group(fx, "default", "train", TRAFFIC_SILVER, 400);
	(void)set_group(fx, "other", "etl", TRAFFIC_SILVER, 400);
	sleep_ns(NS_PER_S);
	user_open(&u, fx, "default", "train");
	user_start(&u);
	struct rpc_channel *ch;
	CHECK_EQ(rpc_channel_open(&ch, fx->servers[0].addr,
				  &(struct rpc_channel_options){.pool = &fx->pool}),
		 0);
	AUTO_CONTEXT const struct context *other = NULL;
	CHECK_EQ(context_new(&other, &(struct context){.tenant = "other"}), 0);
	Terrane__Meta__ShareCounter lie = TERRANE__META__SHARE_COUNTER__INIT;
	lie.group = meta_group_id("default", "train");
	lie.demand = 1e9;
	lie.weight = 1;
	Terrane__Meta__ShareCounter *list[] = {&lie};
	for (int i = 0; i < 40; i++) {
		AUTO_RT_CONTEXT const struct context *old = rt_context_enter(other);
		Terrane__Meta__ShareRequest q = TERRANE__META__SHARE_REQUEST__INIT;
		q.client = 77;
		q.n_queries = 1;
		q.queries = list;
		AUTO_REPLY struct rpc_reply reply;
		struct rpc_call call = {.type = &meta_type_share, .request = &q.base};
		CHECK_EQ(rpc_call(ch, &call, &reply), 0);
		sleep_ns(100 * NS_PER_MS);
	}
	measure(&u, 1, &rate);
	CHECK(rate > 360);
	rpc_channel_close(ch);
	user_close(&u);
}

/* --- use ---------------------------------------------------------------------------------------- */

/* Adds up what both servers say of a group. */
static struct meta_traffic traffic_of(struct fixture *fx, const char *group)
{
	static struct meta_traffic got[META_TRAFFIC_MAX];
	struct meta_traffic sum = {0};
	for (int i = 0; i < SERVERS; i++) {
		struct meta_client *c;
		const char *addr = fx->servers[i].addr;
		CHECK_EQ(meta_client_open(
				 &c, &(struct meta_client_options){.addrs = &addr,
								   .addr_count = 1,
								   .tenant = META_SYSTEM,
								   .channel = {.pool = &fx->pool}}),
			 0);
		struct meta_call call = {.client = c};
		int64_t n = meta_client_traffic(&call, got);
		CHECK(n >= 0);
		for (int64_t k = 0; k < n; k++) {
			if (strcmp(got[k].group, group) != 0)
				continue;
			sum.requests += got[k].requests;
			sum.time_ns += got[k].time_ns;
			sum.clients_waiting += got[k].clients_waiting;
			sum.clients_throttled += got[k].clients_throttled;
		}
		meta_client_close(c);
	}
	return sum;
}

static void operators_see_what_groups_use(struct fixture *fx)
{
	struct user u;
	(void)set_group(fx, "default", "train", TRAFFIC_GOLD, 200);
	sleep_ns(NS_PER_S);
	user_open(&u, fx, "default", "train");
	user_start(&u);
	sleep_ns(WARM_NS);
	struct meta_traffic before = traffic_of(fx, "default/train");
	sleep_ns(NS_PER_S);
	struct meta_traffic after = traffic_of(fx, "default/train");
	check_near((double)(after.requests - before.requests), 200);
	CHECK(after.time_ns > before.time_ns);
	CHECK(after.clients_waiting > 0 && after.clients_waiting <= FIBERS);
	check_near(after.clients_throttled, 200);
	/* Others see nothing. */
	static struct meta_traffic none[META_TRAFFIC_MAX];
	struct meta_call c = {.client = u.client};
	CHECK(meta_client_traffic(&c, none) < 0);
	user_close(&u);
	sleep_ns(NS_PER_S);
	CHECK(traffic_of(fx, "default/train").clients_waiting == 0);
}

/* --- the catalogue ------------------------------------------------------------------------------ */

static struct meta_note note_of(const char *name, const char *text)
{
	struct meta_note n = {.turn = 1, .text = text};
	snprintf(n.name, sizeof(n.name), "%s", name);
	return n;
}

static void notes_of_groups_are_checked(void **state)
{
	static struct meta_groups g;
	struct meta_group one = {.tenant = 3,
				 .tenant_name = "vision",
				 .name = "train",
				 .traffic_class = TRAFFIC_BRONZE,
				 .quota = {70, 30}};
	char name[META_NOTE_NAME_MAX + 1];
	meta_group_note(name, meta_group_id("vision", "train"));
	AUTO_FREE char *text = meta_group_text(&one);
	struct meta_note note = note_of(name, text);
	assert_int_equal(meta_groups_add(&g, &note), 0);
	assert_int_equal(g.count, 1);
	assert_true(g.version != 0);
	assert_int_equal(g.list[0].traffic_class, TRAFFIC_BRONZE);
	assert_int_equal(g.list[0].quota[META_QUERIES], 30);
	assert_int_equal(g.list[0].id, meta_group_id("vision", "train"));
	static const char *const bad[] = {
		"{",
		"[]",
		"{}",
		"{\"id\":0,\"tenant\":\"vision\",\"group\":\"train\",\"class\":\"gold\",\"iops\":1,"
		"\"queries\":1}",
		"{\"id\":3,\"tenant\":\"vision\",\"group\":\"train\",\"class\":\"best\",\"iops\":1,"
		"\"queries\":1}",
		"{\"id\":3,\"tenant\":\"vision\",\"group\":\"train\",\"class\":\"gold\",\"iops\":-"
		"1,"
		"\"queries\":1}",
		"{\"id\":3,\"tenant\":\"vision\",\"group\":\"other\",\"class\":\"gold\",\"iops\":1,"
		"\"queries\":1}",
		"{\"id\":3,\"tenant\":\"vision\",\"group\":\"train\",\"class\":\"gold\",\"iops\":"
		"1000000001,\"queries\":1}",
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		note = note_of(name, bad[i]);
		assert_int_equal(meta_groups_add(&g, &note), -EINVAL);
		assert_int_equal(g.count, 1);
	}
	/* A removed group has an empty note. */
	note = note_of(name, "");
	assert_int_equal(meta_groups_add(&g, &note), 0);
	note = note_of(META_GROUPS_CAPACITY, "{\"iops\":100,\"queries\":20}");
	assert_int_equal(meta_groups_add(&g, &note), 0);
	assert_int_equal(meta_groups_other(&g, META_DISK), 30);
	assert_int_equal(meta_groups_other(&g, META_QUERIES), 0);
	assert_int_equal(meta_groups_weight(&g, 0, META_DISK), META_WEIGHT_ALL);
}

static void costs_grow_with_bytes_and_never_wrap(void **state)
{
	assert_int_equal(meta_disk_cost(1, 0), META_DISK_UNITS);
	assert_in_range(meta_disk_cost(1, MIB), 2 * META_DISK_UNITS - 2, 2 * META_DISK_UNITS + 2);
	assert_int_equal(meta_disk_cost(0, 1), 1);
	assert_true(meta_disk_cost(UINT64_MAX, UINT64_MAX) <= 1ULL << 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_SIM(clients_that_know_nothing_of_each_other_get_their_shares),
		TEST_SIM(quotas_change_without_a_restart),
		TEST_SIM(groups_that_are_not_listed_share_what_is_left),
		TEST_SIM(clients_share_when_a_server_ends),
		TEST_SIM(a_request_beyond_its_deadline_is_refused_before_it_is_sent),
		TEST_SIM(a_cancelled_request_leaves_the_limiter),
		TEST_SIM(borrowed_capacity_has_the_worse_class),
		TEST_SIM(disk_time_has_a_quota_of_its_own),
		TEST_SIM(reports_on_groups_of_others_do_not_count),
		TEST_SIM(operators_see_what_groups_use),
		cmocka_unit_test(notes_of_groups_are_checked),
		cmocka_unit_test(costs_grow_with_bytes_and_never_wrap),
	};
	log_set_level(LOG_OFF);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
/*
 * Checks the context that a store of a node gets with a request: a client whose tenant has the longest name writes, reads
 * and appends, against a simulated cluster. Linked with --wrap for store_dir_open, so that each disk's store checks the
 * context of the operations on data, and for meta_client_block_replace.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "client/engine_impl.h"
#include "janitor_fixture.h"
#include "store/dir.h"

int __real_store_dir_open(const char *path, const struct store_dir_options *options,
			  struct store **out);
int __wrap_store_dir_open(const char *path, const struct store_dir_options *options,
			  struct store **out);
int __real_meta_client_block_replace(struct meta_call *c, uint64_t block,
				     const struct meta_place *p);
int __wrap_meta_client_block_replace(struct meta_call *c, uint64_t block,
				     const struct meta_place *p);

/* a name of the greatest length, 64 bytes */
#define TENANT "vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv"
#define GROUP "a group of readers, with a name that is about as long as allowed"
#define OWN_GROUP "own"
#define BLOCK (256 * KIB)
#define DISKS 6

/* --- the store -------------------------------------------------------------------------------- */

enum kind { PUT, APPEND, GET, SEAL, KINDS };

static const struct store_ops *dir_ops; /* operations of the directory store, which all disks use */
static struct store_ops watched_ops;

/* The context that operations must carry, and how many did. own: the engine's own context. */
static struct context expected;
static unsigned right[KINDS], own[KINDS], wrong[KINDS];
static unsigned replaced_right, replaced_wrong;
/* time by which the next put is delayed */
static uint64_t hold_ns;
static bool held;
/* makes the next append fail */
static bool fail_one_append;

static bool is_expected(const struct context *c)
{
	return strcmp(c->tenant, expected.tenant) == 0 &&
	       strcmp(c->traffic_group, expected.traffic_group) == 0 &&
	       c->traffic_class == expected.traffic_class &&
	       c->authorization_len == expected.authorization_len &&
	       memcmp(c->authorization, expected.authorization, c->authorization_len) == 0 &&
	       c->tags.directory_id == expected.tags.directory_id &&
	       strcmp(c->tags.path, expected.tags.path) == 0 &&
	       c->tags.job_id == expected.tags.job_id &&
	       c->tags.placement_category == expected.tags.placement_category;
}

static bool is_own(const struct context *c)
{
	return strcmp(c->tenant, TENANT) == 0 && strcmp(c->traffic_group, OWN_GROUP) == 0 &&
	       c->traffic_class == TRAFFIC_BRONZE && c->authorization_len == 0 &&
	       c->tags.directory_id == 0 && c->tags.path[0] == 0 && c->tags.job_id == 0 &&
	       c->tags.placement_category == 0;
}

static void look(enum kind kind)
{
	const struct context *c = rt_context();
	if (expected.tenant == NULL)
		return;
	if (is_expected(c))
		right[kind]++;
	else if (is_own(c))
		own[kind]++;
	else
		wrong[kind]++;
	/* Every request of the client has a deadline. */
	CHECK(c->deadline_ns != CONTEXT_NO_DEADLINE && c->deadline_ns == rt_deadline());
}

static int watched_put(struct store *s, struct chunk_id id, const struct store_put *p)
{
	look(PUT);
	uint64_t wait_ns = hold_ns;
	hold_ns = 0;
	if (wait_ns > 0) {
		held = true;
		CHECK_EQ(rt_sleep_ns(wait_ns), 0);
		look(PUT);
	}
	return dir_ops->put(s, id, p);
}

static int watched_append(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t off,
			  const struct store_data *data)
{
	look(APPEND);
	if (fail_one_append) {
		fail_one_append = false;
		return -EIO;
	}
	return dir_ops->append(s, id, epoch, off, data);
}

static int watched_get(struct store *s, struct chunk_id id, uint64_t off, void *buf, uint64_t len,
		       uint32_t *crc)
{
	look(GET);
	return dir_ops->get(s, id, off, buf, len, crc);
}

static int watched_seal(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t len)
{
	look(SEAL);
	return dir_ops->seal(s, id, epoch, len);
}

int __wrap_store_dir_open(const char *path, const struct store_dir_options *options,
			  struct store **out)
{
	int rc = __real_store_dir_open(path, options, out);
	if (rc < 0)
		return rc;
	dir_ops = (*out)->ops;
	watched_ops = *dir_ops;
	watched_ops.put = watched_put;
	watched_ops.append = watched_append;
	watched_ops.get = watched_get;
	watched_ops.seal = watched_seal;
	(*out)->ops = &watched_ops;
	return 0;
}

/* Called when a chunk that was stored late is added to the block's record. */
int __wrap_meta_client_block_replace(struct meta_call *c, uint64_t block,
				     const struct meta_place *p)
{
	if (is_expected(rt_context()))
		replaced_right++;
	else
		replaced_wrong++;
	return __real_meta_client_block_replace(c, block, p);
}

static void expect(const struct context *c)
{
	replaced_right = replaced_wrong = 0;
	expected = c != NULL ? *c : (struct context){0};
	memset(right, 0, sizeof(right));
	memset(own, 0, sizeof(own));
	memset(wrong, 0, sizeof(wrong));
}

/* Checks that all operations of this kind since expect() had the context, and that there were at
 * least so many. */
static void all_right(enum kind kind, unsigned at_least)
{
	CHECK_EQ(wrong[kind], 0);
	CHECK_EQ(own[kind], 0);
	CHECK(right[kind] >= at_least);
}

static void none_wrong(void)
{
	for (int k = 0; k < KINDS; k++)
		CHECK(wrong[k] == 0 && own[k] == 0);
}

/* --- the client ------------------------------------------------------------------------------- */

static const uint8_t authorization[] = {7, 0, 255, 7};
static const struct context whole = {.tenant = TENANT,
				     .traffic_group = GROUP,
				     .traffic_class = TRAFFIC_GOLD,
				     .authorization = authorization,
				     .authorization_len = sizeof(authorization),
				     .tags = {.directory_id = 41,
					      .path = "/data/set/one",
					      .job_id = 42,
					      .placement_category = 43}};

struct user {
	struct janitor_fixture jf;
	struct engine *engine;
};

static void user_open(struct user *u, struct client_fixture *fx,
		      const struct fabric_options *fabric)
{
	struct meta_tenant t = {.id = 2, .name = TENANT, .quota_bytes = GIB};
	char why[FABRIC_ERROR_MAX];
	struct engine_options o = {.metadata = "meta:7100",
				   .tenant = TENANT,
				   .traffic_group = OWN_GROUP,
				   .traffic_class = TRAFFIC_BRONZE,
				   .fabric = *fabric};
	held = fail_one_append = false;
	hold_ns = 0;
	expect(NULL);
	janitor_fixture_open(&u->jf, fx);
	CHECK_EQ(strlen(TENANT), META_TENANT_NAME_MAX);
	CHECK_EQ(meta_client_tenant_create(&u->jf.root, &t), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	CHECK_EQ(engine_open(&u->engine, &o, why), 0);
	CHECK(rt_context() == context_empty());
}

static void user_close(struct user *u)
{
	expect(NULL);
	rt_background();
	engine_close(u->engine);
	janitor_fixture_close(&u->jf);
}

/* Does what a service does with a request: authorization and path come from the fiber's context,
 * whose memory is freed before the call begins. */
static void call_as(struct user *u, struct call *c, const struct context *like,
		    struct terrane_options *o)
{
	char path[64], group[80];
	uint8_t bytes[sizeof(authorization)];
	snprintf(path, sizeof(path), "%s", like->tags.path);
	snprintf(group, sizeof(group), "%s", like->traffic_group);
	memcpy(bytes, like->authorization, sizeof(bytes));
	struct context from = {
		.authorization = bytes, .authorization_len = sizeof(bytes), .tags = {.path = path}};
	const struct context *request;
	rt_background();
	CHECK_EQ(context_new(&request, &from), 0);
	rt_context_set(request);
	context_unref(request);
	o->traffic_class = (enum terrane_class)like->traffic_class;
	o->traffic_group = group;
	o->job_id = like->tags.job_id;
	o->directory_id = like->tags.directory_id;
	o->placement_category = like->tags.placement_category;
	CHECK_EQ(engine_call(u->engine, c, o), 0);
	o->traffic_group = NULL;
	memset(path, 'x', sizeof(path));
	memset(group, 'x', sizeof(group));
	memset(bytes, 'x', sizeof(bytes));
}

static int add(struct call *c, struct efile *f, uint64_t at, uint64_t len)
{
	uint8_t *bytes = malloc(len);
	CHECK(bytes != NULL);
	fixture_fill(1, at, bytes, len);
	struct iovec iov = {bytes, len};
	int rc = engine_append(c, f, &iov, 1, NULL);
	free(bytes);
	return rc;
}

static void read_as(struct user *u, const struct context *like, const char *path, uint64_t len)
{
	struct terrane_options o = {0};
	struct call c;
	struct efile *f;
	uint32_t crc;
	uint8_t *bytes = malloc(len);
	struct iovec iov = {bytes, len};
	call_as(u, &c, like, &o);
	CHECK_EQ(engine_file_open(&c, path, &f), 0);
	CHECK_EQ(engine_preadv(&c, f, &iov, 1, 0, &crc), (int64_t)len);
	CHECK(fixture_same(1, 0, bytes, len));
	CHECK_EQ(engine_file_close(&c, f), 0);
	free(bytes);
}

/* --- sealed files ------------------------------------------------------------------------------ */

static void write_as(struct user *u, const struct context *like, const char *path, uint64_t len)
{
	struct terrane_options o = {.encoding = "r3", .block_bytes = BLOCK};
	struct call c;
	struct efile *f;
	call_as(u, &c, like, &o);
	CHECK_EQ(engine_create(&c, path, 0, &o, &f), 0);
	CHECK_EQ(add(&c, f, 0, len), 0);
	CHECK_EQ(engine_file_close(&c, f), 0);
}

CLIENT_TEST(a_store_sees_the_context_of_puts_and_gets, DISKS, 1)
{
	struct user u;
	user_open(&u, fx, &(struct fabric_options){0});
	expect(&whole);
	write_as(&u, &whole, "/file", 3 * BLOCK);
	CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	all_right(PUT, 9);
	read_as(&u, &whole, "/file", 3 * BLOCK);
	all_right(GET, 3);
	none_wrong();
	/* If the caller names no directory, the tag is the file's directory. */
	struct context unnamed = whole;
	struct terrane_stat st;
	struct call c;
	rt_background();
	CHECK_EQ(engine_call(u.engine, &c, NULL), 0);
	CHECK_EQ(engine_mkdir(&c, "/dir", 0), 0);
	CHECK_EQ(engine_stat(&c, "/dir", &st), 0);
	unnamed.tags.directory_id = st.id;
	expect(&unnamed);
	unnamed.tags.directory_id = 0;
	write_as(&u, &unnamed, "/dir/file", 3 * BLOCK);
	CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	all_right(PUT, 9);
	read_as(&u, &unnamed, "/dir/file", 3 * BLOCK);
	all_right(GET, 3);
	none_wrong();
	user_close(&u);
}

/* Blocks carry the context of the call that created the file, not of the append that filled the
 * block. */
CLIENT_TEST(blocks_of_a_file_carry_the_context_of_its_creation, DISKS, 1)
{
	struct user u;
	struct terrane_options o = {.encoding = "r3", .block_bytes = BLOCK};
	struct context other = whole;
	struct call c;
	struct efile *f;
	user_open(&u, fx, &(struct fabric_options){0});
	call_as(&u, &c, &whole, &o);
	CHECK_EQ(engine_create(&c, "/file", 0, &o, &f), 0);
	expect(&whole);
	other.traffic_group = "another";
	other.tags.job_id = 99;
	call_as(&u, &c, &other, &(struct terrane_options){0});
	CHECK_EQ(add(&c, f, 0, 2 * BLOCK + 10), 0);
	CHECK_EQ(engine_file_close(&c, f), 0);
	CHECK_EQ(rt_context()->tags.job_id, 99);
	CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	all_right(PUT, 9);
	user_close(&u);
}

/* --- chunks stored late ------------------------------------------------------------------------- */

#define HOLD_NS (3 * NS_PER_S)

/* One disk stores its chunk only after the call has returned with a quorum. Then the chunk is
 * added to the record. */
CLIENT_TEST(a_chunk_that_comes_after_the_call_carries_its_context, DISKS, 1)
{
	struct user u;
	user_open(&u, fx, &(struct fabric_options){0});
	expect(&whole);
	hold_ns = HOLD_NS;
	uint64_t start_ns = rt_now_ns();
	write_as(&u, &whole, "/file", 1000);
	rt_background();
	CHECK(rt_now_ns() - start_ns < HOLD_NS);
	CHECK(held);
	all_right(PUT, 3);
	CHECK_EQ(right[PUT], 3);
	CHECK_EQ(rt_sleep_ns(2 * HOLD_NS), 0);
	CHECK_EQ(right[PUT], 4); /* the call looked up the record twice */
	none_wrong();
	CHECK_EQ(replaced_right, 1);
	CHECK_EQ(replaced_wrong, 0);
	expect(NULL);
	CHECK_EQ(check_whole(&u.jf), 1);
	user_close(&u);
}

/* --- packed files ------------------------------------------------------------------------------- */

CLIENT_TEST(a_store_sees_the_context_of_packed_files, DISKS, 1)
{
	static char bytes[3][5000];
	struct terrane_small files[3] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
	struct terrane_options o = {.encoding = "r3", .block_bytes = BLOCK};
	struct terrane_stat st;
	struct user u;
	struct call c;
	user_open(&u, fx, &(struct fabric_options){0});
	CHECK_EQ(engine_call(u.engine, &c, NULL), 0);
	CHECK_EQ(engine_mkdir(&c, "/dir", 0), 0);
	CHECK_EQ(engine_stat(&c, "/dir", &st), 0);
	for (int i = 0; i < 3; i++) {
		files[i].data = bytes[i];
		files[i].len = sizeof(bytes[i]);
	}
	expect(&whole);
	call_as(&u, &c, &whole, &o);
	CHECK_EQ(engine_pack(&c, "/dir", files, 3, 0, &o), 0);
	CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	all_right(PUT, 3);
	struct engine_range ranges[3];
	for (int i = 0; i < 3; i++)
		ranges[i] = (struct engine_range){
			.id = files[i].id, .len = sizeof(bytes[i]), .buf = bytes[i]};
	CHECK_EQ(engine_read_batch(&c, ranges, 3, NULL, NULL), 0);
	all_right(GET, 1);
	none_wrong();
	struct context unnamed = whole;
	unnamed.tags.directory_id = st.id;
	expect(&unnamed);
	unnamed.tags.directory_id = 0;
	call_as(&u, &c, &unnamed, &o);
	CHECK_EQ(engine_pack(&c, "/dir", files, 3, TERRANE_REPLACE, &o), 0);
	CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	all_right(PUT, 3);
	none_wrong();
	user_close(&u);
}

/* --- logs --------------------------------------------------------------------------------------- */

/* The fibers of the replicas live as long as the open block and send the parts of many calls. */
CLIENT_TEST(each_append_to_a_log_carries_its_own_context, DISKS, 1)
{
	struct user u;
	struct terrane_options o = {.encoding = "r3", .block_bytes = BLOCK};
	struct context like = whole;
	struct call c;
	struct efile *f;
	user_open(&u, fx, &(struct fabric_options){0});
	expect(&whole);
	call_as(&u, &c, &whole, &o);
	CHECK_EQ(engine_create(&c, "/log", TERRANE_LOG, &o, &f), 0);
	for (uint64_t i = 0; i < 5; i++) {
		like.tags.job_id = 42 + i;
		like.traffic_class = i % 2 == 0 ? TRAFFIC_GOLD : TRAFFIC_SILVER;
		expect(&like);
		call_as(&u, &c, &like, &(struct terrane_options){0});
		CHECK_EQ(add(&c, f, i * 1000, 1000), 0);
		/* the third replica may be stored after the quorum */
		CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
		all_right(APPEND, 3);
		CHECK_EQ(right[APPEND], 3);
		all_right(PUT, i == 0 ? 3 : 0);
		none_wrong();
	}
	like.tags.job_id = 77;
	expect(&like);
	call_as(&u, &c, &like, &(struct terrane_options){0});
	CHECK_EQ(engine_file_close(&c, f), 0);
	CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	all_right(SEAL, 3);
	none_wrong();
	user_close(&u);
}

/* The log's monitor was started in a call of a user and ends a block that lacks a replica long
 * after that call. */
CLIENT_TEST(the_keeper_of_a_log_carries_no_users_context, DISKS, 1)
{
	struct user u;
	struct terrane_options o = {.encoding = "r3", .block_bytes = BLOCK};
	struct call c;
	struct efile *f;
	user_open(&u, fx,
		  &(struct fabric_options){.log_check_ns = NS_PER_S,
					   .log_degraded_ns = 2 * NS_PER_S});
	call_as(&u, &c, &whole, &o);
	CHECK_EQ(engine_create(&c, "/log", TERRANE_LOG, &o, &f), 0);
	CHECK_EQ(add(&c, f, 0, 1000), 0);
	CHECK_EQ(rt_sleep_ns(NS_PER_S / 2), 0);
	/* The disk of a replica refuses all appends from now on. */
	uint64_t blocks[1];
	CHECK_EQ(elogs_blocks(u.engine, blocks, 1), 1);
	fail_one_append = true;
	expect(&whole);
	CHECK_EQ(add(&c, f, 1000, 1000), 0);
	rt_background();
	CHECK_EQ(rt_sleep_ns(20 * NS_PER_S), 0);
	CHECK_EQ(elogs_blocks(u.engine, blocks, 1), 0);
	all_right(APPEND, 2);
	CHECK(own[SEAL] >= 2);
	CHECK_EQ(right[SEAL], 0);
	CHECK_EQ(wrong[SEAL], 0);
	expect(NULL);
	call_as(&u, &c, &whole, &o);
	CHECK_EQ(engine_file_close(&c, f), 0);
	user_close(&u);
}

/* --- invalid options --------------------------------------------------------------------------- */

CLIENT_TEST(a_call_whose_options_cannot_be_is_refused_in_words, 1, 1)
{
	static char group[CONTEXT_GROUP_MAX + 2];
	struct user u;
	struct call c;
	user_open(&u, fx, &(struct fabric_options){0});
	memset(group, 'g', sizeof(group) - 1);
	struct terrane_options o = {.traffic_group = group};
	CHECK_EQ(engine_call(u.engine, &c, &o), -EMSGSIZE);
	CHECK(strstr(c.error, "traffic group") != NULL);
	CHECK(rt_context() == context_empty());
	o = (struct terrane_options){.traffic_class = (enum terrane_class)99};
	CHECK_EQ(engine_call(u.engine, &c, &o), -EINVAL);
	CHECK(strstr(c.error, "traffic class") != NULL);
	group[CONTEXT_GROUP_MAX] = 0;
	o = (struct terrane_options){.traffic_group = group};
	CHECK_EQ(engine_call(u.engine, &c, &o), 0);
	CHECK(strcmp(rt_context()->traffic_group, group) == 0);
	user_close(&u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_store_sees_the_context_of_puts_and_gets),
		cmocka_unit_test(blocks_of_a_file_carry_the_context_of_its_creation),
		cmocka_unit_test(a_chunk_that_comes_after_the_call_carries_its_context),
		cmocka_unit_test(a_store_sees_the_context_of_packed_files),
		cmocka_unit_test(each_append_to_a_log_carries_its_own_context),
		cmocka_unit_test(the_keeper_of_a_log_carries_no_users_context),
		cmocka_unit_test(a_call_whose_options_cannot_be_is_refused_in_words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

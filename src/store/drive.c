// SPDX-License-Identifier: Apache-2.0
#include "store/drive.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "rt/rt.h"
#include "rt/sync.h"

const struct drive_spec drive_hdd = {
	.name = "hdd",
	.size_bytes = 20000000000000ULL,
	.read_bytes_per_s = 200000000,
	.write_bytes_per_s = 200000000,
	.seek_min_ns = 800 * NS_PER_US,
	.seek_max_ns = 15200 * NS_PER_US,
	.turn_ns = 60 * NS_PER_S / 7200,
	.channels = 1,
	.queue_depth = 32,
};

const struct drive_spec drive_sata = {
	.name = "sata",
	.size_bytes = 4000000000000ULL,
	.read_bytes_per_s = 550000000,
	.write_bytes_per_s = 520000000,
	.read_latency_ns = 80 * NS_PER_US,
	.write_latency_ns = 30 * NS_PER_US,
	.channels = 8,
	.queue_depth = 32,
};

const struct drive_spec drive_nvme = {
	.name = "nvme",
	.size_bytes = 4000000000000ULL,
	.read_bytes_per_s = 3500000000,
	.write_bytes_per_s = 3000000000,
	.read_latency_ns = 70 * NS_PER_US,
	.write_latency_ns = 20 * NS_PER_US,
	.channels = 64,
	.queue_depth = 1024,
};

const struct drive_spec *drive_preset(const char *name)
{
	static const struct drive_spec *const presets[] = {&drive_hdd, &drive_sata, &drive_nvme};
	for (size_t i = 0; i < ARRAY_LEN(presets); i++)
		if (strcmp(name, presets[i]->name) == 0)
			return presets[i];
	return NULL;
}

int drive_init(struct drive *d, const struct drive_spec *spec)
{
	if (spec->size_bytes == 0 || spec->read_bytes_per_s == 0 || spec->write_bytes_per_s == 0 ||
	    spec->channels == 0 || spec->channels > DRIVE_CHANNELS_MAX ||
	    spec->queue_depth < spec->channels || spec->seek_min_ns > spec->seek_max_ns)
		return -EINVAL;
	*d = (struct drive){.spec = *spec};
	list_init(&d->queue);
	list_init(&d->backlog);
	return 0;
}

/* --- durations -------------------------------------------------------------------------------- */

static uint64_t transfer_ns(const struct drive_spec *spec, uint64_t bytes, bool write)
{
	uint64_t rate = write ? spec->write_bytes_per_s : spec->read_bytes_per_s;
	uint64_t second_ns = NS_PER_S;
	return (uint64_t)((unsigned __int128)bytes * second_ns / rate);
}

/* Returns the time from now_ns until the byte at `to` is under the head. */
static uint64_t turn_wait_ns(const struct drive_spec *spec, uint64_t to, uint64_t now_ns)
{
	if (spec->turn_ns == 0)
		return 0;
	uint64_t second_ns = NS_PER_S;
	uint64_t track_bytes =
		(uint64_t)((unsigned __int128)spec->read_bytes_per_s * spec->turn_ns / second_ns);
	if (track_bytes == 0)
		return 0;
	uint64_t angle_ns =
		(uint64_t)((unsigned __int128)(to % track_bytes) * spec->turn_ns / track_bytes);
	return (angle_ns + spec->turn_ns - now_ns % spec->turn_ns) % spec->turn_ns;
}

/*
 * Returns the time in ns that moving from position `from` to position `to` takes when the move
 * starts at now_ns.
 */
static uint64_t drive_position_ns(const struct drive_spec *spec, uint64_t from, uint64_t to,
				  uint64_t now_ns)
{
	if (from == to || spec->seek_max_ns == 0)
		return 0;
	uint64_t distance = from > to ? from - to : to - from;
	double share = sqrt((double)distance / (double)spec->size_bytes);
	uint64_t span_ns = spec->seek_max_ns - spec->seek_min_ns;
	uint64_t seek_ns = spec->seek_min_ns + (uint64_t)((double)span_ns * fmin(share, 1.0));
	return seek_ns + turn_wait_ns(spec, to, now_ns + seek_ns);
}

/* --- requests --------------------------------------------------------------------------------- */

struct request {
	struct list link; /* in drive.queue or drive.backlog; in no list while it is being served */
	struct rt_cond started;
	uint64_t start_ns; /* time in ns when the request reached the device */
	uint64_t at;
	uint64_t bytes;
	bool write;
	bool in_queue;
	bool working;
	uint32_t channel;
	uint64_t end_ns;
};

/* Moves requests from the backlog to the queue while the queue has room. */
static void fill_queue(struct drive *d)
{
	while (d->queued < d->spec.queue_depth && !list_empty(&d->backlog)) {
		struct request *r = list_entry(list_pop_front(&d->backlog), struct request, link);
		assert(!r->in_queue && !r->working);
		list_push_back(&d->queue, &r->link);
		r->in_queue = true;
		d->queued++;
	}
}

/*
 * Returns the request to serve next: the oldest, or on a device with an arm the request with the
 * shortest positioning time.
 */
static struct request *choose(const struct drive *d, uint64_t now_ns)
{
	assert(!list_empty(&d->queue));
	struct request *first = list_entry(list_first(&d->queue), struct request, link);
	struct request *best = first, *r;
	uint64_t best_ns = UINT64_MAX;

	if (d->spec.seek_max_ns == 0 || now_ns > first->start_ns + DRIVE_PATIENCE_NS)
		return first;
	list_for_each_entry(r, &d->queue, link) {
		uint64_t ns = drive_position_ns(&d->spec, d->head, r->at, now_ns);
		if (ns < best_ns) {
			best_ns = ns;
			best = r;
		}
	}
	return best;
}

/* Returns the channel that has been free for the longest time; spec.channels if none is free. */
static uint32_t free_channel(const struct drive *d)
{
	uint32_t best = d->spec.channels;
	for (uint32_t c = 0; c < d->spec.channels; c++)
		if (!d->channels[c].working && (best == d->spec.channels ||
						d->channels[c].free_ns < d->channels[best].free_ns))
			best = c;
	return best;
}

static void begin(struct drive *d, struct request *r, uint32_t channel, uint64_t begin_ns)
{
	uint64_t latency_ns = r->write ? d->spec.write_latency_ns : d->spec.read_latency_ns;
	uint64_t ready_ns =
		begin_ns + latency_ns + drive_position_ns(&d->spec, d->head, r->at, begin_ns);

	assert(r->in_queue && !r->working);
	assert(channel < d->spec.channels && !d->channels[channel].working);
	list_remove(&r->link);
	r->working = true;
	r->channel = channel;
	r->end_ns = max_u64(ready_ns, d->bus_free_ns) + transfer_ns(&d->spec, r->bytes, r->write);
	d->bus_free_ns = r->end_ns;
	d->head = r->at + r->bytes;
	d->channels[channel].working = true;
	d->channels[channel].free_ns = r->end_ns;
	d->stats.requests++;
	d->stats.bytes += r->bytes;
	d->stats.busy_ns += r->end_ns - begin_ns;
	rt_cond_signal(&r->started);
}

/*
 * Starts requests on free channels. A start time is the time when the channel and the request were
 * both ready, not the time when this fiber runs, so that scheduling delays do not add up.
 */
static void dispatch(struct drive *d)
{
	uint32_t channel;

	while (!list_empty(&d->queue) && (channel = free_channel(d)) < d->spec.channels) {
		struct request *r = choose(d, d->channels[channel].free_ns);
		begin(d, r, channel, max_u64(d->channels[channel].free_ns, r->start_ns));
	}
}

static void leave_queue(struct drive *d)
{
	assert(d->queued > 0 && d->queued <= d->spec.queue_depth);
	d->queued--;
	fill_queue(d);
	dispatch(d);
}

int drive_request(struct drive *d, uint64_t start_ns, uint64_t at, uint64_t bytes, bool write)
{
	struct request r = {.start_ns = start_ns, .at = at, .bytes = bytes, .write = write};
	int rc = 0;

	list_init(&r.link);
	rt_cond_init(&r.started);
	list_push_back(&d->backlog, &r.link);
	fill_queue(d);
	if (d->queued > d->stats.queued_max)
		d->stats.queued_max = d->queued;
	dispatch(d);
	while (rc == 0 && !r.working)
		rc = rt_cond_wait(&r.started);
	if (!r.working) {
		list_remove(&r.link);
		if (r.in_queue)
			leave_queue(d);
		return rc;
	}
	rt_shield_enter();
	uint64_t now_ns = rt_now_ns();
	rc = r.end_ns > now_ns ? rt_sleep_ns(r.end_ns - now_ns) : 0;
	rt_shield_leave();
	assert(d->channels[r.channel].working);
	d->channels[r.channel].working = false;
	leave_queue(d);
	return rc;
}

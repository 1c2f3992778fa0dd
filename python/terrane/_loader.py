# SPDX-License-Identifier: Apache-2.0
"""The loader: batches of a data set in the order of epochs, read ahead, with a state that resumes anywhere."""
import concurrent.futures
import contextlib
import logging
import threading
import time
from collections import deque

import numpy

from . import _errors, _job, _order, _terrane, _together
from ._dataset import Dataset, Sample, _room
from ._sources import Mix, Subset

ORDERS = {"window": _order.WINDOW, "strict": _order.GLOBAL, "global": _order.GLOBAL, "local": _order.LOCAL,
          "sequential": _order.SEQUENTIAL, "free": _order.FREE}
CANDIDATES = 10  # times the samples of a step that a job with the order free looks at
STATE_VERSION = 1
PREFETCH_BYTES = 512 << 20
RETRY_S, SAY_S = 1, 60  # between tries of a read of a cluster that is away, and between messages of that
_log = logging.getLogger("terrane")


def _size(entries):
    return entries["size"]


def _decode_many(decode, samples):
    return [decode(Sample(*sample)) for sample in samples]


class Loader:
    """Iterates over the batches of an epoch.

    >>> import terrane
    >>> cluster = getfixture()
    >>> birds = terrane.Dataset("/doc/birds", cluster=cluster)
    >>> loader = terrane.Loader(birds, 5, seed=1)
    >>> [len(batch) for batch in loader]
    [5, 5, 2]
    >>> sorted(number for batch in loader for number in batch.samples.tolist()) == list(range(12))
    True

    dataset is a `Dataset`, some samples of one (`Dataset.filter`), or several (`Mix`).

    Order. Which sample comes at which position follows from seed, epoch, rank and world alone, on every run, whatever the
    number of workers. Each sample is in one batch of one rank per epoch. order="window" cuts the data set into windows, a fair
    sample of `window_share` of it each (at most 15 GB), which all jobs of the data set share; each job reads a window
    completely before the next one, shuffled by its own seed, so that caches need two windows for any number of jobs. With job=N
    an epoch begins at the current window of the other jobs, and a job that gets two windows ahead of others waits for them, for
    5% of the time of a window at most; ranks ask the registry, which tells all of them the same. With first_window (0 without
    job) all epochs begin there. "strict" (or "global") shuffles all samples;
    "local" shuffles runs of neighbours and within `window` samples of them; "sequential" does not shuffle. The last batches of
    an epoch are smaller where the samples do not divide evenly, and a rank may have none; drop_last leaves such a step out
    for all ranks.

    order="free" takes next what a cache has: cached(numbers) gets the numbers of ten times as many samples as a batch needs, of
    those that were not read in this epoch, and returns an array of bool; what is cached is read first, the rest later. Each
    sample is still in one batch of one rank per epoch. The order depends on the cache, so the state has a bitmap of what was
    read; those of all ranks are put together with `merge_states`. `decisions` may be a list: the loader appends (epoch,
    numbers) for each batch, and replay=decisions reads the same batches again.

    Buckets. With bucket=N the samples of N consecutive positions are sorted by length, cut into steps and the steps shuffled,
    so that the samples of a batch have about the same length, for sequences that are padded. bucket_key(entries) returns
    another length of each record than its bytes. The order depends on world * batch_size then, which the state has.

    Reading. `prefetch` batches are read ahead, within prefetch_bytes. Without decode each item is a `terrane.Batch`.
    decode(sample) gets a `terrane.Sample`; it runs in `threads` threads or `processes` processes, and each item is the list
    of its results, or collate(list). If the cluster does not answer, reads are tried again for `patience` seconds, with a
    message to the logger "terrane".

    State. `state_dict` describes the position after the batch that was returned last. `load_state_dict` continues there,
    in a loader with any other world, rank, batch_size or workers.

    Registry. With job=N the loader of rank 0 registers the job N (`terrane job`) and reports its progress and how long steps
    compute and wait, in the background, until `close`. Open the data set with job_id=N, so that its reads carry the number.

    Each iteration is an epoch; with repeat=True an iteration has no end. An iteration that was left before its end is not
    continued: the next one begins the next epoch.
    """

    def __init__(self, dataset, batch_size, *, seed=0, order="window", window=0, rank=0, world=1, drop_last=False,
                 prefetch=4, prefetch_bytes=PREFETCH_BYTES, decode=None, collate=None, threads=0, processes=0,
                 repeat=False, allocate=_room, bucket=0, bucket_key=None, patience=3600.0, window_share=0.1, first_window=None,
                 cached=None, decisions=None, replay=None, job=0, job_name="",
                 epochs=0):
        if not isinstance(dataset, (Dataset, Subset, Mix)):
            raise TypeError(f"dataset must be a terrane.Dataset, not {type(dataset).__name__}")
        if order not in ORDERS:
            raise ValueError(f"order must be one of {', '.join(ORDERS)}, not {order!r}")
        if not 0 <= rank < world:
            raise ValueError(f"rank {rank} is not one of {world} ranks")
        if not 0 <= seed < 1 << 63 or not 0 <= window < 1 << 48:
            raise ValueError("seed and window must not be negative, and below 2^63 and 2^48")
        if batch_size < 1 or prefetch < 1 or threads < 0 or processes < 0 or (threads and processes):
            raise ValueError("batch_size and prefetch must be at least 1; give threads or processes, not both")
        if decode is None and (collate or threads or processes):
            raise ValueError("collate, threads and processes need decode")
        if not isinstance(bucket, int) or bucket < 0 or (bucket_key is not None and not bucket):
            raise ValueError("bucket must be a number of samples; bucket_key needs it")
        if not 0 < window_share <= 1 or not 0 <= (first_window or 0) < 1 << 48 or (first_window and isinstance(dataset, Mix)):
            raise ValueError("window_share must be above 0 and at most 1, first_window a number; a Mix begins at window 0")
        self.dataset, self.batch_size, self.drop_last, self.repeat = dataset, batch_size, drop_last, repeat
        self.rank, self.world = rank, world
        shared = ORDERS[order] == _order.WINDOW
        self._order, self._seed = _order.Order(ORDERS[order], window), seed
        if shared:
            self._order = self._order._replace(share=max(round(window_share * _order.SHARE_ALL), 1), first=first_window or 0)
        self._joins = shared and first_window is None and job > 0 and not isinstance(dataset, Mix)
        self._together, self._firsts = None, {}  # first windows of epochs that joined others
        # A job that began with the order "local", which "window" was once, goes on with it.
        self._kinds = {ORDERS[order], _order.LOCAL} if order == "window" else {ORDERS[order]}
        self._prefetch, self._prefetch_bytes, self._allocate = prefetch, prefetch_bytes, allocate
        self._decode, self._collate = decode, collate
        self._threads, self._processes, self._pool = threads, processes, None
        self._epoch, self._from, self._step = 0, 0, 0
        self._run = world * batch_size if bucket else 0  # samples that stay together
        self._bucket, self._key = max(bucket // self._run, 1) * self._run if bucket else 0, bucket_key or _size
        self._sorted = (None, None)  # the last bucket, and which
        self._free = ORDERS[order] == _order.FREE
        if self._free and (bucket or drop_last or window or not isinstance(dataset, (Dataset, Subset))):
            raise ValueError("the order free has no buckets, windows of its own and drop_last, and reads no Mix")
        if not self._free and (cached or decisions is not None or replay is not None):
            raise ValueError("cached, decisions and replay are for the order free")
        self._cached, self._decisions = cached, decisions
        self._replay = iter(replay) if replay is not None else None
        if not 0 <= job < 1 << 64 or not 0 <= epochs <= 1_000_000:
            raise ValueError("job and epochs must be numbers, not negative")
        self._job, self._job_name, self._epochs, self._reporter = job, job_name, epochs, None
        self._steps_done = self._bytes = 0
        self._computed = self._waited = 0.0  # seconds
        self._ended = False
        self._used = numpy.zeros((len(dataset) + 7) // 8, numpy.uint8) if self._free else None  # of the epoch
        self._patience, self._stopping = patience, threading.Event()
        self._running = 0  # number of the iteration that has the state
        dataset._order(self._order, seed, 0, 0, 0)  # refuses a window that is not possible
        _terrane.order_step(len(dataset), 0, 0, world, rank, batch_size)

    # --- order

    def _order_of(self, epoch):
        joined = max((e for e in self._firsts if e <= epoch), default=None)
        return self._order if joined is None else self._order._replace(first=self._firsts[joined])

    def _numbers(self, epoch, position, count):
        if not self._bucket:
            return self.dataset._order(self._order_of(epoch), self._seed, epoch, position, count)
        parts = []
        while count > 0:
            number, skip = divmod(position, self._bucket)
            parts.append(self._in_bucket(epoch, number)[skip:skip + count])
            position, count = position + len(parts[-1]), count - len(parts[-1])
        return numpy.concatenate(parts) if parts else numpy.empty(0, numpy.uint64)

    def _in_bucket(self, epoch, number):
        """The samples of a bucket: sorted by length, and its full runs shuffled."""
        order = self._order_of(epoch)
        which = (self._seed, epoch, number, order.first)
        if self._sorted[0] != which:
            begin = number * self._bucket
            numbers = self.dataset._order(order, self._seed, epoch, begin,
                                          min(self._bucket, len(self.dataset) - begin))
            keys = numpy.asarray(self._key(self._patiently(lambda: self.dataset._lookup(numbers))))
            if keys.shape != numbers.shape:
                raise TypeError("bucket_key returns an array with an element for each record")
            numbers = numbers[numpy.argsort(keys, kind="stable")]
            runs = len(numbers) // self._run
            shuffled = _order.shuffled(runs, self._seed, (epoch << 24) + number) if runs else []
            full = numbers[:runs * self._run].reshape(runs, self._run)[shuffled].reshape(-1)
            self._sorted = (which, numpy.concatenate((full, numbers[len(full):])))
        return self._sorted[1]

    def _share(self, begin, step):
        """The positions (first, count) of this rank in a step, None behind the last step of the epoch."""
        n, full = len(self.dataset), self.world * self.batch_size
        left = n - begin - step * full
        if left <= 0 or (self.drop_last and left < full):
            return None
        return _terrane.order_step(n, begin, step, self.world, self.rank, self.batch_size)

    # --- the order free

    def _left(self):
        """The samples of the epoch that no rank has read, as far as the state that was loaded and this rank know."""
        return len(self.dataset) - int(numpy.unpackbits(self._used).sum())

    def _free_samples(self, epoch, used):
        state = _terrane.FreeEpoch(len(self.dataset), self._seed, epoch, self.world, self.rank, self.batch_size, used)
        candidates = numpy.empty(CANDIDATES * self.batch_size, numpy.uint64)
        while count := state.step_count():
            numbers = numpy.empty(count, numpy.uint64)
            if self._replay is not None:
                logged, again = next(self._replay, (None, ()))
                if logged != epoch:
                    raise ValueError(f"the log of decisions has no step of epoch {epoch} here")
                numbers = numpy.array(again, numpy.uint64)
                state.take_again(numbers)
            else:
                cached = b""
                if self._cached is not None:
                    offered = candidates[:state.candidates(candidates)]
                    cached = numpy.asarray(self._cached(self._to_numbers(offered)))
                    if cached.dtype != bool or cached.shape != offered.shape:
                        raise TypeError("cached returns an array of bool with an element for each sample")
                    cached = numpy.ascontiguousarray(cached).view(numpy.uint8)
                state.take(cached, numbers)
            yield numbers

    def _to_numbers(self, places):
        """The numbers of samples of a selection."""
        return self.dataset.samples[places] if isinstance(self.dataset, Subset) else places

    def _took(self, epoch, numbers):
        """Marks what a batch that is returned has read."""
        places = numpy.searchsorted(self.dataset.samples, numbers) if isinstance(self.dataset, Subset) else numbers
        places = places.astype(numpy.uint64)
        if epoch != self._epoch:
            self._used[:] = 0
        numpy.bitwise_or.at(self._used, places // 8, numpy.left_shift(1, places % 8).astype(numpy.uint8))
        if self._decisions is not None:
            self._decisions.append((epoch, places.tolist()))

    def __len__(self):
        """The batches that an epoch has for this rank, or what is left of it after load_state_dict."""
        full = self.world * self.batch_size
        if self._free:
            left = self._left() if self._step == 0 else len(self.dataset)
            steps, rest = divmod(left, full)
            return steps + (rest > 0 and _terrane.order_step(left, 0, steps, self.world, self.rank, self.batch_size)[1] > 0)
        begin = self._from if self._step == 0 else 0
        steps, rest = divmod(len(self.dataset) - begin, full)
        return steps + (rest > 0 and not self.drop_last and self._share(begin, steps)[1] > 0)

    def samples_of(self, epoch, begin=0):
        """Yields the numbers of the samples of each batch of this rank in an epoch, without reading them."""
        if self._free:
            used = self._used if epoch == self._epoch else None
            yield from map(self._to_numbers, self._free_samples(epoch, used))
            return
        step = 0
        while (share := self._share(begin, step)) is not None:
            if share[1] > 0:
                yield self._numbers(epoch, *share)
            step += 1

    # --- state

    @property
    def epoch(self):
        return self._place()[0]

    @property
    def window(self):
        """The window that is read next, and the number of windows; None if the order has no windows that jobs share."""
        if self._order.kind != _order.WINDOW or isinstance(self.dataset, Mix):
            return None
        epoch, position = self._place()
        return _order.window_at(len(self.dataset), self.dataset._size, self._order_of(epoch), position)[:2]

    def set_epoch(self, epoch):
        """Makes the next iteration read this epoch from its beginning."""
        fresh = {"used": bytes(len(self._used))} if self._free else {}
        self.load_state_dict({**self.state_dict(), **fresh, "epoch": epoch, "position": 0})

    def _place(self):
        """(epoch, position) of what is read next."""
        if self._free:
            left = self._left()
            return (self._epoch + 1, 0) if left == 0 or self._ended else (self._epoch, len(self.dataset) - left)
        if self._share(self._from, self._step) is None:
            return self._epoch + 1, 0
        return self._epoch, self._from + self._step * self.world * self.batch_size

    def state_dict(self):
        """The position of the job after the batch that was returned last: a few integers, the same on every rank. With the
        order free it also has the bitmap of what this rank has read; `merge_states` puts those of all ranks together."""
        epoch, position = self._place()
        if self._free:
            epoch, position = self._epoch, len(self.dataset) - self._left()
        more = {"used": self._used.tobytes()} if self._free else {}
        return {**more, "version": STATE_VERSION, "dataset": self.dataset.fingerprint, "samples": len(self.dataset),
                "order": self._order.kind, "window": self._order.window, "seed": self._seed, "epoch": epoch,
                "position": position, "bucket": self._bucket, "run": self._run, "share": self._order.share,
                "first_window": self._order_of(epoch).first}

    def load_state_dict(self, state):
        """Makes the next iteration continue at a state. Raises ValueError for the state of another data set, version or
        order, and for impossible numbers."""
        mine = self.state_dict()
        if not isinstance(state, dict):
            raise TypeError(f"a state is a dict, not {type(state).__name__}")
        state = {"bucket": 0, "run": 0, "share": 0, "first_window": 0, **state}
        wrong = [key for key in mine if key != "used" and (not isinstance(state.get(key), int) or state[key] < 0)]
        if wrong or set(state) != set(mine):
            raise ValueError(f"this is no state of a loader: {', '.join(wrong) or 'it has other keys'}")
        for key, what in (("version", "a newer version of Terrane"), ("dataset", "another data set or version"),
                          ("samples", "another data set or version"), ("order", "another order"),
                          ("window", "another window")):
            if state[key] != mine[key] and not (key == "order" and state[key] in self._kinds):
                raise ValueError(f"the state is of {what}: its {key} is {state[key]}, this loader has {mine[key]}")
        if state["position"] > len(self.dataset) or state["epoch"] >= 1 << 62 or state["seed"] >= 1 << 63:
            raise ValueError("the state has impossible numbers")
        if (state["bucket"] > 0) != (self._bucket > 0):
            raise ValueError("the state is of a loader with buckets, or this one has them")
        if state["bucket"] and (state["run"] == 0 or state["bucket"] % state["run"] or state["bucket"] >= 1 << 40):
            raise ValueError("the state has impossible numbers")
        order = _order.Order(state["order"], state["window"], state["share"], state["first_window"])
        shared = order.kind == _order.WINDOW
        if order.share > shared * _order.SHARE_ALL or order.first >= (1 << 48 if shared else 1):
            raise ValueError("the state has impossible numbers")
        try:
            self.dataset._order(order, 0, 0, 0, 0)
        except ValueError:
            raise ValueError("the state is of windows that this data set does not have") from None
        if self._free:
            self._take_used(state)
        self._order, self._firsts = order, {}
        self._bucket, self._run = state["bucket"], state["run"]
        self._seed, self._epoch, self._from, self._step = state["seed"], state["epoch"], state["position"], 0
        self._ended = False
        self._epoch, self._from = self._place()
        if self._free:
            self._from = 0
            if self._left() == 0:
                self._used[:] = 0
        self._running += 1

    def _take_used(self, state):
        used = state["used"]
        if not isinstance(used, bytes) or len(used) != len(self._used):
            raise ValueError("the state has no bitmap of this data set")
        used = numpy.frombuffer(used, numpy.uint8).copy()
        bits = numpy.unpackbits(used, bitorder="little")
        if bits[len(self.dataset):].any() or int(bits.sum()) != state["position"]:
            raise ValueError("the state has impossible numbers")
        self._used = used

    # --- the registry

    def _spec(self):
        order = {_order.WINDOW: 2, _order.FREE: 3}.get(self._order.kind, 1)
        sources = self.dataset.sources if isinstance(self.dataset, Mix) else [self.dataset]
        return {"id": self._job, "name": self._job_name, "paths": tuple(dict.fromkeys(source.path for source in sources)),
                "order": order, "shuffle": 1 if self._order.kind == _order.SEQUENTIAL else 2, "seed": self._seed,
                "epochs": self._epochs, "accelerators": self.world}

    def _cluster(self):
        return (self.dataset.sources[0] if isinstance(self.dataset, Mix) else self.dataset).cluster

    def _progress(self):
        epoch, position = self._place()
        if self._epochs:
            epoch = min(epoch, self._epochs)
        window, windows = self.window or (0, 0)
        return (epoch, position, len(self.dataset), self._steps_done, int(self._computed * 1e6), int(self._waited * 1e6),
                self._bytes, window, windows, getattr(self.dataset, "_size", 0))

    # --- iteration

    def _join(self, epoch):
        """Chooses where an epoch begins: with the other jobs of the data set."""
        order = self._order_of(epoch)
        windows = _order.shape(len(self.dataset), self.dataset._size, order.share)[1]
        first = self._together.join(epoch, windows, order.first, self._stopping)
        if not 0 <= first < windows:
            raise ValueError(f"the registry names window {first} of {windows}")
        self._firsts[epoch] = first

    def _may_read(self, epoch, begin, step):
        """Whether a step may be read now, or the job waits for others before it enters a window."""
        if self._together is None:
            return True
        size = self.world * self.batch_size
        last = min(begin + (step + 1) * size, len(self.dataset)) - 1
        window, windows = _order.window_at(len(self.dataset), self.dataset._size, self._order_of(epoch), last)[:2]
        return self._together.may_enter(epoch, windows, window)

    def _window_steps(self, epoch, begin):
        """Yields (step, numbers) of an epoch, and None while the job waits for others."""
        if begin == 0:
            self._join(epoch)
        step = 0
        while (share := self._share(begin, step)) is not None:
            while not self._may_read(epoch, begin, step):
                yield None
            if share[1] > 0:
                yield step, self._numbers(epoch, *share)
            step += 1

    def _steps(self, epoch, begin):
        """Yields (epoch, begin, step, numbers) of the batches to read, for ever with repeat; None: others must come nearer."""
        if self._joins and self._together is None:
            self._together = _together.Together(self)
        while True:
            steps = self._window_steps(epoch, begin) if self._joins else enumerate(self.samples_of(epoch, begin))
            yield from (one and (epoch, begin, *one) for one in steps)
            if not self.repeat:
                return
            if begin == 0 and not self._free and self._share(0, 0) is None:
                raise ValueError("the data set has fewer samples than one step, and drop_last leaves it out")
            epoch, begin = epoch + 1, 0

    def _patiently(self, call):
        """Calls, again and again while the cluster does not answer."""
        began = said = None
        while True:
            try:
                return call()
            except (_errors.Unreachable, _errors.TimedOut, _errors.DataLost, _errors.Busy) as error:
                now = time.monotonic()
                began = now if began is None else began
                if self._stopping.is_set() or now - began >= self._patience:
                    raise
                if said is None or now - said >= SAY_S:
                    said = now
                    _log.warning("%s cannot be read: %s. Trying again for %.0f s", self.dataset.path, error.strerror,
                                 self._patience - (now - began))
            self._stopping.wait(RETRY_S)

    def _start(self, numbers, pool):
        reading = self._patiently(lambda: self.dataset._start(numbers, self._allocate))
        return reading, pool.submit(self._finish, reading, numbers) if pool is not None else None

    def _read(self, reading, numbers):
        """The batch of a read that was started; starts it again if the cluster does not answer."""
        tried = False

        def attempt():
            nonlocal tried
            again, tried = tried, True
            return (self.dataset._start(numbers, self._allocate) if again else reading).wait()
        return self._patiently(attempt)

    def _finish(self, reading, numbers):
        batch = self._read(reading, numbers)
        if self._decode is None:
            return batch
        if self._pool is None:
            results = [self._decode(sample) for sample in batch]
        else:
            samples = [(*sample[:2], bytes(sample.data), *sample[3:]) for sample in batch]
            results = self._pool.submit(_decode_many, self._decode, samples).result()
        return results if self._collate is None else self._collate(results)

    def _open_pools(self, stack):
        """The pool of threads that finish batches; the pool of processes is kept between epochs."""
        if self._processes and self._pool is None:
            self._pool = concurrent.futures.ProcessPoolExecutor(self._processes)
            self._pool.submit(int).result()  # starts the processes before there are threads
        threads = self._threads or min(self._prefetch, self._processes)
        if not threads:
            return None
        pool = concurrent.futures.ThreadPoolExecutor(threads, "terrane-loader")
        stack.callback(pool.shutdown, wait=True, cancel_futures=True)
        return pool

    def close(self):
        """Ends the processes that decode, and the job in the registry."""
        reporter, self._reporter = self._reporter, None
        if reporter is not None:
            reporter.close()
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)

    def __iter__(self):
        self._stopping = threading.Event()
        if self._step > 0:  # the last iteration was left before its end, or ended
            self._epoch, self._from = self._epoch + 1, 0
            if self._free:
                self._used[:] = 0
        self._ended = False
        self._step = 0
        self._running += 1
        return self._iterate(self._running)

    def _iterate(self, running):
        pending = deque()
        with contextlib.ExitStack() as stack:
            pool = self._open_pools(stack)
            stack.callback(lambda: [reading.cancel() for *_, (reading, _) in pending])
            stack.callback(self._stopping.set)
            if self._job and self.rank == 0 and self._reporter is None:
                self._reporter = _job.Reporter(self._cluster(), self._spec(), self._progress)
            steps = self._steps(self._epoch, self._from)
            more = True
            while True:
                asked = time.monotonic()
                while more and len(pending) < self._prefetch and (not pending or sum(
                        reading.bytes for *_, (reading, _) in pending) < self._prefetch_bytes):
                    try:
                        one = next(steps)
                    except StopIteration:
                        more = False
                        break
                    if one is None:
                        if pending:
                            break
                        self._together.wait(self._stopping)
                        continue
                    epoch, begin, step, numbers = one
                    pending.append((epoch, begin, step, numbers, self._start(numbers, pool)))
                if not pending:
                    break
                epoch, begin, step, numbers, (reading, future) = pending[0]
                size = reading.bytes
                item = future.result() if future is not None else self._finish(reading, numbers)
                pending.popleft()
                if self._running != running:
                    raise RuntimeError("another iteration of this loader has begun, or its state was loaded")
                if self._free:
                    self._took(epoch, numbers)
                if epoch in self._firsts:
                    self._firsts = {e: first for e, first in self._firsts.items() if e >= epoch}
                self._epoch, self._from, self._step = epoch, begin, step + 1
                self._steps_done, self._bytes = self._steps_done + 1, self._bytes + size
                ready = time.monotonic()
                self._waited += ready - asked
                yield item
                self._computed += time.monotonic() - ready
        if self._free:
            self._ended = self._ended or self._running == running
        elif self._running == running and self._share(self._from, self._step) is not None:
            self._step += 1  # the last step has samples of other ranks only


def merge_states(states):
    """One state of a job with the order free from the states of all its ranks after the same step: any number of ranks goes
    on with what none of them has read. Raises ValueError for states of different jobs or epochs."""
    states = list(states)
    if not states or not all(isinstance(state, dict) and isinstance(state.get("used"), bytes) for state in states):
        raise ValueError("these are no states of loaders with the order free")
    first = states[0]
    for state in states:
        if {**state, "used": 0, "position": 0} != {**first, "used": 0, "position": 0} or \
                len(state["used"]) != len(first["used"]):
            raise ValueError("the states are of different jobs, epochs or data sets")
    used = numpy.bitwise_or.reduce([numpy.frombuffer(state["used"], numpy.uint8) for state in states])
    return {**first, "used": used.tobytes(), "position": int(numpy.unpackbits(used).sum())}

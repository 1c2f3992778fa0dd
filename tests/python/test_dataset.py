# SPDX-License-Identifier: Apache-2.0
"""Data sets and the loader: random access, order, state, read-ahead, wrong input."""
import concurrent.futures
import itertools
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import threading
import time

import child
import numpy
import pytest
import terrane
from box import Box, await_true, some_bytes

LABELS = ["ant", "bee", "cat"]
EACH = 400  # samples are in two pages of the index
TOTAL = EACH * len(LABELS)


def make_source(folder):
    """Writes files whose bytes follow from their names; returns {key: bytes}."""
    files = {}
    for label in LABELS:
        (folder / label).mkdir()
        for i in range(EACH):
            key = f"{label}/{i}"
            files[key] = some_bytes(key, random.Random(key).randrange(0, 900))
            (folder / f"{key}.bin").write_bytes(files[key])
    return files


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source")
    made = make_source(folder)
    made["folder"] = folder
    return made


@pytest.fixture(scope="module")
def path(box, files):
    name = f"/sets/{os.getpid()}"
    box("dataset", "build", files["folder"], name, "--block", "64KiB", "--shard", "128KiB", "--encoding", "rs:4+2")
    return name


@pytest.fixture
def dataset(cluster, path):
    with terrane.Dataset(path, cluster=cluster) as opened:
        yield opened


def right(dataset, batch, files):
    """Whether a batch has the bytes and labels of its samples."""
    keys = dataset.keys(batch.samples)
    return all(bytes(sample.data) == files[key] and dataset.labels[sample.label] == key[:3]
               for key, sample in zip(keys, batch, strict=True))


# --- random access

def test_every_sample_is_the_file_it_was_made_of(dataset, files):
    assert len(dataset) == TOTAL and dataset.labels == LABELS and dataset.parts == ["bin"] and dataset.version == 1
    batch = dataset.read(range(TOTAL))
    assert right(dataset, batch, files)
    assert sorted(dataset.keys(range(TOTAL))) == sorted(key for key in files if key != "folder")
    sizes = dataset.part_sizes([0, 1])
    assert [part["bin"] for part in sizes] == batch.entries["size"][:2].tolist()
    assert batch.offsets[-1] == batch.data.nbytes == sum(len(sample.data) for sample in batch)


def test_numbers_count_from_either_end(dataset):
    assert bytes(dataset[-1].data) == bytes(dataset[TOTAL - 1].data)
    assert dataset[numpy.int64(5)].number == 5
    for wrong in (TOTAL, -TOTAL - 1):
        with pytest.raises(IndexError, match="does not exist"):
            dataset[wrong]


def test_samples_go_into_the_buffer_of_the_caller(dataset, files):
    rooms = []

    def allocate(size):
        rooms.append(numpy.full(size, 7, numpy.uint8))
        return rooms[-1]

    batch = dataset.read([5, 3], allocate=allocate)
    assert batch.data is rooms[0] and right(dataset, batch, files)


@pytest.mark.parametrize("call, error, text", [
    (lambda d: d.read([TOTAL]), IndexError, "does not exist"),
    (lambda d: d.read([-1]), IndexError, "does not exist"),
    (lambda d: d.read(["a"]), TypeError, "sequence of numbers"),
    (lambda d: d.read(5), TypeError, "sequence of numbers"),
    (lambda d: d["a"], AttributeError, "__index__"),
    (lambda d: d.read([1, 2], allocate=lambda size: bytes(size)), BufferError, "not writable"),
    (lambda d: d.read([1, 2], allocate=lambda size: bytearray(1)), ValueError, "the samples need"),
    (lambda d: terrane.Dataset(d.path, cluster=d.cluster, version=0), ValueError, "number from 1"),
    (lambda d: terrane.Dataset(d.path, cluster=d.cluster, version=9), FileNotFoundError, "v9.json"),
    (lambda d: terrane.Dataset("/none", cluster=d.cluster), FileNotFoundError, "/none"),
    (lambda d: terrane.Dataset("/sets", cluster=d.cluster), FileNotFoundError, "no data set"),
    (lambda d: terrane.Dataset(d.path, cluster="x"), TypeError, "Cluster"),
    (lambda d: terrane.Dataset(d.path, cluster=d.cluster, cache_bytes=-1), ValueError, "cache_bytes"),
    (lambda d: terrane.Dataset(d.path, cluster=d.cluster, colour=1), TypeError, "colour"),
])
def test_wrong_input_is_refused(dataset, call, error, text):
    with pytest.raises(error, match=text):
        call(dataset)


def test_entries_of_another_data_set_are_refused(dataset):
    entries = dataset.lookup([0, 1])
    for field in ("sample", "offset", "size", "shard"):
        wrong = entries.copy()
        wrong[field][1] = (1 << 32) - 1 if field == "shard" else 1 << 60
        with pytest.raises(ValueError, match="not entries of this data set"):
            dataset._handle.read(wrong, bytearray(10000), None)
    with pytest.raises(ValueError, match="not entries"):
        dataset._handle.read(entries.tobytes()[:-1], bytearray(10000), None)


def test_manifests_and_indexes_that_are_wrong_are_refused(cluster, path, folder):
    manifest = cluster.read(f"{path}/v1.json")
    for text, what in ((b"{}", "no valid manifest"), (manifest[:-10], "no valid manifest"),
                       (manifest.replace(b'"format_version": 1', b'"format_version": 2'), "newer"),
                       (manifest.replace(b'"version": 1', b'"version": 3'), "version 3")):
        cluster.write(f"{folder}/v1.json", text)
        with pytest.raises(terrane.Error, match=what):
            terrane.Dataset(folder, cluster=cluster, version=1)
    cluster.write(f"{folder}/v1.json", manifest)
    with terrane.Dataset(folder, cluster=cluster) as lost:
        with pytest.raises(FileNotFoundError, match="is missing"):
            lost.read([0])


def test_a_sample_that_does_not_match_the_index_is_an_error(box, cluster, files, folder, tmp_path):
    path = f"{folder}/set"
    box("dataset", "build", files["folder"], path)
    name, = (name for name in cluster.listdir(f"{path}/data") if name.endswith(".samples"))
    with terrane.Dataset(path, cluster=cluster) as dataset:
        entry = next(e for e in dataset.lookup(range(TOTAL)) if e["size"] > 0)
    data = bytearray(cluster.read(f"{path}/data/{name}"))
    data[int(entry["offset"])] ^= 1
    cluster.write(f"{path}/data/{name}", data)
    with terrane.Dataset(path, cluster=cluster) as dataset:
        with pytest.raises(terrane.ChecksumError, match="does not match the index"):
            dataset.read([int(entry["sample"])])


def test_a_closed_data_set_is_an_error_and_reads_in_progress_end(cluster, path, files):
    dataset = terrane.Dataset(path, cluster=cluster)
    reading = dataset.read_start(range(100))
    keys = dataset.keys(range(100))
    dataset.close()
    assert [bytes(s.data) for s in reading.wait()] == [files[key] for key in keys]
    for call in (lambda: dataset[0], lambda: dataset.keys([0]), lambda: dataset.read_start([0])):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_a_read_that_is_dropped_or_cancelled_ends(dataset, files):
    for i in range(20):
        reading = dataset.read_start(range(TOTAL))
        if i % 2:
            reading.cancel()
            try:
                assert right(dataset, reading.wait(), files)  # it may have ended before
            except terrane.Error:
                pass
        del reading
    assert right(dataset, dataset.read([1]), files)


def test_threads_share_a_data_set_whose_pages_do_not_fit(cluster, path, files):
    dataset = terrane.Dataset(path, cluster=cluster, cache_bytes=1)
    errors = []

    def work(seed):
        chance = random.Random(seed)
        try:
            for _ in range(30):
                samples = [chance.randrange(TOTAL) for _ in range(20)]
                assert right(dataset, dataset.read(samples), files)
        except BaseException as error:  # reported by the test
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def first_bytes(dataset, samples):
    return [bytes(sample.data) for sample in dataset.read(samples)]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_data_set_goes_to_other_processes(dataset, method):
    expected = first_bytes(dataset, [1, 2, 700])
    if method == "fork":
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.write(write, pickle.dumps(first_bytes(dataset, [1, 2, 700])))
                status = 0
            finally:
                os._exit(status)
        os.close(write)
        with open(read, "rb") as pipe:
            assert pickle.loads(pipe.read()) == expected
        assert os.waitpid(pid, 0)[1] == 0
    else:
        again = pickle.loads(pickle.dumps(dataset))
        assert (again.version, again.fingerprint) == (dataset.version, dataset.fingerprint)
        with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            assert pool.submit(first_bytes, dataset, [1, 2, 700]).result() == expected


# --- order

def numbers(loader):
    return [batch.samples.tolist() for batch in loader]


@pytest.mark.parametrize("order", ["sequential", "local", "window", "global", "strict"])
@pytest.mark.parametrize("world", [1, 3, 7])
def test_every_sample_is_read_once_in_an_epoch_whatever_the_ranks(dataset, files, order, world):
    loaders = [terrane.Loader(dataset, 32, seed=5, order=order, rank=rank, world=world) for rank in range(world)]
    for epoch in range(2):
        ranks = [list(loader) for loader in loaders]
        assert all(right(dataset, batch, files) for batches in ranks for batch in batches)
        assert [len(batches) for batches in ranks] == [len(loader) for loader in loaders]
        read = [number for batches in ranks for batch in batches for number in batch.samples.tolist()]
        assert sorted(read) == list(range(TOTAL)), epoch
        assert {loader.epoch for loader in loaders} == {epoch + 1}


def test_the_order_follows_from_seed_and_epoch_alone(dataset):
    def order(**options):
        loader = terrane.Loader(dataset, 50, **options)
        return [numbers(loader), numbers(loader)]

    first = order(seed=3)
    assert first == order(seed=3, prefetch=1) == order(seed=3, prefetch=9, prefetch_bytes=1)
    assert first != order(seed=4) and first[0] != first[1] and first != order(seed=3, order="global")
    threads = terrane.Loader(dataset, 50, seed=3, threads=3, decode=lambda sample: sample.number)
    processes = terrane.Loader(dataset, 50, seed=3, processes=2, decode=number_of)
    assert first == [list(threads), list(threads)] == [list(processes), list(processes)]
    processes.close()
    assert order(order="sequential")[0] == [list(range(i, i + 50)) for i in range(0, TOTAL, 50)]
    assert numbers(terrane.Loader(dataset, 50, seed=3)) == [n.tolist() for n in
                                                            terrane.Loader(dataset, 50, seed=3).samples_of(0)]


def number_of(sample):
    assert isinstance(sample.data, bytes)
    return sample.number


def test_drop_last_gives_every_rank_the_same_full_batches(dataset):
    loaders = [terrane.Loader(dataset, 100, rank=rank, world=5, drop_last=True) for rank in range(5)]
    read = [numbers(loader) for loader in loaders]
    assert all([len(batch) for batch in batches] == [100, 100] for batches in read)
    assert [len(loader) for loader in loaders] == [2] * 5
    few = terrane.Loader(dataset, TOTAL + 1, drop_last=True, repeat=True)
    with pytest.raises(ValueError, match="fewer samples than one step"):
        next(iter(few))


def test_repeat_has_no_end_and_goes_through_the_epochs(dataset):
    endless = terrane.Loader(dataset, 500, seed=1, repeat=True)
    some = [batch.samples.tolist() for batch in itertools.islice(endless, 7)]
    epochs = terrane.Loader(dataset, 500, seed=1)
    assert some == (numbers(epochs) + numbers(epochs) + numbers(epochs))[:7]
    assert endless.epoch == 2


# --- state

def test_a_state_continues_at_any_world_batch_and_workers(dataset):
    chance = random.Random(6)
    for _ in range(40):
        seen, state, seed = [], None, chance.randrange(100)
        for _ in range(4):
            world, batch = chance.randrange(1, 6), chance.randrange(1, 200)
            steps = chance.randrange(1, 4)
            states = []
            for rank in range(world):
                loader = terrane.Loader(dataset, batch, seed=seed, rank=rank, world=world,
                                        prefetch=chance.randrange(1, 5))
                if state is not None:
                    loader.load_state_dict(state)
                if loader.epoch > 0:
                    break
                begin = loader.state_dict()["position"]
                for numbers_read in itertools.islice(loader.samples_of(0, begin), steps):
                    seen += numbers_read.tolist()
                for _ in itertools.islice(loader, steps):
                    pass
                states.append(loader.state_dict())
            if len(states) < world:
                break
            full = min(TOTAL, begin + steps * world * batch)
            assert full == TOTAL or all(s["position"] == full for s in states)
            state = states[0]
        assert len(set(seen)) == len(seen), "a sample was repeated"
        if state["epoch"] == 0:
            rest = terrane.Loader(dataset, 77, seed=0)
            rest.load_state_dict(state)
            assert sum(len(batch) for batch in rest) + len(seen) == TOTAL


def test_states_of_something_else_are_refused(box, cluster, dataset, files):
    loader = terrane.Loader(dataset, 10, seed=1)
    good = loader.state_dict()
    assert all(isinstance(value, int) for value in good.values())
    assert pickle.loads(pickle.dumps(good)) == good
    wrong = [{}, {**good, "more": 1}, {**good, "position": -1}, {**good, "position": TOTAL + 1},
             {**good, "epoch": "1"}, {**good, "dataset": good["dataset"] ^ 1}, {**good, "samples": 5},
             {**good, "version": 2}, {**good, "order": 2}, {**good, "seed": 1 << 70}, {**good, "window": 1024}]
    for state in wrong:
        with pytest.raises(ValueError, match="state"):
            loader.load_state_dict(state)
    with pytest.raises(TypeError, match="state"):
        loader.load_state_dict([1])
    assert loader.state_dict() == good
    box("dataset", "append", files["folder"], dataset.path)
    with terrane.Dataset(dataset.path, cluster=cluster) as newer:
        assert newer.version == 2 and len(newer) == 2 * TOTAL
        with pytest.raises(ValueError, match="another data set or version"):
            terrane.Loader(newer, 10, seed=1).load_state_dict(good)
    box("dataset", "rm", dataset.path, "--version", 2)


def test_an_iteration_that_was_left_is_not_continued(dataset):
    loader = terrane.Loader(dataset, 100, seed=2)
    left = iter(loader)
    next(left)
    epoch = numbers(loader)
    assert epoch == [n.tolist() for n in loader.samples_of(1)] and loader.epoch == 2
    with pytest.raises(RuntimeError, match="another iteration"):
        next(left)
    loader.set_epoch(7)
    assert numbers(loader) == [n.tolist() for n in loader.samples_of(7)] and loader.epoch == 8


@pytest.mark.parametrize("options, error", [
    ({"batch_size": 0}, ValueError), ({"batch_size": 1 << 40}, ValueError), ({"batch_size": 1.5}, TypeError),
    ({"rank": 1}, ValueError), ({"world": 0}, ValueError), ({"world": 1 << 30}, ValueError),
    ({"order": "random"}, ValueError), ({"window": 1000}, ValueError), ({"seed": -1}, ValueError),
    ({"prefetch": 0}, ValueError), ({"threads": 2}, ValueError), ({"collate": list}, ValueError),
    ({"threads": 1, "processes": 1, "decode": len}, ValueError), ({"dataset": "/x"}, TypeError),
])
def test_impossible_loaders_are_refused(dataset, options, error):
    with pytest.raises(error):
        terrane.Loader(**{"dataset": dataset, "batch_size": 10, **options})


# --- decoding, faults

class Broken(Exception):
    pass


def fails_at_7(sample):
    if sample.number == 7:
        raise Broken(7)
    return sample.number


def dies_at_7(sample):
    if sample.number == 7:
        os._exit(3)
    return sample.number


def test_an_error_in_decode_is_raised_where_it_belongs(dataset):
    for options in ({}, {"threads": 2}, {"processes": 1}):
        loader = terrane.Loader(dataset, 10, order="sequential", decode=fails_at_7, **options)
        with pytest.raises(Broken):
            list(loader)
        loader.close()


def test_a_worker_that_dies_is_an_exception(dataset):
    loader = terrane.Loader(dataset, 10, order="sequential", decode=dies_at_7, processes=2)
    with pytest.raises(RuntimeError, match="terminated abruptly"):
        list(loader)
    loader.close()


def test_collate_gets_the_list_of_results(dataset):
    loader = terrane.Loader(dataset, 10, decode=lambda s: len(s.data), collate=numpy.array, threads=1)
    first = next(iter(loader))
    assert isinstance(first, numpy.ndarray) and len(first) == 10


INTERRUPTED = """
import os, terrane
dataset = terrane.Dataset({path!r}, timeout=3600)
loader = terrane.Loader(dataset, 10, order="sequential", {options})
batches = iter(loader)
next(batches)
print('ready', flush=True)
input()
try:
    print('calls', flush=True)
    for _ in batches:
        pass
except KeyboardInterrupt:
    del batches
    print('interrupted', flush=True)
"""


def test_an_interrupt_ends_a_loader_that_waits_for_a_stopped_cluster(tmp_path, files):
    with Box(tmp_path / "b") as box:
        pid, = box.pids().values()
        box("dataset", "build", files["folder"], "/set")
        programs = [child.start(INTERRUPTED.format(path="/set", options=options),
                                TERRANE_CLUSTER=box.env["TERRANE_CLUSTER"])
                    for options in ("", "threads=2, decode=len")]
        assert all(program.stdout.readline() == "ready\n" for program in programs)
        os.kill(pid, signal.SIGSTOP)
        try:
            for program in programs:
                program.stdin.write("\n")
                program.stdin.flush()
                assert program.stdout.readline() == "calls\n"
                began = time.monotonic()
                program.send_signal(signal.SIGINT)
                out, error = program.communicate(timeout=60)  # the call's own timeout is an hour
                assert program.returncode == 0 and out == "interrupted\n", error
                assert time.monotonic() - began < 30
        finally:
            os.kill(pid, signal.SIGCONT)
            for program in programs:
                program.kill()


def test_a_cluster_that_goes_away_and_comes_back_is_waited_for(tmp_path, files):
    with Box(tmp_path / "b") as box, terrane.connect(box.env["TERRANE_CLUSTER"]) as cluster:
        pid, = box.pids().values()
        box("dataset", "build", files["folder"], "/set")
        with terrane.Dataset("/set", cluster=cluster) as dataset:
            batches = iter(terrane.Loader(dataset, 10, prefetch=1))
            seen = next(batches).samples.tolist()
            os.kill(pid, signal.SIGSTOP)
            subprocess.Popen(["sh", "-c", f"sleep 2; kill -CONT {pid}"])
            for batch in batches:
                seen += batch.samples.tolist()
        assert sorted(seen) == list(range(TOTAL))


@pytest.mark.parametrize("options", [{}, {"decode": len, "threads": 2}])
def test_a_cluster_that_is_down_and_up_again_is_waited_for_with_a_message(tmp_path, files, caplog, options):
    with Box(tmp_path / "b") as box, terrane.connect(box.env["TERRANE_CLUSTER"]) as cluster:
        box("dataset", "build", files["folder"], "/set")
        with terrane.Dataset("/set", cluster=cluster, timeout=1) as dataset:
            batches = iter(terrane.Loader(dataset, 100, prefetch=1, **options))
            seen = len(next(batches))
            box.down()
            starter = threading.Thread(target=lambda: (await_true("a message", lambda: caplog.records), box.up()))
            starter.start()
            seen += sum(len(batch) for batch in batches)
            starter.join()
        assert seen == TOTAL and "/set cannot be read: " in caplog.text and "Trying again" in caplog.text


def test_patience_ends(tmp_path, files):
    with Box(tmp_path / "b") as box, terrane.connect(box.env["TERRANE_CLUSTER"]) as cluster:
        box("dataset", "build", files["folder"], "/set")
        with terrane.Dataset("/set", cluster=cluster, timeout=0.5) as dataset:
            batches = iter(terrane.Loader(dataset, 100, prefetch=1, patience=0))
            next(batches)
            box.down()
            with pytest.raises(terrane.Error):
                list(batches)


def test_no_reference_is_lost_by_reads_and_errors(dataset):
    from test_process import blocks_gained
    entries = dataset.lookup([1, 2])

    def one():
        dataset.read([1, 2, 3])
        dataset.keys([4])
        dataset.read_start([5])
        for call in (lambda: dataset.read([TOTAL]), lambda: dataset._handle.read(entries, b"", None),
                     lambda: dataset._handle.lookup(b"1", b"", None), lambda: dataset._handle.lookup(b"1", entries, 3)):
            try:
                call()
            except (IndexError, ValueError, TypeError, BufferError):
                continue
            raise AssertionError("it was accepted")

    assert blocks_gained(one, 1000) < 500  # a block lost by any of the calls would be 1,000

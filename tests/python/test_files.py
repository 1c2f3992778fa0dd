# SPDX-License-Identifier: Apache-2.0
"""Files, names and batches from Python."""
import io
import multiprocessing
import os
import pickle
import shutil
import threading
import zipfile

import numpy
import pytest
import terrane
from box import some_bytes

MIB = 1 << 20


def test_bytes_written_are_read_back(cluster, folder):
    data = some_bytes("a", 3 * MIB + 17)
    with cluster.open(f"{folder}/a", "wb") as file:
        assert file.write(data[:100]) == 100
        file.write(data[100:])
        assert file.tell() == len(data)
    assert cluster.read(f"{folder}/a") == data
    stat = cluster.stat(f"{folder}/a")
    assert stat.size == len(data) and stat.sealed and stat.is_file()


def test_file_replaces_only_when_it_is_closed(cluster, folder):
    cluster.write(f"{folder}/a", b"old")
    with cluster.open(f"{folder}/a", "wb") as file:
        file.write(b"new!")
        file.flush()
        assert cluster.read(f"{folder}/a") == b"old"
    assert cluster.read(f"{folder}/a") == b"new!"


def test_exclusive_file_needs_a_free_name(cluster, folder):
    with cluster.open(f"{folder}/a", "xb") as file:
        file.write(b"1")
    with pytest.raises(FileExistsError) as caught:
        cluster.open(f"{folder}/a", "xb").close()
    assert isinstance(caught.value, terrane.Exists) and isinstance(caught.value, terrane.Error)
    assert f"{folder}/a" in str(caught.value)


def test_exception_inside_with_leaves_nothing(cluster, folder):
    with pytest.raises(KeyError):
        with cluster.open(f"{folder}/a", "wb") as file:
            file.write(some_bytes("x", 2 * MIB))
            raise KeyError
    assert cluster.listdir(folder) == []


def test_lost_writer_leaves_nothing_and_warns(cluster, folder):
    with pytest.warns(ResourceWarning, match="was not closed: it is discarded"):
        cluster.open(f"{folder}/a", "wb").write(b"bytes")
    assert cluster.listdir(folder) == []


def test_log_grows_and_every_flush_is_visible(cluster, folder):
    for word in (b"one ", b"two "):
        with cluster.open(f"{folder}/log", "ab") as file:
            file.write(word)
            file.flush()
            assert cluster.read(f"{folder}/log").endswith(word)
    assert cluster.read(f"{folder}/log") == b"one two "
    with cluster.open(f"{folder}/log", "ab") as file:
        assert file.tell() == 8


def test_second_writer_of_a_log_fences_the_first(cluster, folder):
    first = cluster.open(f"{folder}/log", "ab", buffering=0)
    first.write(b"1")
    with cluster.open(f"{folder}/log", "ab") as second:
        second.write(b"2")
    with pytest.raises(terrane.Stale):
        first.write(b"3")
    first.discard()
    assert cluster.read(f"{folder}/log") == b"12"


def test_reader_is_a_real_io_object(cluster, folder):
    lines = b"".join(b"line %d\n" % i for i in range(1000))
    cluster.write(f"{folder}/a", lines)
    with cluster.open(f"{folder}/a") as file:
        assert isinstance(file, io.BufferedIOBase) and file.readable() and file.seekable() and not file.writable()
        assert file.readline() == b"line 0\n" and file.tell() == 7
        assert file.seek(-8, os.SEEK_END) == len(lines) - 8
        assert file.read() == lines[-8:] and file.read() == b""
        assert file.seek(3) == 3 and file.seek(2, os.SEEK_CUR) == 5 and file.read(1) == b"0"
        with pytest.raises(ValueError):
            file.seek(-1)
        file.seek(0)
        assert list(io.TextIOWrapper(file)) == [f"line {i}\n" for i in range(1000)]


def test_standard_modules_work_on_files(cluster, folder, tmp_path):
    with cluster.open(f"{folder}/z.zip", "wb") as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("inner.txt", "text " * 1000)
    with cluster.open(f"{folder}/z.zip") as file, zipfile.ZipFile(file) as archive:
        assert archive.read("inner.txt") == b"text " * 1000
    with cluster.open(f"{folder}/z.zip") as source, open(tmp_path / "z.zip", "wb") as target:
        shutil.copyfileobj(source, target)
    assert zipfile.is_zipfile(tmp_path / "z.zip")


def test_reads_go_into_the_callers_memory(cluster, folder):
    data = numpy.arange(100_000, dtype=numpy.int32)
    cluster.write(f"{folder}/a", data)
    room = numpy.zeros_like(data)
    with cluster.open(f"{folder}/a") as file:
        assert file.pread_into(room[1000:2000], 4 * 1000) == 4000
        assert (room[1000:2000] == data[1000:2000]).all() and room[:1000].sum() == 0
        assert file.pread_into(memoryview(bytearray(100)), 400_000 - 10) == 10
        assert file.pread_into(bytearray(100), 400_000) == 0


def test_batch_reads_paths_ids_and_files(cluster, folder):
    names = {f"f{i}": some_bytes(i, 1000 + i) for i in range(300)}
    done = cluster.pack(folder, names)
    assert [one.name for one in done] == list(names) and all(one.error is None for one in done)
    rooms = [bytearray(900) for _ in names]
    with cluster.open(f"{folder}/f0") as file:
        ranges = [(file, 7, rooms[0])]
        ranges += [(f"{folder}/f{i}" if i % 2 else done[i].id, 7, rooms[i]) for i in range(1, 300)]
        assert cluster.read_batch(ranges) == [900] * 300
    assert all(room == data[7:907] for room, data in zip(rooms, names.values()))


def test_batch_reports_the_error_of_each_range(cluster, folder):
    cluster.write(f"{folder}/a", b"0123")
    room = bytearray(8)
    ranges = [(f"{folder}/a", 0, room), (f"{folder}/none", 0, bytearray(8))]
    good, bad = cluster.read_batch(ranges, errors="return")
    assert good == 4 and isinstance(bad, FileNotFoundError) and room[:4] == b"0123"
    with pytest.raises(FileNotFoundError):
        cluster.read_batch(ranges)


def test_pack_reports_the_error_of_each_file(cluster, folder):
    cluster.write(f"{folder}/b", b"old")
    done = cluster.pack(folder, {"a": b"1", "b": b"2", "c": b"3"}, errors="return")
    assert [one.error is None for one in done] == [True, False, True]
    assert isinstance(done[1].error, FileExistsError) and cluster.read(f"{folder}/b") == b"old"
    with pytest.raises(FileExistsError):
        cluster.pack(folder, {"b": b"2"})
    cluster.pack(folder, {"b": b"2"}, replace=True)
    assert cluster.read(f"{folder}/b") == b"2"


def test_names_behave_like_those_of_os(cluster, folder):
    cluster.mkdir(f"{folder}/x/y", parents=True)
    cluster.mkdir(f"{folder}/x", exist_ok=True)
    with pytest.raises(FileExistsError):
        cluster.mkdir(f"{folder}/x")
    cluster.write(f"{folder}/x/y/a", b"1")
    cluster.rename(f"{folder}/x/y/a", f"{folder}/x/b")
    assert list(cluster.walk(folder)) == [(folder, ["x"], []), (f"{folder}/x", ["y"], ["b"]), (f"{folder}/x/y", [], [])]
    with pytest.raises(OSError, match="not empty"):
        cluster.remove(f"{folder}/x")
    cluster.remove(f"{folder}/x", recursive=True)
    assert not cluster.exists(f"{folder}/x")
    with pytest.raises(FileNotFoundError):
        cluster.stat(f"{folder}/x")


def test_large_directory_is_listed_once_each(cluster, folder):
    cluster.pack(folder, {f"{i:05}": b"" for i in range(2500)})
    assert sorted(cluster.listdir(folder)) == [f"{i:05}" for i in range(2500)]


def test_options_of_a_call(cluster, folder):
    with cluster.open(f"{folder}/a", "wb", encoding="r3", block_bytes=1 << 16, timeout=30, traffic_class="gold") as f:
        f.write(b"x" * 200_000)
    with cluster.open(f"{folder}/a", timeout=2.5, hedge=0) as file:
        assert file.stat().encoding == "r3" and len(file.read()) == 200_000


# --- bad input

@pytest.mark.parametrize("call, error", [
    (lambda c: c.stat(5), TypeError),
    (lambda c: c.stat("/a\0b"), ValueError),
    (lambda c: c.stat("/a", color="red"), TypeError),
    (lambda c: c.stat("/a", timeout=-1), ValueError),
    (lambda c: c.stat("/a", timeout="soon"), TypeError),
    (lambda c: c.stat("/a", quorum=1 << 20), OverflowError),
    (lambda c: c.stat("/a", traffic_class="platinum"), ValueError),
    (lambda c: c.stat("/a", media="tape"), ValueError),
    (lambda c: c.stat("\ud800"), ValueError),
    (lambda c: c.open("/a", "r+b"), ValueError),
    (lambda c: c.open("/a", "w"), ValueError),
    (lambda c: c.open("/a", "wb", encoding="rs:9"), OSError),
    (lambda c: c.pread_into("/", bytearray(1)), IsADirectoryError),
    (lambda c: c.read_batch([("/a", 0)]), ValueError),
    (lambda c: c.read_batch([5]), TypeError),
    (lambda c: c.read_batch([("/a", 0, b"read-only")]), BufferError),
    (lambda c: c.read_batch([("/a", -1, bytearray(1))]), OverflowError),
    (lambda c: c.read_batch([(0, 0, bytearray(1))]), ValueError),
    (lambda c: c.read_batch(7), TypeError),
    (lambda c: c.read_batch([("/a", 0, bytearray(1))], errors="perhaps"), ValueError),
    (lambda c: c.pack("/", [("a", "text")]), TypeError),
    (lambda c: c.pack("/", [("a",)]), TypeError),
    (lambda c: c.pack("/", [(b"a", b"")]), TypeError),
    (lambda c: c.pack("/none", {"a": b""}), FileNotFoundError),
    (lambda c: list(c.scandir("/none")), FileNotFoundError),
    (lambda c: terrane.connect("/no/such/file"), FileNotFoundError),
    (lambda c: terrane.connect(traffic_class="x"), ValueError),
    (lambda c: terrane._terrane.Cluster(5), TypeError),
    (lambda c: terrane._terrane.File(), TypeError),
    (lambda c: c._handle.list("/", b"short", None), ValueError),
    (lambda c: c._handle.stat("/", 5), TypeError),
])
def test_bad_argument_is_refused(cluster, call, error):
    with pytest.raises(error):
        call(cluster)


def test_buffers_that_cannot_be_read_into(cluster, folder):
    cluster.write(f"{folder}/a", b"0123")
    with cluster.open(f"{folder}/a") as file:
        for buffer in (b"abcd", "abcd", None, numpy.zeros((4, 4))[:, 1]):
            with pytest.raises((TypeError, BufferError, ValueError)):
                file.pread_into(buffer, 0)
        assert file.pread_into(bytearray(0), 0) == 0
        with pytest.raises(OverflowError):
            file.pread_into(bytearray(1), -1)


def test_closed_handles_are_refused(box, folder, cluster):
    other = terrane.connect()
    cluster.write(f"{folder}/a", b"0123")
    reader, writer = other.open(f"{folder}/a"), other.open(f"{folder}/b", "wb")
    reader.close()
    reader.close()
    for use in (reader.read, lambda: reader.seek(0), lambda: reader.raw.pread_into(bytearray(1), 0)):
        with pytest.raises(ValueError):
            use()
    writer.write(b"bytes")
    other.close()
    with pytest.raises(ValueError):
        other.stat("/")
    writer.close()  # an open file keeps its cluster
    assert cluster.read(f"{folder}/b") == b"bytes"
    with pytest.raises(ValueError):
        writer.write(b"more")


def test_file_of_another_handle_is_refused_in_a_batch(cluster, folder):
    cluster.write(f"{folder}/a", b"0123")
    with terrane.connect() as other, other.open(f"{folder}/a") as file:
        with pytest.raises(ValueError, match="another cluster handle"):
            cluster.read_batch([(file, 0, bytearray(1))])


# --- threads, processes

def test_threads_share_a_file(cluster, folder):
    data = some_bytes("t", 4 * MIB)
    cluster.write(f"{folder}/a", data)
    wrong = []

    def read(file, seed):
        for i in range(20):
            at = (seed * 7919 + i * 104729) % (len(data) - 5000)
            room = bytearray(5000)
            if file.pread_into(room, at) != 5000 or room != data[at:at + 5000]:
                wrong.append(at)

    with cluster.open(f"{folder}/a") as file:
        threads = [threading.Thread(target=read, args=(file, seed)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def _in_child(given):
    cluster, file, path = given
    return cluster.read(path), file.tell(), file.read(), terrane.__name__


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_handles_pickle_as_open_again(cluster, folder, method):
    cluster.write(f"{folder}/a", b"0123456789")
    with cluster.open(f"{folder}/a") as file:
        file.read(4)
        with multiprocessing.get_context(method).Pool(2) as pool:
            answers = pool.map(_in_child, [(cluster, file, f"{folder}/a")] * 4, chunksize=1)
    assert answers == [(b"0123456789", 4, b"456789", "terrane")] * 4


def test_writer_does_not_pickle(cluster, folder):
    with pytest.raises(TypeError, match="cannot be pickled"), cluster.open(f"{folder}/a", "wb") as file:
        pickle.dumps(file)


def test_child_reads_and_leaves_the_parents_writer_alone(cluster, folder):
    cluster.write(f"{folder}/a", b"0123")
    with cluster.open(f"{folder}/a") as reader, cluster.open(f"{folder}/b", "wb") as writer:
        writer.write(b"from the parent")
        writer.flush()
        pid = os.fork()
        if pid == 0:
            good = reader.read() == b"0123" and cluster.listdir(folder) == ["a"]
            try:
                writer.write(b"from the child")
                writer.flush()
                good = False
            except terrane.Stale:
                pass
            os._exit(0 if good else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert cluster.read(f"{folder}/b") == b"from the parent"


def test_fork_while_other_threads_call(cluster, folder):
    cluster.write(f"{folder}/a", some_bytes("f", MIB))
    stop = threading.Event()

    def work():
        while not stop.is_set():
            cluster.read(f"{folder}/a")

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            pid = os.fork()
            if pid == 0:
                os._exit(0 if len(cluster.read(f"{folder}/a")) == MIB else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()

# SPDX-License-Identifier: Apache-2.0
"""terrane.aio: calls of coroutines, many at once, cancelled, on a cluster that does not answer, closed while they run."""
import asyncio
import os
import signal
import time

import pytest
import terrane
from box import Box, some_bytes
from terrane import aio


def run(coroutine):
    """Runs coroutine(cluster) in an event loop of its own."""
    async def main():
        async with aio.connect() as cluster:
            return await coroutine(cluster)
    return asyncio.run(main())


def test_files_are_written_and_read(cluster, folder):
    data = some_bytes(1, 3_000_000)

    async def work(other):
        await other.write(f"{folder}/a", data)
        room = bytearray(10)
        got = await other.pread_into(f"{folder}/a", room, 2_999_995)
        return await other.read(f"{folder}/a"), got, bytes(room[:got]), await other.exists(f"{folder}/none"), \
            (await other.stat(folder)).is_dir()

    assert run(work) == (data, 5, data[-5:], False, True) and cluster.read(f"{folder}/a") == data


def test_many_calls_run_at_once(cluster, folder):
    cluster.pack(folder, {str(i): b"%04d" % i for i in range(500)})

    async def work(other):
        rooms = [bytearray(4) for _ in range(500)]
        counts = await asyncio.gather(*(other.read_batch([(f"{folder}/{i}", 0, room)]) for i, room in enumerate(rooms)))
        await asyncio.gather(*(other.write(f"{folder}/w{i}", b"x") for i in range(20)))
        return counts, [int(room) for room in rooms]

    assert run(work) == ([[4]] * 500, list(range(500)))
    assert sum(name.startswith("w") for name in cluster.listdir(folder)) == 20


def test_errors_are_those_of_other_calls(folder):
    async def work(other):
        with pytest.raises(FileNotFoundError):
            await other.read(f"{folder}/none")
        with pytest.raises(terrane.NotFound):
            await other.read_batch([(f"{folder}/none", 0, bytearray(1))])
        wrong, = await other.read_batch([(f"{folder}/none", 0, bytearray(1))], errors="return")
        assert isinstance(wrong, FileNotFoundError)
        await other.write(f"{folder}/a", b"1")
        with pytest.raises(FileExistsError):
            await other.write(f"{folder}/a", b"2", exclusive=True)
        for call, error in ((other.stat(5), TypeError), (other.stat("/", color=1), TypeError),
                            (other.read_batch([("/a", 0, b"not writable")]), BufferError),
                            (other.read_batch([5]), TypeError), (other.write(f"{folder}/b", "text"), TypeError)):
            with pytest.raises(error):
                await call
        assert not await other.exists(f"{folder}/b")
        return True

    assert run(work)


def test_cancelled_and_closed_calls_end_on_a_cluster_that_does_not_answer(tmp_path):
    with Box(tmp_path / "b") as box:
        pid, = box.pids().values()

        async def main():
            other = aio.connect(box.env["TERRANE_CLUSTER"])
            await other.write("/a", b"0123456789")
            os.kill(pid, signal.SIGSTOP)
            began = time.monotonic()
            try:
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(other.read_batch([("/a", 0, bytearray(10))], timeout=3600), 0.2)
                left = asyncio.ensure_future(other.read("/a", timeout=3600))
                await asyncio.sleep(0.05)
                other.close()
                assert not left.done()
                left.cancel()
            finally:
                os.kill(pid, signal.SIGCONT)
            assert time.monotonic() - began < 60  # the calls' own timeout is an hour
        asyncio.run(main())


def test_a_cluster_belongs_to_one_loop_and_process(cluster, folder):
    other = aio.connect()
    asyncio.run(other.stat("/"))
    with pytest.raises(RuntimeError, match="another event loop"):
        asyncio.run(other.stat("/"))
    queue = other._queue
    child = os.fork()
    if child == 0:
        try:
            queue.stat(None, "/", None)
        except ValueError as error:
            os._exit(0 if "parent process" in str(error) else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    other.close()
    for call in (lambda: queue.stat(None, "/", None), queue.fileno):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_no_reference_is_lost_by_asynchronous_calls(cluster, folder):
    from test_process import blocks_gained
    cluster.write(f"{folder}/a", b"0123456789")

    async def main():
        other = aio.connect()
        room = bytearray(4)
        loop = asyncio.get_running_loop()

        async def one():
            await other.stat("/")
            await other.read_batch([(f"{folder}/a", 0, room)])
            for call in (other.stat(f"{folder}/none"), other.stat(5), other.read_batch([5])):
                try:
                    await call
                except (FileNotFoundError, TypeError):
                    continue
                raise AssertionError("it was accepted")
        return other, one, loop

    loop = asyncio.new_event_loop()
    other, one, _ = loop.run_until_complete(main())
    other._loop = other._loop or loop
    assert blocks_gained(lambda: loop.run_until_complete(one()), 100) < 60
    other.close()
    loop.close()

# SPDX-License-Identifier: Apache-2.0
"""Terrane for asyncio: calls that complete into a queue of the library, which the event loop watches. No threads.

>>> import asyncio
>>> from terrane import aio
>>> async def walk(cluster):
...     await cluster.write("/doc/aio", b"0123456789")
...     first, second = bytearray(2), bytearray(3)
...     sizes = await cluster.read_batch([("/doc/aio", 0, first), ("/doc/aio", 5, second)])
...     return sizes, bytes(first + second), (await cluster.stat("/doc/aio")).size
>>> async def main():
...     async with aio.connect() as cluster:
...         return await walk(cluster)
>>> asyncio.run(main())
([2, 3], b'01567', 10)
"""
import asyncio
import os

from . import _cluster, _terrane
from ._cluster import REPLACE, Stat, _path

__all__ = ["Cluster", "connect"]


class Cluster:
    """A cluster for the coroutines of one event loop. Options of calls are those of `terrane.Cluster`.

    A coroutine that is cancelled cancels its call. The library may write to the buffers of a cancelled read until the call
    has ended: do not use them for something else. `cluster` is the `terrane.Cluster` for all other calls.
    """

    def __init__(self, cluster):
        self.cluster = cluster
        self._queue = self._loop = self._pid = None

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        self.close()

    def close(self):
        """Cancels the calls in progress, waits for them, and closes the cluster."""
        queue, self._queue = self._queue, None
        if queue is not None:
            if self._pid == os.getpid() and not self._loop.is_closed():
                self._loop.remove_reader(self._descriptor)
            queue.close()
        self.cluster.close()

    def _start(self, method, *args):
        """Starts a call; returns its Future."""
        loop = asyncio.get_running_loop()
        if self._queue is None:
            self._queue, self._loop, self._pid = _terrane.Queue(self.cluster._handle), loop, os.getpid()
            self._descriptor = self._queue.fileno()
            loop.add_reader(self._descriptor, self._take, self._queue)
        if self._loop is not loop:
            raise RuntimeError("this cluster belongs to another event loop: connect once for each")
        future = loop.create_future()
        getattr(self._queue, method)(future, *args)
        future.add_done_callback(self._done)
        return future

    def _done(self, future):
        if future.cancelled() and self._queue is not None:
            self._queue.cancel(future)

    @staticmethod
    def _take(queue):
        for future, result, error in queue.take():
            if future.done():  # cancelled
                continue
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)

    async def stat(self, path, **options):
        """The attributes of a file or directory."""
        return Stat(*await self._start("stat", _path(path), options or None))

    async def exists(self, path, **options):
        """Whether the file or directory exists."""
        try:
            await self.stat(path, **options)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    async def read(self, path, **options):
        """All bytes of a file."""
        file = await self._start("open_read", _path(path), options or None)
        try:
            size = await asyncio.to_thread(file.stat, options or None)
            room = bytearray(size[3])
            got, = await self._read(((file, 0, room),), options)
            return bytes(memoryview(room)[:got])
        finally:
            file.close(None)

    async def write(self, path, data, *, exclusive=False, **options):
        """Writes a complete file: it is visible and durable when this returns."""
        file = await self._start("create", _path(path), 0 if exclusive else REPLACE, options or None)
        try:
            await self._start("append", file, data, options or None)
        except BaseException:
            file.discard()
            raise
        await self._start("close_file", file, options or None)

    async def pread_into(self, path, buffer, offset=0, **options):
        """Reads bytes of a file at an offset into a writable buffer. Returns their number."""
        got, = await self._read(((_path(path), offset, buffer),), options)
        return got

    async def read_batch(self, ranges, *, errors="raise", **options):
        """Reads many ranges in one call: as `terrane.Cluster.read_batch`."""
        if errors not in ("raise", "return"):
            raise ValueError(f"errors must be raise or return, not {errors!r}")
        ranges = tuple((_cluster._range_file(file), offset, buffer) for file, offset, buffer in ranges)
        return await self._read(ranges, options, errors)

    async def _read(self, ranges, options, errors="raise"):
        text, results = await self._start("read_batch", ranges, options or None)
        return _cluster._batch_results(ranges, text, results, errors)


def connect(*args, **options):
    """Opens the cluster as `terrane.connect`, for one event loop. It contacts the cluster, so connect before the loop is
    busy."""
    return Cluster(_cluster.connect(*args, **options))

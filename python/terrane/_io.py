# SPDX-License-Identifier: Apache-2.0
"""Files as io objects: raw files on the extension's, and the buffered files that `Cluster.open` returns."""
import io
import os
import warnings

BUFFER_BYTES = 1 << 20


class RawReader(io.RawIOBase):
    """An unbuffered file that is open for reading."""

    def __init__(self, cluster, path, options):
        self._cluster, self._path, self._options, self._at = cluster, path, options, 0
        self._file = cluster._handle.open_read(path, options)

    name = property(lambda self: self._path)
    mode = "rb"

    def readable(self):
        return True

    def seekable(self):
        return True

    def stat(self):
        return self._file.stat(self._options)

    def pread_into(self, buffer, offset):
        """Reads into a writable buffer; returns the number of bytes, fewer only at the end of the file."""
        return self._file.pread_into(buffer, offset, self._options)

    def readinto(self, buffer):
        count = self._file.pread_into(buffer, self._at, self._options)
        self._at += count
        return count

    def readall(self):
        left = max(self.stat()[3] - self._at, 0)
        room = bytearray(left)
        count = self.readinto(room) if left else 0
        return bytes(memoryview(room)[:count])

    def seek(self, offset, whence=os.SEEK_SET):
        self._check_open()
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at}.get(whence)
        if whence == os.SEEK_END:
            base = self.stat()[3]
        if base is None:
            raise ValueError(f"invalid whence ({whence}, should be 0, 1 or 2)")
        if base + offset < 0:
            raise ValueError(f"negative seek position {base + offset}")
        self._at = base + offset
        return self._at

    def tell(self):
        self._check_open()
        return self._at

    def _check_open(self):
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def close(self):
        if not self.closed:
            self._file.close(self._options)
        super().close()


class Reader(io.BufferedIOBase):
    """A buffered file that is open for reading. It pickles as its path and position: the copy opens the file again.

    It has an io.BufferedReader and is none, because numpy takes those for files with a descriptor."""
    mode = "rb"

    def __init__(self, raw, buffering=BUFFER_BYTES):
        self._buffer = io.BufferedReader(raw, buffering)
        for name in ("read", "read1", "readinto", "readinto1", "readline", "peek", "seek", "tell"):
            setattr(self, name, getattr(self._buffer, name))  # no Python function in between

    raw = property(lambda self: self._buffer.raw)
    name = property(lambda self: self._buffer.raw.name)
    closed = property(lambda self: self._buffer.closed)
    size = property(lambda self: self.raw.stat()[3])

    def readable(self):
        return self._buffer.readable()

    def seekable(self):
        return self._buffer.seekable()

    def __next__(self):
        return next(self._buffer)

    def close(self):
        self._buffer.close()

    def pread_into(self, buffer, offset):
        """Reads bytes at an offset straight into a writable buffer, and leaves the position alone. Returns the number of
        bytes, fewer than the buffer has only at the end of the file."""
        return self.raw.pread_into(buffer, offset)

    def stat(self):
        """The attributes of the open file, like `Cluster.stat`."""
        from ._cluster import Stat
        return Stat(*self.raw.stat())

    def __reduce__(self):
        raw = self.raw
        return _reopen, (raw._cluster, raw._path, raw._options, self.tell())


def _reopen(cluster, path, options, position):
    file = Reader(RawReader(cluster, path, options), BUFFER_BYTES)
    file.seek(position)
    return file


class RawWriter(io.RawIOBase):
    """An unbuffered file that is open for writing. Closing makes it visible; `discard` makes sure that it never is."""

    def __init__(self, file, path, mode, options):
        self._file, self._path, self._options, self.mode = file, path, options, mode
        self._at = file.stat(options)[3] if mode == "ab" else 0

    name = property(lambda self: self._path)

    def writable(self):
        return True

    def tell(self):
        if self.closed:
            raise ValueError("I/O operation on closed file")
        return self._at

    def write(self, data):
        count = self._file.append(data, self._options)
        self._at += count
        return count

    def sync(self):
        self._file.flush(self._options)

    def discard(self):
        self._file.discard()
        super().close()

    def close(self):
        if not self.closed:
            try:
                self._file.close(self._options)
            finally:
                super().close()


class Writer(io.BufferedIOBase):
    """A buffered file that is open for writing. It becomes visible, complete and durable, when it is closed. An exception
    inside its `with` block, `discard()`, and losing the object without closing it, leave nothing visible."""

    def __init__(self, raw, buffering=BUFFER_BYTES):
        self._buffer = io.BufferedWriter(raw, buffering)
        self.mode = raw.mode

    raw = property(lambda self: self._buffer.raw)
    name = property(lambda self: self._buffer.raw.name)
    closed = property(lambda self: self._buffer.raw.closed)

    def writable(self):
        return self._buffer.writable()

    def write(self, data):
        return self._buffer.write(data)

    def flush(self):
        if not self.closed:
            self._buffer.flush()

    def tell(self):
        return self._buffer.tell()

    def discard(self):
        """Ends the file without making it visible. Bytes that were appended to a log stay."""
        if not self.closed:
            self.raw.discard()

    def sync(self):
        """Waits until all written bytes are durable. Ends the current block of a file that is not a log, which wastes
        space when done often."""
        self._buffer.flush()
        self.raw.sync()

    def close(self):
        if self.closed:
            return
        try:
            self._buffer.flush()
        except BaseException:
            self.raw.discard()  # a file that lacks bytes must not become visible
            raise
        self.raw.close()

    def __exit__(self, kind, value, trace):
        if kind is not None:
            self.discard()
        else:
            self.close()

    def _lost(self):
        """Ends a file that nobody closed."""
        warnings.warn(f"{self.name} was not closed: it is discarded", ResourceWarning, source=self)
        self.discard()

    def __del__(self):
        buffer = self.__dict__.get("_buffer")  # missing if __init__ failed
        if buffer is not None and not buffer.raw.closed:
            self._lost()

    def __reduce__(self):
        raise TypeError("a file that is open for writing cannot be pickled: open it where it is written")


class LogWriter(Writer):
    """A log that is open for append. Every flush is stored by a quorum and visible when it returns."""

    def __exit__(self, kind, value, trace):
        self.close()

    def _lost(self):
        self.close()

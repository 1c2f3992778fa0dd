# SPDX-License-Identifier: Apache-2.0
"""The cluster: names, files, batches."""
import errno
import os
import weakref
from typing import NamedTuple

from . import _errors, _io, _terrane

REPLACE, LOG = 1, 2
FILE, DIRECTORY = 1, 2
CLASSES = {None: 0, "gold": 1, "silver": 2, "bronze": 3}


class Stat(NamedTuple):
    """The attributes of a file or directory."""
    id: int           # identifies it even if it is renamed
    kind: int         # 1: a file, 2: a directory
    sealed: bool      # it can never change again
    size: int         # bytes
    mtime_ns: int     # time of the last change, since 1970
    block_bytes: int = 0
    encoding: str = ""
    media: str = ""

    @property
    def mtime(self):
        return self.mtime_ns / 1e9

    def is_dir(self):
        return self.kind == DIRECTORY

    def is_file(self):
        return self.kind == FILE


class DirEntry(NamedTuple):
    """An entry of a directory, as `Cluster.scandir` yields it."""
    name: str
    id: int
    kind: int
    sealed: bool
    size: int
    mtime_ns: int
    path: str = ""

    def is_dir(self):
        return self.kind == DIRECTORY

    def is_file(self):
        return self.kind == FILE

    def stat(self):
        return Stat(self.id, self.kind, self.sealed, self.size, self.mtime_ns)


def _path(path):
    path = os.fspath(path)
    return path.decode() if isinstance(path, bytes) else path


class Packed(NamedTuple):
    """The result of one file of `Cluster.pack`."""
    name: str
    id: int
    error: Exception = None


class Cluster:
    """An open cluster; `terrane.connect` returns it. Every method takes the options of a call as keywords: `timeout`
    (seconds), `traffic_class`, `traffic_group`, `job_id`; those that write also `encoding`, `block_bytes`, `media`,
    `quorum`, `placement_category`, `placement_model` (a `PlacementModel`) and `features` (a dict); those that read
    `hedge`, `hedge_ms`.

    A cluster may be used by any number of threads, in the children of a fork, and pickles as what it was connected with.

    >>> import terrane
    >>> with terrane.connect() as cluster:
    ...     cluster.mkdir("/doc/example", parents=True)
    ...     with cluster.open("/doc/example/a.bin", "wb") as file:
    ...         _ = file.write(b"some bytes")
    ...     cluster.listdir("/doc/example")
    ['a.bin']
    """

    def __init__(self, cluster_file=None, *, tenant=None, traffic_group=None, traffic_class=None, memory_bytes=0,
                 connect_timeout=3.0):
        if traffic_class not in CLASSES:
            raise ValueError(f"traffic_class must be one of gold, silver, bronze, not {traffic_class!r}")
        self._given = (None if cluster_file is None else _path(cluster_file), tenant, traffic_group,
                       CLASSES[traffic_class], memory_bytes, int(connect_timeout * 1000))
        self._handle = _terrane.Cluster(*self._given)

    def __reduce__(self):
        return _again, self._given

    def close(self):
        """Closes the cluster. Calls in progress and open files keep it until they end."""
        self._handle.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def stats(self):
        """Counters since `connect`: bytes read and written, hedges, reconstructions."""
        return self._handle.stats()

    # --- names

    def stat(self, path, **options):
        """The attributes of a file or directory.

        >>> cluster = getfixture()
        >>> cluster.stat("/").is_dir()
        True
        """
        return Stat(*self._handle.stat(_path(path), options or None))

    def exists(self, path, **options):
        """Whether the file or directory exists."""
        try:
            self.stat(path, **options)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def mkdir(self, path, *, parents=False, exist_ok=False, **options):
        """Makes a directory. With parents also missing parent directories; then it may exist already.

        >>> cluster = getfixture()
        >>> cluster.mkdir("/doc/deep/er", parents=True)
        >>> cluster.mkdir("/doc/deep")
        Traceback (most recent call last):
        ...
        terrane.Exists: ...
        """
        try:
            self._handle.mkdir(_path(path), parents, options or None)
        except FileExistsError:
            if not exist_ok or not self.stat(path).is_dir():
                raise

    def rename(self, old, new, **options):
        """Renames or moves a file or directory. A file replaces a file of the new name."""
        self._handle.rename(_path(old), _path(new), options or None)

    def remove(self, path, *, recursive=False, **options):
        """Removes a file or an empty directory; with recursive also all that is below."""
        if recursive and self.stat(path, **options).is_dir():
            for entry in list(self.scandir(path, **options)):
                if entry.is_dir():
                    self.remove(entry.path, recursive=True, **options)
                else:
                    self._handle.remove(entry.path, options or None)
        self._handle.remove(_path(path), options or None)

    def seal(self, path, **options):
        """Seals a log or a directory. Options: `encoding` and `media` for the blocks of a log."""
        self._handle.seal(_path(path), options or None)

    def scandir(self, path="/", **options):
        """Yields the entries of a directory.

        >>> cluster = getfixture()
        >>> cluster.mkdir("/doc/scan/x", parents=True)
        >>> [(entry.name, entry.is_dir()) for entry in cluster.scandir("/doc/scan")]
        [('x', True)]
        """
        path = _path(path)
        base = path if path.endswith("/") else path + "/"
        cursor = b""
        while True:
            cursor, entries = self._handle.list(path, cursor, options or None)
            if not entries:
                return
            for entry in entries:
                yield DirEntry(*entry, base + entry[0])

    def listdir(self, path="/", **options):
        """The names in a directory."""
        return [entry.name for entry in self.scandir(path, **options)]

    def walk(self, top="/", **options):
        """Yields (path, names of directories, names of files) of a directory and of all below, as os.walk does. The
        caller may remove directories from the list, and they are not entered."""
        entries = list(self.scandir(top, **options))
        folders = [entry.name for entry in entries if entry.is_dir()]
        yield _path(top), folders, [entry.name for entry in entries if entry.is_file()]
        base = _path(top).rstrip("/") + "/"
        for name in folders:
            yield from self.walk(base + name, **options)

    # --- files

    def open(self, path, mode="rb", *, buffering=_io.BUFFER_BYTES, **options):
        """Opens a file as an io object: "rb" reads; "wb" writes a file that replaces one of the name when it is closed;
        "xb" writes a file whose name must be free; "ab" appends to a log, and creates it. buffering 0 returns the
        unbuffered file.

        >>> cluster = getfixture()
        >>> with cluster.open("/doc/hello", "wb") as file:
        ...     file.write(b"hello, world")
        12
        >>> with cluster.open("/doc/hello") as file:
        ...     file.seek(7), file.read()
        (7, b'world')
        """
        path = _path(path)
        options = options or None
        if mode in ("rb", "r+b", "rb+") and mode != "rb":
            raise ValueError(f"mode {mode!r}: files cannot be changed in place; there are rb, wb, xb, ab")
        if mode not in ("rb", "wb", "xb", "ab"):
            raise ValueError(f"mode {mode!r}: there are rb, wb, xb, ab; io.TextIOWrapper makes text of bytes")
        if mode == "rb":
            raw = _io.RawReader(self, path, options)
            return _io.Reader(raw, buffering) if buffering else raw
        if mode == "ab":
            file = self._open_log(path, options)
        else:
            if mode == "xb" and self.exists(path, **(options or {})):  # closing the file checks it once more
                raise _errors.make(errno.EEXIST, _terrane.error_text(-errno.EEXIST)[1], path)
            file = self._handle.create(path, REPLACE if mode == "wb" else 0, options)
        raw = _io.RawWriter(file, path, mode, options)
        if not buffering:
            return raw
        return (_io.LogWriter if mode == "ab" else _io.Writer)(raw, buffering)

    def _open_log(self, path, options):
        for _ in range(8):
            try:
                return self._handle.append_open(path, options)
            except FileNotFoundError:
                pass
            try:
                return self._handle.create(path, LOG, options)
            except FileExistsError:
                pass  # another client has made it in the meantime
        raise _errors.make(errno.EAGAIN, "the log was created and removed by other clients again and again", path)

    def read(self, path, **options):
        """All bytes of a file."""
        file = _io.RawReader(self, _path(path), options or None)
        with file:
            return file.readall()

    def write(self, path, data, *, exclusive=False, **options):
        """Writes a complete file: it is visible and durable when this returns."""
        file = self._handle.create(_path(path), 0 if exclusive else REPLACE, options or None)
        try:
            file.append(data, options or None)
        except BaseException:
            file.discard()
            raise
        file.close(options or None)

    def pread_into(self, path, buffer, offset=0, **options):
        """Reads bytes of a file at an offset into a writable buffer: a bytearray, an array of numpy, the memory of a
        tensor. Returns their number.

        >>> cluster = getfixture()
        >>> cluster.write("/doc/p", b"0123456789")
        >>> room = bytearray(4)
        >>> cluster.pread_into("/doc/p", room, 3), bytes(room)
        (4, b'3456')
        """
        file = self._handle.open_read(_path(path), options or None)
        try:
            return file.pread_into(buffer, offset, options or None)
        finally:
            file.close(None)

    def read_batch(self, ranges, *, errors="raise", **options):
        """Reads many ranges of many files in one call. A range is (file, offset, buffer) with a path, the id of a file or
        an open file; its bytes go straight into the buffer. Returns how many bytes each got, fewer than its buffer has
        only at the end of the file. An error of a range is raised, or with errors="return" stands in its place.

        >>> cluster = getfixture()
        >>> cluster.write("/doc/a", b"aaaa"); cluster.write("/doc/b", b"bbbb")
        >>> a, b = bytearray(2), bytearray(3)
        >>> cluster.read_batch([("/doc/a", 1, a), ("/doc/b", 0, b)])
        [2, 3]
        >>> a, b
        (bytearray(b'aa'), bytearray(b'bbb'))
        """
        if errors not in ("raise", "return"):
            raise ValueError(f"errors must be raise or return, not {errors!r}")
        ranges = [(_range_file(file), offset, buffer) for file, offset, buffer in ranges]
        text, results = self._handle.read_batch(ranges, options or None)
        return _batch_results(ranges, text, results, errors)

    def pack(self, directory, files, *, replace=False, errors="raise", **options):
        """Writes many small files in one call: a dict, or pairs, of name and bytes. They share blocks, and each becomes
        visible completely. Names may lead into directories below, which must exist. Returns their results in order.

        >>> cluster = getfixture()
        >>> cluster.mkdir("/doc/many", exist_ok=True)
        >>> [done.name for done in cluster.pack("/doc/many", {"a": b"1", "b": b"22"})]
        ['a', 'b']
        """
        if errors not in ("raise", "return"):
            raise ValueError(f"errors must be raise or return, not {errors!r}")
        pairs = tuple(files.items() if hasattr(files, "items") else files)
        directory = _path(directory)
        result, text, each = self._handle.pack(directory, pairs, REPLACE if replace else 0, options or None)
        done = []
        for (name, _), (code, number) in zip(pairs, each):
            error = _errors.make(-code, _terrane.error_text(code)[1], name) if code < 0 else None
            done.append(Packed(name, number, error))
        if errors == "raise" and result < 0:
            first = next((one.name for one in done if one.error is not None and one.error.errno == -result), directory)
            raise _errors.make(-result, text or _terrane.error_text(result)[1], first)
        return done


def _batch_results(ranges, text, results, errors):
    """The results of a batch: raises the first error, or puts exceptions in the place of errors."""
    for i, result in enumerate(results):
        if result < 0:
            name = ranges[i][0] if isinstance(ranges[i][0], str) else None
            error = _errors.make(-result, _terrane.error_text(result)[1] if errors == "return" else
                                 text or _terrane.error_text(result)[1], name)
            if errors == "raise":
                raise error
            results[i] = error
    return results


def _range_file(file):
    """What the extension takes for a file: a path, an id, or its own File."""
    if isinstance(file, _io.Reader):
        file = file.raw
    if isinstance(file, _io.RawReader):
        return file._file
    return file if isinstance(file, int) else _path(file)


_clusters = weakref.WeakValueDictionary()


def _again(*given):
    """The cluster of a pickle: one handle for all that came from the same one."""
    key = (os.getpid(), given)
    cluster = _clusters.get(key)
    if cluster is None or cluster._handle is None:
        cluster = Cluster.__new__(Cluster)
        cluster._given = given
        cluster._handle = _terrane.Cluster(*given)
        _clusters[key] = cluster
    return cluster


def connect(cluster_file=None, *, tenant=None, traffic_group=None, traffic_class=None, memory_bytes=0,
            connect_timeout=3.0):
    """Opens the cluster that a cluster file describes: cluster_file, else $TERRANE_CLUSTER, else ./cluster.ini.

    tenant, traffic_group and traffic_class ("gold", "silver", "bronze") override the cluster file; memory_bytes limits the
    memory for blocks that are read or written; connect_timeout is in seconds.
    """
    return Cluster(cluster_file, tenant=tenant, traffic_group=traffic_group, traffic_class=traffic_class,
                   memory_bytes=memory_bytes, connect_timeout=connect_timeout)

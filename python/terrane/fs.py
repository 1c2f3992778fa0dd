# SPDX-License-Identifier: Apache-2.0
"""terrane:// for fsspec, and so for pandas, torch.load, zarr and all that open files through it.

>>> import fsspec
>>> with fsspec.open("terrane://doc/fs/a.txt", "w") as file:
...     _ = file.write("text")
>>> fs = fsspec.filesystem("terrane")
>>> fs.cat("/doc/fs/a.txt"), fs.size("/doc/fs/a.txt"), fs.ls("/doc/fs", detail=False)
(b'text', 4, ['/doc/fs/a.txt'])
"""
import datetime
import os
import posixpath

from fsspec.callbacks import _DEFAULT_CALLBACK
from fsspec.spec import AbstractFileSystem
from fsspec.utils import tokenize

from . import _cluster, _copying, _io

PIECE_BYTES = 4 << 20


class _Held(_io.Writer):
    """A file of a transaction: closing only flushes it; `commit` makes it visible."""
    _committed = False

    def close(self):
        if self._committed:
            super().close()
        elif not self.closed:
            self._buffer.flush()

    def __exit__(self, kind, value, trace):
        if kind is not None:
            self.discard()
        else:
            self.close()

    def commit(self):
        self._committed = True
        if not self.closed:
            super().close()

    def discard(self):
        self._committed = True
        super().discard()


class TerraneFileSystem(AbstractFileSystem):
    """A cluster as an fsspec file system. Storage options: `cluster_file`, `tenant`, `traffic_group`, `traffic_class`, as
    for `terrane.connect`; `auto_mkdir` (default true) makes the missing parents of a file that is written. Keywords of
    `open`, `pipe` and the like are options of the calls: `encoding`, `timeout` and so on."""

    protocol = "terrane"
    root_marker = "/"
    cachable = True

    def __init__(self, cluster_file=None, tenant=None, traffic_group=None, traffic_class=None, auto_mkdir=True, **kwargs):
        super().__init__(**kwargs)
        self.auto_mkdir = auto_mkdir
        self.cluster = _cluster.connect(cluster_file, tenant=tenant, traffic_group=traffic_group,
                                        traffic_class=traffic_class)

    @classmethod
    def _strip_protocol(cls, path):
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = _cluster._path(path)
        if path.startswith("terrane://"):
            path = path[len("terrane://"):]
        elif path.startswith("terrane:"):
            path = path[len("terrane:"):]
        return "/" + path.strip("/")

    @property
    def fsid(self):
        return "terrane_" + tokenize(*self.cluster._given)

    # --- names

    @staticmethod
    def _info(path, stat):
        directory = stat.kind == _cluster.DIRECTORY
        return {"name": path, "type": "directory" if directory else "file", "size": 0 if directory else stat.size,
                "id": stat.id, "sealed": stat.sealed, "mtime": stat.mtime_ns / 1e9, "mtime_ns": stat.mtime_ns}

    def info(self, path, **kwargs):
        path = self._strip_protocol(path)
        return self._info(path, self.cluster.stat(path))

    def exists(self, path, **kwargs):
        return self.cluster.exists(self._strip_protocol(path))

    def ls(self, path, detail=True, **kwargs):
        path = self._strip_protocol(path)
        try:
            found = [self._info(entry.path, entry) for entry in self.cluster.scandir(path)]
        except NotADirectoryError:
            found = [self.info(path)]
        found.sort(key=lambda one: one["name"])
        return found if detail else [one["name"] for one in found]

    def mkdir(self, path, create_parents=True, **kwargs):
        path = self._strip_protocol(path)
        parent = self._parent(path)
        if create_parents and path != "/" and not self.cluster.exists(parent):
            self.makedirs(parent, exist_ok=True)
        self.cluster.mkdir(path)

    def makedirs(self, path, exist_ok=False):
        path = self._strip_protocol(path)
        if not exist_ok and self.cluster.exists(path):
            self.cluster.mkdir(path)  # raises with the library's words
        self.cluster.mkdir(path, parents=True, exist_ok=True)

    def rmdir(self, path):
        path = self._strip_protocol(path)
        if not self.cluster.stat(path).is_dir():
            raise NotADirectoryError(path)
        self.cluster.remove(path)

    def rm_file(self, path):
        self.cluster.remove(self._strip_protocol(path))

    _rm = rm_file

    def rm(self, path, recursive=False, maxdepth=None):
        for one in path if isinstance(path, list) else [path]:
            if maxdepth is not None:
                self._rm_to_depth(self.expand_path(one, recursive=recursive, maxdepth=maxdepth))
                continue
            for name in reversed(self.expand_path(one)):
                self.cluster.remove(name, recursive=recursive)

    def _rm_to_depth(self, names):
        """Removes files, and the directories that are empty then: what is deeper stays."""
        for name in reversed(names):
            if not self.isdir(name) or not self.cluster.listdir(name):
                self.cluster.remove(name)

    # --- globs and copies: _copying.py

    def _given(self, path):
        """A path without the protocol, but with the slash at its end."""
        return self._strip_protocol(path) + ("/" if os.fspath(path).endswith("/") else "")

    def entries(self, path):
        return [(entry.path, entry.is_dir()) for entry in self.cluster.scandir(path)]

    def glob(self, path, maxdepth=None, detail=False, **kwargs):
        found = _copying.glob(self, self._given(path), maxdepth)
        return {one: self.info(one) for one in found} if detail else found

    def expand_path(self, path, recursive=False, maxdepth=None, **kwargs):
        paths = [path] if isinstance(path, (str, os.PathLike)) else path
        return _copying.expand(self, [self._given(one) for one in paths], recursive, maxdepth)

    def copy(self, path1, path2, recursive=False, maxdepth=None, on_error=None, **kwargs):
        on_error = on_error or ("ignore" if recursive else "raise")
        for old, new in _copying.plan(self, path1, self, path2, self._strip_protocol, self._strip_protocol, recursive,
                                      maxdepth):
            try:
                self.cp_file(old, new, **kwargs)
            except FileNotFoundError:
                if on_error == "raise":
                    raise

    def get(self, rpath, lpath, recursive=False, callback=_DEFAULT_CALLBACK, maxdepth=None, **kwargs):
        local = _copying.Local
        self._transfer(self.get_file, _copying.plan(self, rpath, local, lpath, self._strip_protocol, local.strip, recursive,
                                                    maxdepth), callback, kwargs)

    def put(self, lpath, rpath, recursive=False, callback=_DEFAULT_CALLBACK, maxdepth=None, **kwargs):
        local = _copying.Local
        self._transfer(self.put_file, _copying.plan(local, lpath, self, rpath, local.strip, self._strip_protocol, recursive,
                                                    maxdepth), callback, kwargs)

    @staticmethod
    def _transfer(call, pairs, callback, kwargs):
        callback.set_size(len(pairs))
        for source, target in callback.wrap(pairs):
            if hasattr(type(callback), "branched"):  # since fsspec 2024
                with callback.branched(source, target) as child:
                    call(source, target, callback=child, **kwargs)
            else:
                more = dict(kwargs)
                callback.branch(source, target, more)
                call(source, target, **more)

    def mv(self, path1, path2, recursive=False, maxdepth=None, **kwargs):
        if isinstance(path1, list) or isinstance(path2, list) or _copying.has_magic(str(path1)) or maxdepth:
            self.copy(path1, path2, recursive=recursive, maxdepth=maxdepth, on_error="raise", **kwargs)
            self.rm(path1, recursive=recursive, maxdepth=maxdepth)
            return
        into = str(path2).endswith("/") or self.isdir(path2)
        old, new = self._strip_protocol(path1), self._strip_protocol(path2)
        if into:
            new = posixpath.join(new, posixpath.basename(old))
        self._with_parents(new, lambda: self.cluster.rename(old, new))

    mv_file = mv

    def _with_parents(self, path, call):
        """Calls, and once more after making the parents of the path if they are missing."""
        try:
            return call()
        except FileNotFoundError:
            parent = self._parent(path)
            if not self.auto_mkdir or self.cluster.exists(parent):
                raise
            self.cluster.mkdir(parent, parents=True, exist_ok=True)
            return call()

    def modified(self, path):
        mtime = self.cluster.stat(self._strip_protocol(path)).mtime_ns
        return datetime.datetime.fromtimestamp(mtime / 1e9, tz=datetime.timezone.utc)

    created = modified  # a sealed file is created when it becomes visible and never changes

    def ukey(self, path):
        info = self.info(path)
        return tokenize(info["id"], info["size"], info["mtime_ns"])

    def checksum(self, path):
        return int(self.ukey(path), 16)

    # --- bytes

    def _open(self, path, mode="rb", block_size=None, autocommit=True, cache_options=None, **kwargs):
        path = self._strip_protocol(path)
        if mode == "rb":
            return self.cluster.open(path, "rb", **kwargs)
        if mode not in ("wb", "xb", "ab"):
            raise ValueError(f"mode {mode!r}: files cannot be changed in place; there are rb, wb, xb, ab")
        if autocommit or mode == "ab":
            return self._with_parents(path, lambda: self.cluster.open(path, mode, **kwargs))
        raw = self._with_parents(path, lambda: self.cluster.open(path, mode, buffering=0, **kwargs))
        return _Held(raw, _io.BUFFER_BYTES)

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        path = self._strip_protocol(path)
        if self._intrans:
            with self.open(path, "xb" if mode == "create" else "wb", **kwargs) as file:
                file.write(value)
            return
        self._with_parents(path, lambda: self.cluster.write(path, value, exclusive=mode == "create", **kwargs))

    def cat_file(self, path, start=None, end=None, **kwargs):
        return self.cat_ranges([path], [start], [end], **kwargs)[0]

    def cat_ranges(self, paths, starts, ends, max_gap=None, on_error="raise", **kwargs):
        """Reads many ranges in one call of the library. on_error: raise, return (an exception in the range's place)."""
        if not isinstance(paths, list):
            raise TypeError("paths must be a list")
        starts = starts if isinstance(starts, (list, tuple)) else [starts] * len(paths)
        ends = ends if isinstance(ends, (list, tuple)) else [ends] * len(paths)
        if len(starts) != len(paths) or len(ends) != len(paths):
            raise ValueError("paths, starts and ends must have the same length")
        out, ranges, places, sizes = [None] * len(paths), [], [], {}
        for i, (path, start, end) in enumerate(zip(map(self._strip_protocol, paths), starts, ends)):
            try:
                begin, count = self._range(path, start, end, sizes)
            except OSError as error:
                out[i] = error
                continue
            ranges.append((path, begin, bytearray(count)))
            places.append(i)
        for i, part, result in zip(places, ranges, self.cluster.read_batch(ranges, errors="return", **kwargs)):
            out[i] = result if isinstance(result, Exception) else bytes(memoryview(part[2])[:result])
        if on_error == "raise":
            for one in out:
                if isinstance(one, Exception):
                    raise one
        return out

    def _range(self, path, start, end, sizes):
        """The offset and length of a range as slices mean it; asks for the size of the file where it needs it."""
        start = 0 if start is None else start
        if start < 0 or end is None or end < 0:
            if path not in sizes:
                stat = self.cluster.stat(path)
                if stat.is_dir():
                    raise IsADirectoryError(path)
                sizes[path] = stat.size
            start, end, _ = slice(start, end).indices(sizes[path])
        return start, max(end - start, 0)

    def cp_file(self, path1, path2, **kwargs):
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(path1):
            self.makedirs(path2, exist_ok=True)
            return
        with self.cluster.open(path1) as source, self.open(path2, "wb", **kwargs) as target:
            self._stream(source, target, _DEFAULT_CALLBACK)

    def get_file(self, rpath, lpath, callback=_DEFAULT_CALLBACK, outfile=None, **kwargs):
        if outfile is None and self.isdir(rpath):
            os.makedirs(lpath, exist_ok=True)
            return
        with self.cluster.open(self._strip_protocol(rpath), **kwargs) as source:
            callback.set_size(source.stat().size)
            if outfile is not None:
                self._stream(source, outfile, callback)
                return
            os.makedirs(os.path.dirname(os.path.abspath(lpath)), exist_ok=True)
            with open(lpath, "wb") as target:
                self._stream(source, target, callback)

    def put_file(self, lpath, rpath, callback=_DEFAULT_CALLBACK, mode="overwrite", **kwargs):
        if os.path.isdir(lpath):
            self.makedirs(rpath, exist_ok=True)
            return
        with open(lpath, "rb") as source:
            callback.set_size(os.fstat(source.fileno()).st_size)
            with self.open(rpath, "xb" if mode == "create" else "wb", **kwargs) as target:
                self._stream(source, target, callback)

    @staticmethod
    def _stream(source, target, callback):
        room = memoryview(bytearray(PIECE_BYTES))
        while count := source.readinto(room):
            target.write(room[:count])
            callback.relative_update(count)

# SPDX-License-Identifier: Apache-2.0
"""libterrane.so for Python, with the calls that the tests need: they block, and raise an exception for an error."""
import ctypes
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_int64, c_size_t, c_uint, c_uint16, c_uint32, \
    c_uint64, c_void_p
from pathlib import Path

BUILD = Path(__file__).resolve().parents[2] / "build"
LIBRARY = BUILD / "release" / "src" / "client" / "libterrane.so"
PARENTS, REPLACE, LOG = 1, 1, 2
NAME_BYTES = 256


class Failed(Exception):
    """An error that a call returned, by its name."""

    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code = code


class Error(ctypes.Structure):
    _fields_ = [("code", c_int), ("text", c_char * 256)]


class Options(ctypes.Structure):
    _fields_ = [("timeout_ms", c_uint32), ("traffic_class", c_int), ("traffic_group", c_char_p),
                ("job_id", c_uint64), ("directory_id", c_uint64), ("placement_category", c_uint32),
                ("error", POINTER(Error)), ("crc32c", POINTER(c_uint32)), ("encoding", c_char_p),
                ("block_bytes", c_uint64), ("quorum", c_uint16), ("extra_disks", c_uint16),
                ("blocks_in_flight", c_uint16), ("hedge", c_uint16), ("hedge_ms", c_uint32),
                ("reserved", c_uint64 * 6)]


class OpenOptions(ctypes.Structure):
    _fields_ = [("tenant", c_char_p), ("traffic_group", c_char_p), ("traffic_class", c_int),
                ("memory_bytes", c_uint64), ("connect_timeout_ms", c_uint32), ("error", POINTER(Error)),
                ("reserved", c_uint64 * 6)]


class Stat(ctypes.Structure):
    _fields_ = [("id", c_uint64), ("kind", c_int), ("sealed", ctypes.c_bool), ("size", c_uint64),
                ("mtime_ns", c_uint64), ("block_bytes", c_uint64), ("encoding", c_char * 32),
                ("reserved", c_uint64 * 4)]


class Entry(ctypes.Structure):
    _fields_ = [("name", c_char * NAME_BYTES), ("id", c_uint64), ("kind", c_int), ("sealed", ctypes.c_bool),
                ("size", c_uint64), ("mtime_ns", c_uint64), ("reserved", c_uint64 * 2)]


class Small(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("data", c_char_p), ("len", c_size_t), ("crc32c", POINTER(c_uint32)),
                ("result", c_int), ("id", c_uint64), ("reserved", c_uint64 * 2)]


def load():
    lib = ctypes.CDLL(str(LIBRARY))
    options = POINTER(Options)
    for name, result, *arguments in [
            ("error_name", c_char_p, c_int),
            ("open", c_int, POINTER(c_void_p), c_char_p, POINTER(OpenOptions)),
            ("close", None, c_void_p),
            ("stat", c_int, c_void_p, c_char_p, POINTER(Stat), options),
            ("mkdir", c_int, c_void_p, c_char_p, c_uint, options),
            ("rename", c_int, c_void_p, c_char_p, c_char_p, options),
            ("remove", c_int, c_void_p, c_char_p, options),
            ("seal", c_int, c_void_p, c_char_p, options),
            ("list", c_int64, c_void_p, c_char_p, c_void_p, POINTER(Entry), c_size_t, options),
            ("create", c_int, c_void_p, c_char_p, c_uint, POINTER(c_void_p), options),
            ("append_open", c_int, c_void_p, c_char_p, POINTER(c_void_p), options),
            ("append", c_int, c_void_p, c_char_p, c_size_t, options),
            ("file_close", c_int, c_void_p, options),
            ("file_discard", None, c_void_p),
            ("file_stat", c_int, c_void_p, POINTER(Stat), options),
            ("file_open", c_int, c_void_p, c_char_p, POINTER(c_void_p), options),
            ("pread", c_int64, c_void_p, c_void_p, c_size_t, c_uint64, options),
            ("pack", c_int, c_void_p, c_char_p, POINTER(Small), c_size_t, c_uint, options)]:
        call = getattr(lib, "terrane_" + name)
        call.restype, call.argtypes = result, arguments
    return lib


class Client:
    """A client of a cluster. Every call waits at most timeout_ms, and raises Failed for a result below 0."""

    def __init__(self, cluster_file, timeout_ms=10000):
        self.lib, self.timeout_ms = load(), timeout_ms
        self.handle = c_void_p()
        error = Error()
        rc = self.lib.terrane_open(byref(self.handle), str(cluster_file).encode(),
                                   byref(OpenOptions(error=ctypes.pointer(error))))
        self.check(rc, error)

    def close(self):
        self.lib.terrane_close(self.handle)

    def name_of(self, code):
        return self.lib.terrane_error_name(code).decode()

    def check(self, rc, error):
        if rc < 0:
            raise Failed(self.name_of(rc), error.text.decode(errors="replace"))
        return rc

    def call(self, name, *arguments, **options):
        error = Error()
        o = Options(timeout_ms=self.timeout_ms, error=ctypes.pointer(error), **options)
        return self.check(getattr(self.lib, "terrane_" + name)(*arguments, byref(o)), error)

    def stat(self, path):
        out = Stat()
        self.call("stat", self.handle, path.encode(), byref(out))
        return out

    def mkdir(self, path):
        self.call("mkdir", self.handle, path.encode(), PARENTS)

    def rename(self, a, b):
        self.call("rename", self.handle, a.encode(), b.encode())

    def remove(self, path):
        self.call("remove", self.handle, path.encode())

    def seal(self, path, **options):
        self.call("seal", self.handle, path.encode(), **options)

    def list(self, path):
        cursor, room = ctypes.create_string_buffer(320), (Entry * 200)()
        names = []
        while count := self.call("list", self.handle, path.encode(), cursor, room, len(room)):
            names += [room[i].name.decode() for i in range(count)]
        return names

    def write(self, path, data, flags=0, **options):
        """Writes a complete file."""
        file = c_void_p()
        self.call("create", self.handle, path.encode(), flags, byref(file), **options)
        try:
            self.call("append", file, data, len(data))
        except Failed:
            self.lib.terrane_file_discard(file)
            raise
        self.call("file_close", file)

    def read(self, path):
        """Returns all bytes of a file."""
        file, stat = c_void_p(), Stat()
        self.call("file_open", self.handle, path.encode(), byref(file))
        try:
            self.call("file_stat", file, byref(stat))
            buf = ctypes.create_string_buffer(max(1, stat.size))
            size = self.call("pread", file, buf, stat.size, 0)
            return buf.raw[:size]
        finally:
            self.lib.terrane_file_close(file, None)

    def pack(self, folder, files, **options):
        """Writes {name: bytes} in one call. Returns {name: None or the error's name}."""
        row = (Small * len(files))(*[Small(name=n.encode(), data=d, len=len(d)) for n, d in files.items()])
        try:
            self.call("pack", self.handle, folder.encode(), row, len(row), 0, **options)
        except Failed:
            pass
        return {n: None if r.result == 0 else self.name_of(r.result) for n, r in zip(files, row)}

    def log(self, path, new=False, **options):
        return Log(self, path, new, options)


class Log:
    """A log that is open for append."""

    def __init__(self, client, path, new, options):
        self.client, self.file = client, c_void_p()
        words = (client.handle, path.encode())
        if new:
            client.call("create", *words, LOG, byref(self.file), **options)
        else:
            client.call("append_open", *words, byref(self.file), **options)

    def size(self):
        out = Stat()
        self.client.call("file_stat", self.file, byref(out))
        return out.size

    def append(self, data):
        self.client.call("append", self.file, data, len(data))

    def close(self):
        file, self.file = self.file, None
        self.client.call("file_close", file)

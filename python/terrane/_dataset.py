# SPDX-License-Identifier: Apache-2.0
"""Data sets: random access and batches. `terrane dataset build` makes them; docs/datasets.md describes them."""
import re
from typing import Any, NamedTuple

import numpy

from . import _errors, _terrane
from ._cluster import Cluster, _path, connect
from ._order import positions

LOOKUP_MAX = 65536
IMAGES = {"jpg", "jpeg", "jpe", "jfif", "png", "gif", "bmp", "webp"}  # names of parts that are images
OTHER, CHOSEN, IMAGE = range(3)  # what Dataset.lookup of the extension takes a name of parts for
ENTRY = numpy.dtype([("sample", "<u8"), ("offset", "<u8"), ("size", "<u8"), ("shard", "<u4"), ("crc", "<u4"),
                     ("label", "<i4"), ("width", "<u4"), ("height", "<u4"), ("part", "<u4"),
                     ("digested", "<u8"), ("sha256", "V32")])


class Sample(NamedTuple):
    """A sample as `Dataset` and `Batch` return it and `decode` functions receive it."""
    number: int   # in the data set
    label: int    # number of the label, -1: none
    data: Any     # the bytes: a memoryview; bytes in another process
    width: int    # of an image, else 0
    height: int


class Batch:
    """Samples that were read together. Their bytes are in one buffer.

    `entries` is an array with a record for each sample: sample, size, label, width, height. `batch[i]` is a `Sample`.
    """
    __slots__ = ("dataset", "entries", "data", "_ends", "_view")

    def __init__(self, dataset, entries, data):
        self.dataset, self.entries, self.data = dataset, entries, data
        self._ends = numpy.cumsum(entries["size"], dtype=numpy.int64)
        self._view = memoryview(data)

    def __len__(self):
        return len(self.entries)

    def __getitem__(self, i):
        entry = self.entries[i]
        end = int(self._ends[i])
        return Sample(int(entry["sample"]), int(entry["label"]), self._view[end - int(entry["size"]):end],
                      int(entry["width"]), int(entry["height"]))

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def parts(self):
        """The parts of each sample: a list of dicts {name: bytes}, for data sets whose samples have several, such as
        jpg, cls and json."""
        split = []
        for sizes, sample in zip(self.dataset.part_sizes(self.samples), self):
            at, parts = 0, {}
            for name, size in sizes.items():
                parts[name] = sample.data[at:at + size]
                at += size
            split.append(parts)
        return split

    @property
    def samples(self):
        """The numbers of the samples."""
        return self.entries["sample"]

    @property
    def labels(self):
        """The numbers of the labels, -1 where there is none."""
        return self.entries["label"]

    @property
    def offsets(self):
        """Where each sample begins in `data`; one more number for the end."""
        return numpy.concatenate((numpy.zeros(1, numpy.int64), self._ends))


class Reading:
    """A batch that is being read: `wait` returns it."""
    __slots__ = ("_batch", "_read")

    def __init__(self, batch, read):
        self._batch, self._read = batch, read

    @property
    def bytes(self):
        return self._batch._view.nbytes

    def wait(self):
        if self._read is not None:
            self._read.wait()
            self._read = None
        return self._batch

    def cancel(self):
        read = self._read
        if read is not None:
            read.cancel()


def _room(size):
    return numpy.empty(size, numpy.uint8)


class Dataset:
    """A version of a data set in the cluster; random access by number.

    >>> import terrane
    >>> cluster = getfixture()
    >>> birds = terrane.Dataset("/doc/birds", cluster=cluster)
    >>> len(birds), birds.labels
    (12, ['owl', 'wren'])
    >>> sample = birds[3]
    >>> birds.labels[sample.label] in birds.keys([3])[0]
    True
    >>> batch = birds.read([0, 5, 7])
    >>> len(batch), batch.samples.tolist()
    (3, [0, 5, 7])

    version is a number, else the latest version when the data set is opened. cache_bytes limits the memory for pages of
    the index (0: 256 MiB). Every sample is compared with its checksum in the index when it is read.

    A data set may be used by several threads and in the children of a fork, and pickles as its cluster, path and version.
    """

    def __init__(self, path, *, cluster=None, version=None, cache_bytes=0, _manifest=None, **options):
        self.cluster = cluster if cluster is not None else connect()
        if not isinstance(self.cluster, Cluster):
            raise TypeError(f"cluster must be a terrane.Cluster, not {type(cluster).__name__}")
        if not 0 <= cache_bytes < 1 << 63:
            raise ValueError(f"cache_bytes must be a number of bytes, not {cache_bytes!r}")
        self.path = _path(path).rstrip("/") or "/"
        self._options = options or None
        self._cache_bytes = cache_bytes
        manifest = self._read_manifest(version) if _manifest is None else _manifest
        self._handle = _terrane.Dataset(self.cluster._handle, self.path, manifest, cache_bytes)
        self.info = self._handle.info()
        if version is not None and self.info["version"] != version:
            raise _errors.make(74, f"v{version}.json is the manifest of version {self.info['version']}", self.path)
        self.version = self.info["version"]
        self.labels = self.info["labels"]
        self.parts = self.info["parts"]
        self._manifest = manifest
        self.fingerprint = _terrane.crc32c(manifest)  # of the version; states of loaders have it

    def _read_manifest(self, version):
        if version is None:
            names = self.cluster.listdir(self.path, **(self._options or {}))
            found = [int(match[1]) for match in (re.fullmatch(r"v([1-9]\d*)\.json", name) for name in names) if match]
            if not found:
                raise _errors.make(2, "there is no data set: it has no version", self.path)
            version = max(found)
        elif not isinstance(version, int) or version < 1:
            raise ValueError(f"version must be a number from 1, not {version!r}")
        return self.cluster.read(f"{self.path}/v{version}.json", **(self._options or {}))

    def __reduce__(self):
        # With the manifest, so that unpickling reads nothing: multiprocessing hangs if it raises an OSError.
        return _again, (self.cluster, self.path, self.version, self._cache_bytes, self._manifest, self._options or {})

    def __repr__(self):
        return f"<terrane.Dataset {self.path} version {self.version}: {len(self)} samples>"

    def close(self):
        """Closes the data set. Reads in progress keep it until they end."""
        self._handle.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __len__(self):
        return self.info["samples"]

    def __getitem__(self, i):
        n = len(self)
        i = i.__index__()
        if not -n <= i < n:
            raise IndexError(f"sample {i} does not exist: {self.path} has {n}")
        return self.read([i % n])[0]

    def select(self, samples):
        """Some samples of the data set, for a `Loader`: a `Subset`."""
        from ._sources import Subset
        return Subset(self, samples)

    def filter(self, keep):
        """The samples that `keep` chooses, for a `Loader`: a `Subset`. keep(entries) gets an array of records as
        `Batch.entries` and returns an array of bool. It is called for all records, page by page.

        >>> import terrane
        >>> cluster = getfixture()
        >>> birds = terrane.Dataset("/doc/birds", cluster=cluster)
        >>> wrens = birds.filter(lambda entries: entries["label"] == birds.labels.index("wren"))
        >>> len(wrens), {birds.labels[sample.label] for sample in wrens.read(range(6))}
        (6, {'wren'})
        """
        from ._sources import Subset, filtered
        return Subset(self, filtered(self, keep))

    def lookup(self, samples):
        """The records of samples in the index, without their bytes: an array as `Batch.entries`."""
        return self._lookup(_numbers(samples))

    def keys(self, samples):
        """The keys of samples: their names in the source without the ending."""
        return [tail[0] for tail in self._tails(samples)]

    def part_sizes(self, samples):
        """The parts of samples in the order of their bytes: for each a dict {name of the part: bytes}."""
        return [{self.parts[name]: size for name, size in tail[1]} for tail in self._tails(samples)]

    def _tails(self, samples):
        samples = _numbers(samples)
        tails = []
        for i in range(0, len(samples), LOOKUP_MAX):
            tails += self._handle.tails(samples[i:i + LOOKUP_MAX], self._options)
        return tails

    def read(self, samples, *, allocate=_room):
        """Reads samples in one call and returns a `Batch`. allocate(bytes) returns the buffer, such as pinned memory."""
        return self.read_start(samples, allocate=allocate).wait()

    def read_start(self, samples, *, allocate=_room):
        """Starts to read samples. Returns an object with `wait`, which returns the `Batch`, and `cancel`."""
        return self._read_start(self.lookup(samples), allocate)

    def _read_start(self, entries, allocate=_room, preps=None):
        """Starts to read samples by their entries; preps: operations on them, and room for their results (_near.py)."""
        data = allocate(int(entries["size"].sum(dtype=numpy.uint64)))
        return Reading(Batch(self, entries, data), self._handle.read(entries, data, self._options, preps))

    # --- as a source of a loader: _sources.py

    @property
    def _span(self):
        return len(self)

    @property
    def _size(self):
        return self.info["bytes"]

    def _order(self, *where):
        return positions(len(self), self._size, *where)

    def _lookup(self, samples, part=None):
        """The records of samples; with part those of that part, or of the image with part=""."""
        kinds = None if part is None else self._kinds(part)
        entries = numpy.empty(len(samples), ENTRY)
        for i in range(0, len(samples), LOOKUP_MAX):
            self._handle.lookup(samples[i:i + LOOKUP_MAX], entries[i:i + LOOKUP_MAX], self._options, kinds)
        return entries

    def _kinds(self, part):
        """A byte for each name of parts. The image is a part whose name is that of a kind of images; one such as "seg.png" is
        taken for it only if no sample has a part such as "png"."""
        if part and part not in self.parts:
            raise ValueError(f"part must be one of {', '.join(self.parts)}, which {self.path} has, not {part!r}")
        plain = any(name.lower() in IMAGES for name in self.parts)
        kinds = bytearray(len(self.parts))
        for i, name in enumerate(self.parts):
            image = name.lower().rsplit(".", 1)[-1] in IMAGES
            chosen = name == part if part else image and (not plain or "." not in name)
            kinds[i] = CHOSEN if chosen else IMAGE if image else OTHER
        return bytes(kinds)

    def _start(self, samples, allocate, prepare=None, part=None):
        """Starts to read samples, or a part of each; prepare(entries) returns operations on them (_near.py)."""
        entries = self._lookup(_numbers(samples), part)
        return self._read_start(entries, allocate, None if prepare is None else prepare(entries))


def _numbers(samples):
    numbers = numpy.asarray(samples)
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
        raise TypeError("samples must be a sequence of numbers")
    if numbers.size and numbers.dtype.kind == "i" and numbers.min() < 0:
        raise IndexError(f"sample {numbers.min()} does not exist")
    return numpy.ascontiguousarray(numbers, numpy.uint64)


def _again(cluster, path, version, cache_bytes, manifest, options):
    return Dataset(path, cluster=cluster, version=version, cache_bytes=cache_bytes, _manifest=manifest, **options)

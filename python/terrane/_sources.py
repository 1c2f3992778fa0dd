# SPDX-License-Identifier: Apache-2.0
"""What a loader reads besides a whole data set: a selection of its samples, and a mix of several data sets.

A source has for the loader: `__len__`, the samples of an epoch; `fingerprint`, which states of loaders have; `_order`, the
numbers of samples at positions of an epoch; `_lookup`, their records; `_start`, a batch that is being read, also of a part
of each sample, with operations on it. Numbers of samples lie below `_span`.
"""
import numpy

from . import _terrane
from ._dataset import ENTRY, Batch, Dataset, Reading, _numbers, _room
from ._order import positions, shuffled

PERIOD = 1024  # positions of a mix in which each source has exactly its share
_PAGE = 65536  # samples whose records a filter gets at a time


class Subset:
    """Some samples of a data set; `Dataset.select` and `Dataset.filter` return it.

    Its samples are in the order of the data set, so that neighbours are still read together. It needs 8 bytes of memory for
    each of them.
    """

    def __init__(self, dataset, samples):
        if not isinstance(dataset, Dataset):
            raise TypeError(f"dataset must be a terrane.Dataset, not {type(dataset).__name__}")
        self.dataset = dataset
        self.samples = numpy.unique(_numbers(samples))
        if len(self.samples) == 0:
            raise ValueError(f"no sample of {dataset.path} is left")
        if self.samples[-1] >= len(dataset):
            raise IndexError(f"sample {self.samples[-1]} does not exist: {dataset.path} has {len(dataset)}")
        self.path, self.labels, self.parts, self.cluster = dataset.path, dataset.labels, dataset.parts, dataset.cluster
        self.fingerprint = _terrane.crc32c(self.samples.astype("<u8").data, dataset.fingerprint)
        self._span = len(dataset)

    def __len__(self):
        return len(self.samples)

    def __repr__(self):
        return f"<terrane.Subset of {self.dataset!r}: {len(self)} samples>"

    def __getitem__(self, i):
        return self.dataset[int(self.samples[i])]

    def read(self, places, *, allocate=_room):
        """Reads the samples at these places of the selection in one call."""
        return self.dataset.read(self.samples[_numbers(places)], allocate=allocate)

    @property
    def _size(self):
        return self.dataset._size * len(self) // len(self.dataset)

    def _order(self, *where):
        return self.samples[positions(len(self), self._size, *where)]

    def _lookup(self, samples, part=None):
        return self.dataset._lookup(samples, part)

    def _start(self, samples, allocate, prepare=None, part=None):
        return self.dataset._start(samples, allocate, prepare, part)


def filtered(dataset, keep):
    """The numbers of the samples whose records `keep` chooses."""
    chosen = []
    for begin in range(0, len(dataset), _PAGE):
        entries = dataset.lookup(numpy.arange(begin, min(begin + _PAGE, len(dataset)), dtype=numpy.uint64))
        kept = numpy.asarray(keep(entries))
        if kept.dtype != bool or kept.shape != entries.shape:
            raise TypeError("a filter returns an array of bool with an element for each record")
        chosen.append(entries["sample"][kept])
    return numpy.concatenate(chosen)


class Mix:
    """Several data sets as one, for a `Loader`: of `weights` [3, 1] three quarters of the samples are of the first.

    >>> import terrane
    >>> cluster = getfixture()
    >>> birds = terrane.Dataset("/doc/birds", cluster=cluster)
    >>> mix = terrane.Mix([birds.filter(lambda e: e["label"] == 0), birds], [3, 1], samples=1024)
    >>> loader = terrane.Loader(mix, 64)
    >>> sum(int((batch.samples < len(birds)).sum()) for batch in loader)
    768

    sources are `Dataset` or `Subset`; weights are their lengths unless given. Of each 1,024 consecutive positions every source
    has its share exactly, rounded to 1/1,024. Each source goes through epochs of its own: all its samples are read once
    before one is read again, also across the epochs of the mix, which have `samples` positions (by default the sum of the
    lengths). Samples are numbered through all sources; `source_of` says which one a number is from. Labels are those of all
    sources together, by name. Within a batch, samples of a source follow one another.
    """

    def __init__(self, sources, weights=None, *, samples=None):
        self.sources = list(sources)
        if not self.sources or not all(isinstance(source, (Dataset, Subset)) for source in self.sources):
            raise TypeError("a mix is of terrane.Dataset and terrane.Subset")
        weights = [len(source) for source in self.sources] if weights is None else list(weights)
        if len(weights) != len(self.sources) or not all(weight > 0 for weight in weights):
            raise ValueError("a mix needs a weight above 0 for each source")
        self._counts = _shares(weights)
        self._length = sum(map(len, self.sources)) if samples is None else samples
        if not isinstance(self._length, int) or not 0 < self._length < 1 << 40:
            raise ValueError(f"samples must be a number from 1 to 2^40 - 1, not {samples!r}")
        self._ends = numpy.cumsum([source._span for source in self.sources], dtype=numpy.uint64)
        self._span = int(self._ends[-1])
        self._labels()
        self.path = ", ".join(source.path for source in self.sources)
        what = numpy.array([[source.fingerprint, count] for source, count in zip(self.sources, self._counts)], "<u8")
        self.fingerprint = _terrane.crc32c(what.data)
        self._pattern = (None, None)  # the last one, and what it is of

    def _labels(self):
        self.labels, self._renamed = [], []
        for source in self.sources:
            self.labels += [name for name in source.labels if name not in self.labels]
            self._renamed.append(numpy.array([self.labels.index(name) for name in source.labels], numpy.int32))

    def __len__(self):
        return self._length

    def __repr__(self):
        return f"<terrane.Mix of {self.path}>"

    def source_of(self, number):
        """The source of a sample, and the sample's number in its data set."""
        if not 0 <= number < self._span:
            raise IndexError(f"sample {number} does not exist: the mix has {self._span}")
        i = int(numpy.searchsorted(self._ends, numpy.uint64(number), "right"))
        return self.sources[i], int(number) - self._base(i)

    def _base(self, i):
        return int(self._ends[i]) - self.sources[i]._span

    # --- order

    def _sources_at(self, seed, period):
        """The number of the source of each position of a period: a shuffle of the shares."""
        if self._pattern[0] != (seed, period):
            places = shuffled(PERIOD, seed, period)
            self._pattern = ((seed, period), numpy.repeat(numpy.arange(len(self.sources)), self._counts)[places])
        return self._pattern[1]

    def _order(self, order, seed, epoch, position, count):
        # Periods are counted through all epochs, so that no source begins again at the end of one.
        if count == 0:  # refuses a window that is not possible
            return numpy.concatenate([source._order(order, seed, 0, 0, 0) for source in self.sources])
        out = numpy.empty(count, numpy.uint64)
        first = epoch * len(self) + position
        at = first
        while at < first + count:
            period, skip = divmod(at, PERIOD)
            sources = self._sources_at(seed, period)
            part = sources[skip:min(PERIOD, skip + first + count - at)]
            for i in range(len(self.sources)):
                places = numpy.flatnonzero(part == i) + (at - first)
                drawn = period * self._counts[i] + int((sources[:skip] == i).sum())
                self._draw(i, order, seed, drawn, out, places)
            at += len(part)
        return out

    def _draw(self, i, order, seed, drawn, out, places):
        """Sets the next samples of a source of which some were drawn before."""
        source = self.sources[i]
        while len(places):
            epoch, position = divmod(drawn, len(source))
            n = min(len(places), len(source) - position)
            out[places[:n]] = source._order(order, seed, epoch, position, n) + numpy.uint64(self._base(i))
            places, drawn = places[n:], drawn + n

    # --- reading

    def _split(self, samples):
        """Yields (number of the source, places, numbers in its data set)."""
        of = numpy.searchsorted(self._ends, samples, "right")
        for i in range(len(self.sources)):
            places = numpy.flatnonzero(of == i)
            if len(places):
                yield i, places, samples[places] - numpy.uint64(self._base(i))

    def _renumber(self, i, entries):
        entries = entries.copy()
        entries["sample"] += numpy.uint64(self._base(i))
        if len(self._renamed[i]):
            labelled = entries["label"] >= 0
            entries["label"][labelled] = self._renamed[i][entries["label"][labelled]]
        return entries

    def _lookup(self, samples, part=None):
        out = numpy.empty(len(samples), ENTRY)
        for i, places, numbers in self._split(samples):
            out[places] = self._renumber(i, self.sources[i]._lookup(numbers, part))
        return out

    def part_sizes(self, samples):
        """The parts of samples, as `Dataset.part_sizes`."""
        out = [None] * len(samples)
        for i, places, numbers in self._split(_numbers(samples)):
            source = self.sources[i]
            dataset = source.dataset if isinstance(source, Subset) else source
            for place, sizes in zip(places, dataset.part_sizes(numbers)):
                out[place] = sizes
        return out

    def _start(self, samples, allocate, prepare=None, part=None):
        parts = [(i, self.sources[i]._lookup(numbers, part)) for i, _, numbers in self._split(samples)]
        batch = numpy.concatenate([self._renumber(i, entries) for i, entries in parts])
        preps = None if prepare is None else prepare(batch)
        sizes = [int(entries["size"].sum(dtype=numpy.uint64)) for _, entries in parts]
        data = allocate(sum(sizes))
        room, at, first, reads = memoryview(data), 0, 0, []
        for (i, entries), size in zip(parts, sizes):
            dataset = self.sources[i].dataset if isinstance(self.sources[i], Subset) else self.sources[i]
            reads.append(dataset._handle.read(entries, room[at:at + size], dataset._options,
                                              None if preps is None else preps[first:first + len(entries)]))
            at, first = at + size, first + len(entries)
        return Reading(Batch(self, batch, data), _Together(reads))


class _Together:
    """Reads of several data sets."""

    def __init__(self, reads):
        self._reads = reads

    def wait(self):
        for read in self._reads:
            read.wait()

    def cancel(self):
        for read in self._reads:
            read.cancel()


def _shares(weights):
    """How many of PERIOD positions each source has: rounded so that the sum is right."""
    total = sum(weights)
    exact = [PERIOD * weight / total for weight in weights]
    counts = [int(one) for one in exact]
    for i in sorted(range(len(counts)), key=lambda i: counts[i] - exact[i])[:PERIOD - sum(counts)]:
        counts[i] += 1
    if 0 in counts:
        raise ValueError(f"the weight {weights[counts.index(0)]} is less than 1/{PERIOD} of all")
    return counts

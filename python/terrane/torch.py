# SPDX-License-Identifier: Apache-2.0
"""Data sets for PyTorch: a map data set, an iterable data set, and a loader whose reads run ahead without workers.

    import terrane, terrane.torch
    birds = terrane.Dataset("/sets/birds")
    loader = terrane.torch.Loader(birds, 256, decode=decode, threads=8)
    for images, labels in loader:
        ...

`decode(sample)` gets a `terrane.Sample` and returns what the model needs of it; the results of a batch are put together by
`collate`, which is PyTorch's own default. Without decode the samples of an item are their bytes, as tensors.
"""
import time

import numpy
import torch
from torch.utils import data as _data

from . import _loader, _near

__all__ = ["ImageLoader", "IterableDataset", "Loader", "MapDataset", "place"]


def place():
    """(rank, world) of this process: those of torch.distributed if it is initialized, else (0, 1).

    >>> place()
    (0, 1)
    """
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def as_tensor(sample):
    """The bytes of a sample as a tensor, and its label."""
    return torch.frombuffer(sample.data, dtype=torch.uint8) if len(sample.data) else torch.empty(0, dtype=torch.uint8), \
        sample.label


class MapDataset(_data.Dataset):
    """A data set for `torch.utils.data.DataLoader` with samplers, shuffle=True and workers.

    >>> import terrane
    >>> cluster = getfixture()
    >>> birds = MapDataset(terrane.Dataset("/doc/birds", cluster=cluster), decode=lambda s: (bytes(s.data), s.label))
    >>> len(birds), len(birds[3])
    (12, 2)

    PyTorch >= 2 reads a batch in one call (`__getitems__`).
    """

    def __init__(self, dataset, decode=as_tensor):
        self.dataset, self.decode = dataset, decode

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, i):
        return self.decode(self.dataset[i])

    def __getitems__(self, numbers):
        return [self.decode(sample) for sample in self.dataset.read(numbers)]


class IterableDataset(_data.IterableDataset):
    """Batches in the order of a `terrane.Loader`, for a DataLoader with batch_size=None and any number of workers: the
    batches are the same and come in the same order. Options are those of `terrane.Loader`; rank and world are those of
    torch.distributed unless given.

    >>> import terrane
    >>> cluster = getfixture()
    >>> birds = terrane.Dataset("/doc/birds", cluster=cluster)
    >>> batches = IterableDataset(birds, 5, decode=lambda s: s.number, collate=list)
    >>> [len(batch) for batch in torch.utils.data.DataLoader(batches, batch_size=None)]
    [5, 5, 2]
    """

    def __init__(self, dataset, batch_size, *, decode=as_tensor, collate=None, rank=None, world=None, **options):
        if options.get("repeat") or options.get("processes"):
            raise ValueError("repeat and processes are options of Loader; here DataLoader has the workers")
        here = place()
        self._given = {"dataset": dataset, "batch_size": batch_size, "decode": decode,
                       "collate": collate or _data.default_collate, "rank": here[0] if rank is None else rank,
                       "world": here[1] if world is None else world, **options}
        self._epoch = 0
        self._length = len(self._loader())  # also refuses wrong options here, and not in a worker

    def _loader(self, **more):
        return _WorkerLoader(**self._given, **more)

    def set_epoch(self, epoch):
        """Chooses the epoch of the next iteration. A DataLoader with persistent_workers does not pass it on."""
        self._epoch = epoch

    def __len__(self):
        return self._length

    def __iter__(self):
        worker = _data.get_worker_info()
        loader = self._loader(worker=worker.id, workers=worker.num_workers) if worker is not None else self._loader()
        loader.set_epoch(self._epoch)
        return iter(loader)


class _WorkerLoader(_loader.Loader):
    """A loader of every workers-th batch, since DataLoader takes the batches of its workers in turns."""

    def __init__(self, *args, worker=0, workers=1, **options):
        self._worker, self._workers = worker, workers
        super().__init__(*args, **options)

    def samples_of(self, epoch, begin=0):
        for i, numbers in enumerate(super().samples_of(epoch, begin)):
            if i % self._workers == self._worker:
                yield numbers


class Loader(_loader.Loader):
    """`terrane.Loader` whose items are tensors. It behaves like PyTorch's loader for the training loop and needs no
    sampler; rank and world are those of torch.distributed unless given. pin_memory reads into pinned memory, without a
    copy.

    >>> import terrane
    >>> cluster = getfixture()
    >>> loader = Loader(terrane.Dataset("/doc/birds", cluster=cluster), 4, decode=lambda s: (len(s.data), s.label))
    >>> sizes, labels = next(iter(loader))
    >>> sizes.shape, labels.dtype
    (torch.Size([4]), torch.int64)
    """

    def __init__(self, dataset, batch_size, *, decode=as_tensor, collate=None, rank=None, world=None, pin_memory=False,
                 **options):
        here = place()
        if pin_memory:
            options["allocate"] = _pinned
        super().__init__(dataset, batch_size, decode=decode, collate=collate or _data.default_collate,
                         rank=here[0] if rank is None else rank, world=here[1] if world is None else world, **options)


def _pinned(size):
    return torch.empty(size, dtype=torch.uint8, pin_memory=True).numpy()


class ImageLoader(_loader.Loader):
    """Batches (images, labels) of a data set of images for training: a random crop of each image, resized to size × size
    pixels, mirrored or not, as a normalized tensor. It is what torchvision's RandomResizedCrop, RandomHorizontalFlip,
    ToTensor and Normalize make, with crops drawn from (seed, epoch, sample).

    >>> import terrane
    >>> cluster = getfixture()
    >>> loader = ImageLoader(terrane.Dataset("/doc/photos", cluster=cluster), 4, transform="resnet-train", near_data="auto")
    >>> images, labels = next(iter(loader))
    >>> images.shape, labels.dtype
    (torch.Size([4, 3, 224, 224]), torch.int64)

    near_data says where images are worked on. "auto": the first epoch measures; if the network is the slowest part of
    training, storage nodes send only what crops need of their files, for the samples where that saves most per second of
    their processors, and the plan is made anew for each epoch. "off": at the client. "cut", "pixels": at the nodes for
    every sample, as files that are cut to the crop, or as pixels. The tensors are the same, bit for bit.

    node_cores is a first guess of the processors that each node has for this job; what nodes answer corrects it. bandwidth
    is the rate of the network between storage and training in bytes per second, where it is known; 0: it is measured.

    dataset is a `Dataset`, some samples of one, or a `Mix`. Of samples with several parts (jpg, cls, json) only the image is
    read: `part`, else the first part whose name is that of a kind of images.

    `traffic` has what the current epoch read so far, and `traffic_before` a list of the epochs before it. threads decode.
    Other options are those of `terrane.Loader`; rank and world are those of torch.distributed unless given.
    """

    def __init__(self, dataset, batch_size, *, transform="resnet-train", near_data="auto", size=224, threads=4,
                 node_cores=1, bandwidth=0, part=None, rank=None, world=None, **options):
        if transform != "resnet-train":
            raise ValueError(f"transform must be resnet-train, not {transform!r}")
        if near_data not in _near.MODES:
            raise ValueError(f"near_data must be one of {', '.join(_near.MODES)}, not {near_data!r}")
        if not 1 <= size <= 4096 or threads < 1 or not node_cores >= 0 or not bandwidth >= 0:
            raise ValueError("size must be 1 to 4096, threads at least 1, node_cores and bandwidth not negative")
        if set(options) & {"decode", "collate", "processes", "allocate"}:
            raise ValueError("an ImageLoader decodes by itself: decode, collate, processes and allocate are of Loader")
        here = place()
        super().__init__(dataset, batch_size, rank=here[0] if rank is None else rank,
                         world=here[1] if world is None else world, **options)
        self._decoders, self._starting = threads, 0
        self._near = _near.Near(dataset, self._seed, size, near_data, threads, node_cores, bandwidth, part=part or "")
        dataset._lookup(numpy.empty(0, numpy.uint64), self._near.part)  # refuses a part that there is not
        self.near_data, self.traffic, self.traffic_before = near_data, _near.Traffic(None), []
        self.profiled = None  # (seconds of reading, seconds of decoding a batch, bytes) before the first epoch
        self._times, self._modelled_node_s = _near.Times(), 0.0

    def load_state_dict(self, state):
        super().load_state_dict(state)
        if hasattr(self, "_near"):
            self._near.seed, self._near.epoch = self._seed, None

    def _open_pools(self, stack):
        self._threads = self._decoders
        return super()._open_pools(stack)

    def _begin_epoch(self, epoch):
        near = self._near
        if near.mode == "auto" and self.profiled is None:
            self.profiled = _near.profile(near, epoch, self.samples_of(epoch), self._prefetch, self._decoders)
        batches = list(self.samples_of(epoch)) if near.mode == "auto" else []
        near.begin(epoch, numpy.concatenate(batches) if batches else numpy.empty(0, numpy.uint64))

    def _steps(self, epoch, begin):
        for step in super()._steps(epoch, begin):
            self._starting = step[0]  # the epoch of the next _start
            yield step

    def _start(self, numbers, pool):
        epoch = self._starting
        if self._near.epoch != epoch:
            self._patiently(lambda: self._begin_epoch(epoch))
        started = self._patiently(lambda: self._near.start(epoch, numbers, self._allocate))
        return started[0], pool.submit(self._tensors, epoch, numbers, started)

    def _patiently(self, call):
        calls = 0

        def counted():
            nonlocal calls
            calls += 1
            return call()
        result = super()._patiently(counted)
        self._times.away = self._times.away or calls > 1
        return result

    def _tensors(self, epoch, numbers, started):
        begun, left = time.monotonic(), [started]

        def attempt():
            reading, preps, flips = left.pop() if left else self._near.start(epoch, numbers, self._allocate)
            return reading.wait(), preps, flips
        batch, preps, flips = self._patiently(attempt)
        read = time.monotonic()
        self._near.learn(batch.entries, preps)
        images = torch.from_numpy(_near.tensors(self._near, epoch, batch, preps, flips))
        labels = torch.from_numpy(batch.entries["label"].astype(numpy.int64))
        return epoch, batch.entries, preps, (read - begun, time.monotonic() - read), images, labels

    def _count(self, epoch, entries, preps, seconds):
        if self.traffic.epoch != epoch:
            self._end_epoch()
            self.traffic, self._times, self._modelled_node_s = _near.Traffic(epoch), _near.Times(), 0.0
        self.traffic.add(preps, entries)
        self._times.read_s += seconds[0]
        self._times.decode_s += seconds[1]
        self._modelled_node_s += _near.modelled_node_s(entries, preps)

    def _end_epoch(self):
        if self.traffic.epoch is None:
            return
        self._times.epoch_s = time.monotonic() - self._times.begun
        self.traffic_before.append(self.traffic)
        self._near.end(self.traffic, self._times, self._modelled_node_s)
        self.traffic = _near.Traffic(None)

    def _iterate(self, running):
        items = super()._iterate(running)
        while True:
            asked = time.monotonic()
            item = next(items, None)
            if item is None:
                break
            epoch, entries, preps, seconds, images, labels = item
            self._times.waited_s += time.monotonic() - asked
            self._count(epoch, entries, preps, seconds)
            yield images, labels
        self._end_epoch()

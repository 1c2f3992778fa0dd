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
import torch
from torch.utils import data as _data

from . import _loader

__all__ = ["IterableDataset", "Loader", "MapDataset", "place"]


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

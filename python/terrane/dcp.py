# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of torch.distributed.checkpoint on a cluster: a writer and a reader for its functions.

    import torch.distributed.checkpoint as dcp
    from terrane.dcp import StorageReader, StorageWriter
    dcp.save(state, storage_writer=StorageWriter("/runs/a/step-100"))          # torch >= 2.3; earlier: save_state_dict
    dcp.load(state, storage_reader=StorageReader("/runs/a/step-100"))

Each rank writes its tensors as one file, in whole blocks. The directory gets its name when all ranks have written: a
checkpoint is there completely or not at all. A reader reads only the parts of the tensors that its rank needs, all of them in
one call, straight into the tensors of the state where these lie in memory as in the file. The description of a checkpoint is
a pickle of torch's; only its own classes are accepted, so that no code of a file is executed.
"""
import dataclasses
import enum
import io
import pickle

import torch

from . import _errors
from ._cluster import connect
from .checkpoint import PIECE, _bytes_of

try:
    from torch.distributed import checkpoint as _dcp
    from torch.distributed.checkpoint import planner as _planner
    from torch.distributed.checkpoint import storage as _storage
except ImportError:
    try:  # torch 1.13 has it under another name
        from torch.distributed._shard import checkpoint as _dcp
        from torch.distributed._shard.checkpoint import planner as _planner
        from torch.distributed._shard.checkpoint import storage as _storage
    except ValueError as why:
        raise ImportError("terrane.dcp needs torch >= 2: distributed checkpoints of torch 1.13 do not work with this version "
                          "of Python") from why

__all__ = ["StorageReader", "StorageWriter"]

METADATA = "metadata"
METADATA_MAX = 1 << 30


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a tensor, or an object that is bytes, is stored."""
    file: str
    offset: int
    length: int
    dtype: str = ""    # "": bytes
    shape: tuple = ()


def _partial(path):
    parent, _, name = path.rpartition("/")
    return f"{parent}/partial-{name}"


class _Directory:
    """What writer and reader have in common: the directory of a checkpoint."""

    def __init__(self, path=None, *, cluster=None, **options):
        self._cluster, self._options = cluster, options
        self.reset(path)

    def reset(self, checkpoint_id=None):
        self.path = "/" + str(checkpoint_id).removeprefix("terrane:").strip("/") if checkpoint_id is not None else \
            getattr(self, "path", None)

    @property
    def cluster(self):
        if self._cluster is None:
            self._cluster = connect()
        return self._cluster

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return str(checkpoint_id).startswith(("/", "terrane:"))

    def _ready(self):
        if self.path in (None, "/"):
            raise ValueError("the checkpoint needs a path")


class StorageWriter(_Directory, _dcp.StorageWriter):
    """Writes a checkpoint into the directory `path`, which must not exist. options are those of `Cluster.open`, such as
    encoding."""

    def set_up_storage_writer(self, is_coordinator, *args, **kwargs):
        self._ready()
        if self.cluster.exists(self.path):
            raise _errors.make(17, "there is a checkpoint: remove it, or save to another path", self.path)
        self.cluster.mkdir(_partial(self.path), parents=True)

    init = set_up_storage_writer  # its name in torch 1.13

    def prepare_local_plan(self, plan):
        return plan

    def prepare_global_plan(self, plans):
        return [dataclasses.replace(plan, storage_data=f"rank-{i:05}") for i, plan in enumerate(plans)]

    def write_data(self, plan, planner):
        results, at = [], 0
        with self.cluster.open(f"{_partial(self.path)}/{plan.storage_data}", "wb", buffering=0, **self._options) as file:
            for item in plan.items:
                value = planner.resolve_data(item)
                if isinstance(value, torch.Tensor):
                    data = memoryview(_bytes_of(value)) if value.numel() else b""
                    place = Place(plan.storage_data, at, len(data), str(value.dtype).removeprefix("torch."),
                                  tuple(value.shape))
                else:
                    data = value.getbuffer()
                    place = Place(plan.storage_data, at, len(data))
                if len(data):
                    file.write(data)
                at += len(data)
                results.append(_storage.WriteResult(index=item.index, size_in_bytes=len(data), storage_data=place))
        done = torch.futures.Future()
        done.set_result(results)
        return done

    def finish(self, metadata, results):
        metadata.storage_data = {one.index: one.storage_data for rank in results for one in rank}
        partial = _partial(self.path)
        self.cluster.write(f"{partial}/{METADATA}", pickle.dumps(metadata))
        files = {METADATA, *(place.file for place in metadata.storage_data.values())}
        for other in set(self.cluster.listdir(partial)) - files:  # of an attempt with more ranks
            self.cluster.remove(f"{partial}/{other}")
        self.cluster.rename(partial, self.path)


def _class_within(outer, name):
    """The getattr of descriptions: they name classes within classes and members of enumerations so."""
    found = getattr(outer, name, None) if isinstance(outer, type) and not name.startswith("_") else None
    if not isinstance(found, (type, enum.Enum)):
        raise pickle.UnpicklingError(f"{outer}.{name} does not belong into a checkpoint")
    return found


class _Unpickler(pickle.Unpickler):
    """Accepts what torch's description of a checkpoint consists of."""

    def find_class(self, module, name):
        if module.startswith("torch.distributed.") and module.endswith(".metadata") and "." not in name:
            found = super().find_class(module, name)
            if isinstance(found, type):
                return found
        if module == "torch" and (name in ("Size", "device") or
                                  isinstance(getattr(torch, name, None), (torch.dtype, torch.layout, torch.memory_format))):
            return getattr(torch, name)
        if (module, name) == ("builtins", "getattr"):
            return _class_within
        if (module, name) in (("torch.serialization", "_get_layout"), ("collections", "OrderedDict"), (__name__, "Place")):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} does not belong into a checkpoint")


class StorageReader(_Directory, _dcp.StorageReader):
    """Reads the checkpoint in the directory `path`."""

    def read_metadata(self, *args, **kwargs):
        self._ready()
        file = f"{self.path}/{METADATA}"
        try:
            if self.cluster.stat(file).size > METADATA_MAX:
                raise pickle.UnpicklingError("it is too long")
            return _Unpickler(io.BytesIO(self.cluster.read(file))).load()
        except (pickle.UnpicklingError, EOFError, AttributeError, TypeError, ValueError, IndexError, ImportError) as why:
            raise _errors.make(74, f"this is no description of a checkpoint, or it is damaged ({why}): load another one",
                               file) from why

    def set_up_storage_reader(self, metadata, is_coordinator, *args, **kwargs):
        self._places = metadata.storage_data

    init = set_up_storage_reader

    def prepare_local_plan(self, plan):
        return plan

    def prepare_global_plan(self, plans):
        return plans

    def read_data(self, plan, planner):
        wanted, ranges = [], []
        for item in plan.items:
            one = _Wanted(item, self._places[item.storage_index], planner)
            wanted.append(one)
            ranges += [(f"{self.path}/{one.place.file}", one.offset + at, one.room[at:at + PIECE])
                       for at in range(0, len(one.room), PIECE)]
        got = self.cluster.read_batch(ranges, **self._options)
        for n, (file, _, room) in zip(got, ranges):
            if n != len(room):
                raise _errors.make(74, "the file of the checkpoint is too short: load another one", file)
        for one in wanted:
            one.finish(planner)
        done = torch.futures.Future()
        done.set_result(None)
        return done


class _Wanted:
    """A part of a tensor, or an object, that is read."""

    def __init__(self, item, place, planner):
        self.item, self.place, self.offset = item, place, place.offset
        self.target = self.read = None
        if item.type == _planner.LoadItemType.BYTE_IO:
            self.room = memoryview(bytearray(place.length))
            return
        self.target = planner.resolve_tensor(item).detach()
        dtype, shape = getattr(torch, place.dtype), list(place.shape)
        self.begin, self.lengths = list(item.storage_offsets), list(item.lengths)
        if shape and self.begin[1:] == [0] * (len(shape) - 1) and self.lengths[1:] == shape[1:]:
            # A run of rows lies together in the file: the other rows are not read.
            row = place.length // shape[0] if shape[0] else 0
            self.offset += self.begin[0] * row
            shape, self.begin = self.lengths, [0] * len(shape)
        self.read = self.target
        if not (self.target.is_contiguous() and self.target.device.type == "cpu" and self.target.dtype == dtype and
                list(self.target.shape) == shape):
            self.read = torch.empty(shape, dtype=dtype)
        self.room = memoryview(_bytes_of(self.read)) if self.read.numel() else memoryview(b"")

    def finish(self, planner):
        if self.target is None:
            planner.load_bytes(self.item, io.BytesIO(self.room))
            return
        if self.read is not self.target:
            part = self.read
            for dim, (begin, length) in enumerate(zip(self.begin, self.lengths)):
                part = part.narrow(dim, begin, length)
            if part.shape != self.target.shape:
                raise _errors.make(74, f"{self.item.storage_index.fqn} has the shape {tuple(part.shape)} in the checkpoint, "
                                   f"and {tuple(self.target.shape)} in the state", self.place.file)
            self.target.copy_(part)
        planner.commit_tensor(self.item, self.target)

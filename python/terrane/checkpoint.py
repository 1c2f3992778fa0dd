# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of PyTorch jobs: each is visible completely or not at all, and a crash leaves the last one as the latest.

    from terrane import checkpoint
    checkpoint.save({"model": model.state_dict(), "loader": loader.state_dict()}, "/runs/a", step)
    state = checkpoint.load("/runs/a")                # the latest; tensors of other processes are not read
    checkpoint.keep("/runs/a", 3)

Layout. `/runs/a/step-0000000100` is a directory with a file for each rank. The ranks write into `partial-0000000100`, and
the last of them renames it when all files are durable. A file has the bytes of the tensors, then their description as JSON,
then a footer. Loading executes no code: a state consists of dict, list, tuple, str, int, float, bool, None and tensors.
"""
import concurrent.futures
import json
import re
import struct

import torch

from . import _errors, _terrane
from ._cluster import connect

__all__ = ["commit", "keep", "latest", "list", "load", "save"]

FORMAT = 1
FOOTER = struct.Struct("<8sQQI4x")  # magic, place and length of the description, its CRC-32C
MAGIC = b"TRNCKPT\n"
ALIGN = 64
HEADER_MAX = 1 << 30
PIECE = 256 << 20  # bytes of a range that is read
_list = list


def _place(rank, world):
    from . import torch as terrane_torch
    here = terrane_torch.place()
    rank, world = here[0] if rank is None else rank, here[1] if world is None else world
    if not 0 <= rank < world <= 100_000:
        raise ValueError(f"rank {rank} is not one of {world} ranks")
    return rank, world


def _directory(path, step, partial=False):
    if not isinstance(step, int) or not 0 <= step < 10 ** 10:
        raise ValueError(f"step must be a number from 0 to 9,999,999,999, not {step!r}")
    return f"{path.rstrip('/')}/{'partial' if partial else 'step'}-{step:010}"


def _file(rank, world):
    return f"rank-{rank:05}-of-{world:05}"


# --- the description of a state

class _Describer:
    """Turns a state into JSON, and collects its tensors."""

    def __init__(self):
        self.tensors, self.records, self._known, self._at = [], [], {}, 0

    def describe(self, value, name):
        if value is None or isinstance(value, (bool, str)) or type(value) is int:
            return value
        if isinstance(value, float):
            return {"float": value.hex()}
        if isinstance(value, torch.Tensor):
            return {"tensor": self._tensor(value, name)}
        if isinstance(value, dict):
            return {"dict": [[self.describe(key, name), self.describe(one, f"{name}/{key}")]
                             for key, one in value.items()]}
        if isinstance(value, (_list, tuple)):
            kind = "list" if isinstance(value, _list) else "tuple"
            return {kind: [self.describe(one, f"{name}/{i}") for i, one in enumerate(value)]}
        raise TypeError(f"{name} is of {type(value)}: a checkpoint has dict, list, tuple, str, int, float, bool, None "
                        "and tensors; convert it")

    def _tensor(self, tensor, name):
        if tensor.layout != torch.strided or tensor.is_quantized:
            raise TypeError(f"{name} is a sparse or quantized tensor: convert it to a dense one")
        same = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.device)
        if tensor.numel() > 0 and same in self._known:
            return self._known[same]  # weights that are tied stay tied
        number = self._known[same] = len(self.tensors)
        size = tensor.numel() * tensor.element_size()
        self._at += -self._at % ALIGN
        self.tensors.append(tensor)
        self.records.append({"name": name, "dtype": str(tensor.dtype).removeprefix("torch."), "shape": [*tensor.shape],
                             "offset": self._at, "size": size})
        self._at += size
        return number


def _bytes_of(tensor):
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()


def _on_cpu(value):
    """A copy of a state that later steps of the training do not change."""
    if isinstance(value, torch.Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {key: _on_cpu(one) for key, one in value.items()}
    if isinstance(value, (_list, tuple)):
        copies = [_on_cpu(one) for one in value]
        return copies if isinstance(value, _list) else tuple(copies)
    return value


# --- writing

def save(state, path, step, *, cluster=None, rank=None, world=None, wait=True, **options):
    """Saves a state as the checkpoint of a step. It is visible when this returns; with several ranks when all have called
    it. rank and world are those of torch.distributed unless given; without torch.distributed but with a world of several
    ranks, call `commit` when all ranks have saved. options are those of `Cluster.open`, such as encoding.

    With wait=False the state is copied to the memory of the CPU, and a Future is returned that ends when the checkpoint is
    visible. Raises FileExistsError if the step has a checkpoint.

    >>> cluster = getfixture()
    >>> save({"weights": torch.arange(4.0), "step": 7}, "/doc/run", 7, cluster=cluster)
    >>> load("/doc/run", cluster=cluster)
    {'weights': tensor([0., 1., 2., 3.]), 'step': 7}
    """
    job = _Save(path, step, cluster if cluster is not None else connect(), *_place(rank, world), options)
    if wait:
        return job.run(state)
    pool = concurrent.futures.ThreadPoolExecutor(1, "terrane-checkpoint")
    future = pool.submit(job.run, _on_cpu(state))
    pool.shutdown(wait=False)
    return future


_group = None


def _group_of_ranks():
    """The ranks of torch.distributed, for messages of this module only: a save in the background must not come between
    the messages of a training step. None without torch.distributed."""
    global _group
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_initialized():
        return None
    if _group is None:
        _group = distributed.new_group(backend="gloo")
    return _group


class _Save:
    """A call of save."""

    def __init__(self, path, step, cluster, rank, world, options):
        self.path, self.step, self.cluster, self.rank, self.world = path, step, cluster, rank, world
        self.options = options
        _directory(path, step)  # refuses wrong numbers before anything waits
        self.group = _group_of_ranks()

    def run(self, state):
        if self.group is None:
            _write(state, self)
            if self.world == 1:
                commit(self.path, self.step, 1, cluster=self.cluster)
            return
        # All ranks learn of an error of one of them, so that none waits for ever.
        mine = self._error_of(lambda: _write(state, self))
        errors = [None] * torch.distributed.get_world_size(self.group)
        torch.distributed.all_gather_object(errors, mine and str(mine), group=self.group)
        failed = next((f"rank {i}: {error}" for i, error in enumerate(errors) if error), None)
        if failed is None and self.rank == 0:
            mine = self._error_of(lambda: commit(self.path, self.step, self.world, cluster=self.cluster))
        done = [failed or (mine and str(mine))]
        torch.distributed.broadcast_object_list(done, 0, group=self.group)
        if mine is not None:
            raise mine
        if done[0] is not None:
            raise _errors.make(125, f"the checkpoint is not saved: {done[0]}", _directory(self.path, self.step))

    @staticmethod
    def _error_of(call):
        try:
            call()
        except Exception as error:  # raised when all ranks know of it
            return error
        return None


def _write(state, job):
    """Writes the file of this rank."""
    path, step, cluster, rank, world, options = job.path, job.step, job.cluster, job.rank, job.world, job.options
    final, partial = _directory(path, step), _directory(path, step, partial=True)
    if cluster.exists(final):
        raise _errors.make(17, "the step has a checkpoint: remove it, or save another step", final)
    cluster.mkdir(partial, parents=True)
    describer = _Describer()
    tree = describer.describe(state, "")
    with cluster.open(f"{partial}/{_file(rank, world)}", "wb", buffering=0, **options) as file:
        at = 0
        for tensor, record in zip(describer.tensors, describer.records):
            if record["offset"] > at:
                file.write(bytes(record["offset"] - at))
            if record["size"]:
                file.write(_bytes_of(tensor))
            at = record["offset"] + record["size"]
        text = json.dumps({"format": FORMAT, "step": step, "rank": rank, "world": world, "tree": tree,
                           "tensors": describer.records}, separators=(",", ":")).encode()
        file.write(text + FOOTER.pack(MAGIC, at, len(text), _terrane.crc32c(text)))


def commit(path, step, world, *, cluster=None):
    """Makes a checkpoint visible whose ranks have all been saved. `save` does it unless the ranks are separate jobs."""
    cluster = cluster if cluster is not None else connect()
    partial = _directory(path, step, partial=True)
    wanted = {_file(rank, world) for rank in range(world)}
    there = set(cluster.listdir(partial))
    if wanted - there:
        raise _errors.make(2, f"{len(wanted - there)} of {world} ranks have not saved, such as {min(wanted - there)}",
                           partial)
    for other in there - wanted:  # of an attempt with another number of ranks
        cluster.remove(f"{partial}/{other}")
    cluster.rename(partial, _directory(path, step))


# --- reading

def _read_exactly(cluster, path, buffer, offset):
    got = cluster.pread_into(path, buffer, offset)
    if got != len(buffer):
        raise _errors.make(74, "the file of the checkpoint is too short: load another step", path)
    return buffer


def _describe_file(cluster, path):
    size = cluster.stat(path).size
    damaged = _errors.make(74, "this is no file of a checkpoint, or it is damaged: load another step", path)
    if size < FOOTER.size:
        raise damaged
    magic, at, length, crc = FOOTER.unpack(_read_exactly(cluster, path, bytearray(FOOTER.size), size - FOOTER.size))
    if magic != MAGIC or length > HEADER_MAX or at + length + FOOTER.size != size:
        raise damaged
    text = _read_exactly(cluster, path, bytearray(length), at)
    if _terrane.crc32c(text) != crc:
        raise damaged
    described = json.loads(text)
    if described["format"] != FORMAT:
        raise _errors.make(93, "the checkpoint was written by another version of Terrane: use that one", path)
    return described, at


def _room(record, end, path):
    """An empty tensor of a record, and its bytes as a flat array."""
    dtype = getattr(torch, record["dtype"], None)
    if not isinstance(dtype, torch.dtype) or record["offset"] < 0 or record["offset"] + record["size"] > end:
        raise _errors.make(74, f"the tensor {record['name']} is not valid: load another step", path)
    tensor = torch.empty(record["shape"], dtype=dtype)
    if tensor.numel() * tensor.element_size() != record["size"]:
        raise _errors.make(74, f"the tensor {record['name']} is not valid: load another step", path)
    return tensor, tensor.reshape(-1).view(torch.uint8).numpy() if record["size"] else None


_LEFT_OUT = object()


def _build(tree, tensors):
    """The state of a description; what has a tensor that was not read is left out."""
    if not isinstance(tree, dict):
        return tree
    (kind, value), = tree.items()
    if kind == "float":
        return float.fromhex(value)
    if kind == "tensor":
        return tensors.get(value, _LEFT_OUT)
    if kind == "dict":
        built = ((_build(key, tensors), _build(one, tensors)) for key, one in value)
        return {key: one for key, one in built if one is not _LEFT_OUT}
    built = [one for one in (_build(one, tensors) for one in value) if one is not _LEFT_OUT]
    return built if kind == "list" else tuple(built)


def load(path, step=None, *, cluster=None, rank=None, world=None, only=None, device=None, **options):
    """Loads the state of this rank of the checkpoint of a step, else of the latest. All tensors are read in one call.

    only(name) chooses the tensors to read by their names, such as "/model/conv.weight"; others are left out of the state.
    device moves the tensors there.

    >>> cluster = getfixture()
    >>> save({"a": torch.zeros(2), "b": [torch.ones(1), 0.5]}, "/doc/part", 1, cluster=cluster)
    >>> load("/doc/part", cluster=cluster, only=lambda name: name.startswith("/b"))
    {'b': [tensor([1.]), 0.5]}
    """
    cluster = cluster if cluster is not None else connect()
    rank, world = _place(rank, world)
    if step is None:
        step = latest(path, cluster=cluster)
        if step is None:
            raise _errors.make(2, "there is no checkpoint", path)
    file = f"{_directory(path, step)}/{_file(rank, world)}"
    described, end = _describe_file(cluster, file)
    tensors, ranges = {}, []
    for number, record in enumerate(described["tensors"]):
        if only is None or only(record["name"]):
            tensors[number], room = _room(record, end, file)
            if room is not None:
                ranges += [(file, record["offset"] + at, room[at:at + PIECE]) for at in range(0, len(room), PIECE)]
    got = cluster.read_batch(ranges, **options)
    if any(n != len(room) for n, (_, _, room) in zip(got, ranges)):
        raise _errors.make(74, "the file of the checkpoint is too short: load another step", file)
    if device is not None:
        tensors = {number: tensor.to(device) for number, tensor in tensors.items()}
    return _build(described["tree"], tensors)


# --- many of them

def list(path, *, cluster=None):
    """The steps that have a complete checkpoint, in rising order. Empty if there is no such directory."""
    cluster = cluster if cluster is not None else connect()
    try:
        names = cluster.listdir(path)
    except FileNotFoundError:
        return []
    return sorted(int(match[1]) for match in (re.fullmatch(r"step-(\d{10})", name) for name in names) if match)


def latest(path, *, cluster=None):
    """The last step that has a checkpoint, or None.

    >>> cluster = getfixture()
    >>> for step in 10, 20, 30:
    ...     save({"step": step}, "/doc/steps", step, cluster=cluster)
    >>> keep("/doc/steps", 2, cluster=cluster)
    [10]
    >>> list("/doc/steps", cluster=cluster), latest("/doc/steps", cluster=cluster)
    ([20, 30], 30)
    """
    steps = list(path, cluster=cluster)
    return steps[-1] if steps else None


def keep(path, n, *, cluster=None):
    """Removes all but the last n checkpoints, and what interrupted saves of earlier steps left. Returns the steps that were
    removed. Call it on one rank."""
    cluster = cluster if cluster is not None else connect()
    if n < 1:
        raise ValueError("keep at least one checkpoint")
    steps = list(path, cluster=cluster)
    gone = steps[:-n]
    for step in gone:
        # Renamed first: a checkpoint that is removed in part must not look complete.
        cluster.rename(_directory(path, step), _directory(path, step, partial=True))
    for name in cluster.listdir(path) if steps else []:
        match = re.fullmatch(r"partial-(\d{10})", name)
        if match and int(match[1]) <= steps[-1]:
            cluster.remove(f"{path.rstrip('/')}/{name}", recursive=True)
    return gone

# SPDX-License-Identifier: Apache-2.0
"""Makes the distributed checkpoints of torch 1.13 importable with Python 3.11, which refuses one of its data classes as a
default because it has no hash. Import it before terrane.dcp."""
import dataclasses

_dataclass = dataclasses.dataclass


def _hashable(cls=None, /, **options):
    if cls is None:
        return lambda one: _hashable(one, **options)
    made = _dataclass(cls, **options)
    if made.__hash__ is None:
        made.__hash__ = object.__hash__
    return made


dataclasses.dataclass = _hashable
try:
    import torch.distributed._shard.checkpoint  # noqa: F401
except ImportError:
    pass  # a newer torch needs no help
finally:
    dataclasses.dataclass = _dataclass

# SPDX-License-Identifier: Apache-2.0
"""The order of an epoch: which sample is at which position (src/dataset/order.h and windows.h)."""
import functools
from typing import NamedTuple

import numpy

from . import _terrane

# Numbers of orders, which states of loaders have.
SEQUENTIAL, LOCAL, GLOBAL, WINDOW, FREE = range(5)
SHARE_ALL = 1_000_000  # shares of windows are in millionths


class Order(NamedTuple):
    kind: int
    window: int = 0  # samples that are shuffled together; 0: the default
    share: int = 0   # WINDOW: of the data set in a window
    first: int = 0   # WINDOW: the window in which epochs begin


@functools.lru_cache(64)
def shape(samples, size, share):
    """(samples of a stripe, number of windows) of a data set of so many samples and bytes."""
    return _terrane.windows_shape(samples, size, share)


def positions(samples, size, order, seed, epoch, position, count):
    """The samples at `count` positions of an epoch of a data set of so many samples and bytes."""
    out = numpy.empty(count, numpy.uint64)
    if order.kind == WINDOW:
        _terrane.windows_samples(samples, *shape(samples, size, order.share), order.first, order.window, seed, epoch,
                                 position, out)
    else:
        kind = GLOBAL if order.kind == FREE else order.kind
        _terrane.order_samples(kind, samples, order.window, seed, epoch, position, out)
    return out


def window_at(samples, size, order, position):
    """(window, number of windows, first position, end) of the window that a position reads."""
    stripe, count = shape(samples, size, order.share)
    window, begin, end = _terrane.windows_at(samples, stripe, count, order.first, order.window, 0, 0, position)
    return window, count, begin, end


def shuffled(n, seed, epoch):
    """A permutation of n numbers."""
    return positions(n, 0, Order(GLOBAL), seed, epoch, 0, n)

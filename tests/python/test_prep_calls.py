# SPDX-License-Identifier: Apache-2.0
"""The calls of the extension that ImageLoader uses, with buffers that do not fit and records of random bytes: they are refused
or harmless. test_process.py runs this with the address sanitizer and with checks of the allocator."""
import random

import numpy
import pytest
import terrane
from conftest import ROOT  # noqa: F401 (the paths of the package)
from terrane import _terrane
from terrane._dataset import ENTRY
from terrane._near import PREP

SIDE, N = 8, 6
SETUP = (1e6, 0.0, 1e-4, 4.0, 1.0, 2), (1.0, 1.0)


@pytest.fixture
def dataset(cluster, birds):
    with terrane.Dataset(birds, cluster=cluster) as opened:
        yield opened


def arrays():
    """Entries of N samples with images of 40 x 30 pixels, their operations, and room for what calls return."""
    entries, preps = numpy.zeros(N, ENTRY), numpy.zeros(N, PREP)
    entries["size"], entries["width"], entries["height"] = 100, 40, 30
    return {"entries": entries, "preps": preps, "flips": numpy.zeros(N, numpy.uint8), "left": numpy.zeros(N, numpy.uint8),
            "data": numpy.frombuffer(random.Random(1).randbytes(100 * N), numpy.uint8).copy(),
            "out": numpy.zeros((N, 3, SIDE, SIDE), numpy.float32), "nodes": numpy.zeros(N, numpy.uint32)}


def calls(a):
    """The calls, with the arrays that each takes."""
    return {
        "draw": (lambda: _terrane.prep_draw(a["entries"], 1, 2, SIDE, a["preps"], a["flips"]), ("preps", "flips")),
        "finish": (lambda: _terrane.prep_finish(a["entries"], a["preps"], a["data"], a["flips"], SIDE, a["out"], a["left"]),
                   ("preps", "data", "flips", "out", "left")),
        "cost": (lambda: _terrane.prep_cost(a["entries"], a["preps"], a["flips"]), ("preps", "flips")),
        "plan": (lambda: _terrane.prep_plan("terrane", a["entries"], a["preps"], a["nodes"], a["left"], a["flips"], *SETUP),
                 ("preps", "nodes", "left", "flips")),
    }


@pytest.mark.parametrize("name", ["draw", "finish", "cost", "plan"])
def test_buffers_that_are_too_small_are_refused(name):
    for short in calls(arrays())[name][1]:
        a = arrays()
        calls(a)["draw"][0]()
        a["preps"]["bytes"] = 100
        calls(a)[name][0]()
        a[short] = a[short][:-1]
        with pytest.raises(ValueError, match="too small|not samples"):
            calls(a)[name][0]()
        a[short] = "text"
        with pytest.raises(TypeError):
            calls(a)[name][0]()


def test_read_only_results_and_wrong_numbers_are_refused(dataset):
    a = arrays()
    with pytest.raises(BufferError):
        _terrane.prep_draw(a["entries"], 1, 2, SIDE, a["preps"].tobytes(), a["flips"])
    for side in (0, 4097):
        with pytest.raises(ValueError, match="1 to 4096"):
            _terrane.prep_draw(a["entries"], 1, 2, side, a["preps"], a["flips"])
        with pytest.raises(ValueError, match="1 to 4096"):
            _terrane.prep_tensor(bytearray(12), side, False, a["out"])
    with pytest.raises(ValueError, match="65,535"):
        _terrane.prep_draw_one(1, 2, 3, 0, 5)
    for place, wrong in ((0, 0.0), (0, float("nan")), (1, -1.0), (3, 0.0), (4, -1.0), (5, 0), (5, 1 << 20)):
        setup = [*SETUP[0]]
        setup[place] = wrong
        with pytest.raises(ValueError, match="out of range"):
            _terrane.prep_plan("terrane", a["entries"], a["preps"], a["nodes"], a["left"], a["flips"], tuple(setup), SETUP[1])
    with pytest.raises(ValueError, match="no policy"):
        _terrane.prep_plan("best", a["entries"], a["preps"], a["nodes"], a["left"], a["flips"], *SETUP)
    for kinds in (b"", bytes(len(dataset.parts) + 1)):
        with pytest.raises(ValueError, match="a byte for each part"):
            dataset._handle.lookup(numpy.zeros(1, numpy.uint64), numpy.empty(1, ENTRY), None, kinds)


def test_records_of_random_bytes_are_refused_or_harmless():
    chance = random.Random(7)
    for i in range(2000):
        a = arrays()
        calls(a)["draw"][0]()
        a["preps"]["bytes"] = 100
        raw = bytearray(a["preps"].tobytes())
        if i % 2:
            for _ in range(chance.randrange(1, 12)):
                raw[chance.randrange(len(raw))] = chance.choice((0, 1, 2, 3, 127, 255))
        else:
            raw = bytearray(chance.randbytes(len(raw)))
        a["preps"] = numpy.frombuffer(raw, PREP)
        if i % 3 == 0:
            for field in ("width", "height", "size"):
                a["entries"][field][chance.randrange(N)] = chance.choice((0, 1, 65535, 65536, (1 << 32) - 1))
        for name in ("finish", "cost", "plan"):
            try:
                calls(a)[name][0]()
            except ValueError:
                continue
            assert name != "plan" or set(a["flips"].tolist()) <= {0, 1, 2}


def test_operations_of_random_bytes_never_fail_a_read_in_another_way(dataset):
    chance = random.Random(8)
    entries = dataset.lookup(range(len(dataset)))
    want = bytes(dataset.read(range(len(dataset))).data)
    for _ in range(100):
        preps = numpy.zeros(len(entries), PREP)
        for field in ("form", "x", "y", "width", "height", "out_width", "out_height"):
            preps[field] = [chance.choice((0, 1, 2, 3, 8, 65535, (1 << 32) - 1)) for _ in entries]
        room = bytearray(len(want))
        try:
            dataset._handle.read(entries, room, None, preps).wait()
        except terrane.Error as error:
            assert error.errno == 22, error
            continue
        assert room == want and (preps["got"] == 0).all()  # texts come as they are
    preps = numpy.zeros(len(entries), PREP)
    preps["form"], preps["width"], preps["height"], preps["out_width"], preps["out_height"] = 1, 4, 4, 2, 2
    room = bytearray(len(want))
    dataset._handle.read(entries, room, None, preps).wait()
    assert room == want and (preps["got"] == 0).all() and (preps["reason"] != 0).all()
    with pytest.raises(ValueError, match="fewer operations"):
        dataset._handle.read(entries, room, None, preps[1:])

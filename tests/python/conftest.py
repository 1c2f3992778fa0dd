# SPDX-License-Identifier: Apache-2.0
"""Tests of the package `terrane` on a cluster of real processes: `./dev test python`."""
import os
import random
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(os.environ.get("TERRANE_PACKAGE", ROOT / "build" / "python"))
sys.path[:0] = [str(PACKAGE), str(ROOT / "tests" / "blackbox")]

from box import Box  # noqa: E402 (needs the path above)


@pytest.fixture(scope="session")
def box(tmp_path_factory):
    """One cluster for all tests of a worker. A test run inside a test uses the cluster of the outer one."""
    if "TERRANE_TEST_BOX" in os.environ:
        outer = Box(os.environ["TERRANE_TEST_BOX"])
        os.environ["TERRANE_CLUSTER"] = outer.env["TERRANE_CLUSTER"]
        yield outer
        return
    with Box(tmp_path_factory.mktemp("box") / "b") as inner:
        os.environ["TERRANE_CLUSTER"] = inner.env["TERRANE_CLUSTER"]
        yield inner


@pytest.fixture(scope="session")
def cluster(box):
    import terrane
    with terrane.connect() as handle:
        yield handle


@pytest.fixture
def folder(cluster, request):
    """An empty directory of the cluster for one test."""
    path = f"/t/{os.getpid()}/{request.node.name}"
    cluster.mkdir(path, parents=True)
    return path


@pytest.fixture(scope="session")
def birds(box, cluster, tmp_path_factory):
    """The data set of the examples in docstrings."""
    source = tmp_path_factory.mktemp("birds")
    for label in ("owl", "wren"):
        (source / label).mkdir()
        for i in range(6):
            (source / label / f"{i}.txt").write_text(f"{label} {i}")
    path = "/doc/birds"
    if not cluster.exists(f"{path}/v1.json"):  # a test run inside a test uses that of the outer one
        box("dataset", "build", source, path)
    return path


@pytest.fixture(scope="session")
def photos(box, cluster, tmp_path_factory):
    """A data set of JPEG files, for examples in docstrings and for training on crops."""
    image = pytest.importorskip("PIL.Image")
    source = tmp_path_factory.mktemp("photos")
    for i in range(24):
        tiles = image.frombytes("RGB", (9, 7), random.Random(i).randbytes(3 * 63))
        noise = image.frombytes("RGB", (40, 30), random.Random(-i).randbytes(3 * 1200))
        size = (240, 180) if i % 3 else (180, 240)
        file = source / ("ash", "elm")[i % 2] / f"{i}.jpg"
        file.parent.mkdir(exist_ok=True)
        image.blend(tiles.resize(size), noise.resize(size, image.NEAREST), 0.3).save(file, quality=92)
    path = "/doc/photos"
    if not cluster.exists(f"{path}/v1.json"):
        box("dataset", "build", source, path)
    return path

# SPDX-License-Identifier: Apache-2.0
"""Tests of the package `terrane` on a cluster of real processes: `./dev test python`."""
import os
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

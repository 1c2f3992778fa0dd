# SPDX-License-Identifier: Apache-2.0
"""`pip install .` in the checkout: a wheel for all versions of Python, made without a network."""
import subprocess
import sys

import pytest
from conftest import ROOT

pytest.importorskip("mesonpy")


def test_pip_makes_a_wheel_without_a_network_that_needs_nothing_else(box, tmp_path):
    offline = ["unshare", "-n"] if subprocess.run(["unshare", "-n", "true"], check=False).returncode == 0 else []
    done = subprocess.run([*offline, sys.executable, "-m", "pip", "wheel", "--no-index", "--no-deps", "--wheel-dir",
                           tmp_path, ROOT], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    wheel, = tmp_path.glob("*.whl")
    assert "-cp311-abi3-" in wheel.name
    subprocess.run([sys.executable, "-m", "zipfile", "-e", wheel, tmp_path / "site"], check=True)
    code = """
import terrane, terrane.fs, importlib.metadata
assert terrane.__file__.startswith({site!r})
with terrane.connect() as cluster:
    cluster.write("/from-a-wheel", b"bytes")
    print(cluster.read("/from-a-wheel"), importlib.metadata.version("terrane") == terrane.__version__)
"""
    done = subprocess.run([sys.executable, "-c", code.format(site=str(tmp_path / "site"))], text=True,
                          env={"PYTHONPATH": str(tmp_path / "site"), "TERRANE_CLUSTER": box.env["TERRANE_CLUSTER"]},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert done.stdout == "b'bytes' True\n", done.stdout
    entry, = (tmp_path / "site").glob("terrane-*/entry_points.txt")
    assert "terrane = terrane.fs:TerraneFileSystem" in entry.read_text()

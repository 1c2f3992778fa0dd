# SPDX-License-Identifier: Apache-2.0
"""The extension as a guest of the interpreter: signals, memory, references, sanitizers, examples in docstrings."""
import doctest
import gc
import importlib
import os
import pkgutil
import signal
import subprocess
import sys
from pathlib import Path

import child
import pytest
import terrane
from box import MIB, TERRANE, Box, some_bytes
from conftest import ROOT

HERE = Path(__file__).resolve().parent


CALLS = ["cluster.stat('/'", "cluster.read('/a'", "cluster.write('/b', bytes(1 << 20)", "cluster.listdir('/'",
         "cluster.read_batch([('/a', 0, bytearray(10))]", "cluster.pack('/', {'c': b'1'}", "reader.read1(",
         "cluster.mkdir('/d/e', parents=True", "cluster.rename('/a', '/r'", "cluster.remove('/a'", "cluster.seal('/a'",
         "list(cluster.walk('/'", "terrane.Dataset('/a', cluster=cluster"]


def test_interrupt_ends_calls_that_wait_for_a_stopped_cluster(tmp_path):
    with Box(tmp_path / "b") as box:
        pid, = box.pids().values()
        programs = [child.start(f"""
import os, terrane
cluster = terrane.connect()
cluster.write('/a{i}', b'0123456789')
reader = cluster.open('/a{i}', timeout=3600)
print('ready', flush=True)
input()
try:
    print('calls', flush=True)
    {call.replace("/a", f"/a{i}") + (")" if "reader" in call else ", timeout=3600))" if "list(" in call else
                                     ", timeout=3600)")}
except KeyboardInterrupt:
    print('interrupted', flush=True)
    os._exit(0)
""", TERRANE_CLUSTER=box.env["TERRANE_CLUSTER"]) for i, call in enumerate(CALLS)]
        assert all(program.stdout.readline() == "ready\n" for program in programs)
        os.kill(pid, signal.SIGSTOP)
        try:
            for call, program in zip(CALLS, programs):
                program.stdin.write("\n")
                program.stdin.flush()
                assert program.stdout.readline() == "calls\n"
                program.send_signal(signal.SIGINT)
                out, err = program.communicate(timeout=60)  # the call's own timeout is an hour
                assert program.returncode == 0 and out == "interrupted\n", f"{call}: {err}"
        finally:
            os.kill(pid, signal.SIGCONT)
            for program in programs:
                program.kill()


def calls_that_fail_or_are_cheap(cluster):
    closed = terrane.connect()
    closed.close()
    room = bytearray(1)

    def one():
        terrane.crc32c(b"123456789")
        for call in (lambda: cluster.stat(5), lambda: cluster.stat("/", color=1), lambda: closed.stat("/"),
                     lambda: cluster.read_batch([("/a", 0, room), 5]),
                     lambda: cluster.pack("/", [("a", b"1"), ("b", "2")])):
            try:
                call()
            except (TypeError, ValueError):
                continue
            raise AssertionError("it was accepted")
    return one


def blocks_gained(call, times):
    for _ in range(200):
        call()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(times):
        call()
    gc.collect()
    return sys.getallocatedblocks() - before


def test_no_reference_is_lost_over_a_million_calls(cluster, folder):
    one = calls_that_fail_or_are_cheap(cluster)
    assert blocks_gained(one, 100_000) < 100  # six calls of the extension each
    data = b"x" * 100
    assert blocks_gained(lambda: terrane.crc32c(data), 500_000) < 100


def test_no_reference_is_lost_by_real_calls(cluster, folder):
    cluster.write(f"{folder}/a", b"0123456789")
    room = bytearray(4)

    def one():
        cluster.stat(folder)
        cluster.listdir(folder)
        with cluster.open(f"{folder}/a") as file:
            file.pread_into(room, 2)
        cluster.read_batch([(f"{folder}/a", 0, room), (f"{folder}/a", 1, bytearray(2))])
        try:
            cluster.stat(f"{folder}/none")
        except FileNotFoundError:
            pass
        with cluster.open(f"{folder}/b", "wb") as file:
            file.write(b"1")
            file.discard()

    assert blocks_gained(one, 100) < 50


def pytest_inside(box, names, **env):
    done = subprocess.run([sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-x",
                           *(str(HERE / name) for name in names)],
                          env=child.environment(TERRANE_TEST_BOX=str(box.folder), **env), text=True, timeout=900,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert done.returncode == 0, done.stdout[-5000:]


CHECKED = ["test_files.py", "test_dataset.py", "test_build.py", "test_aio.py", "test_sources.py", "test_placement.py",
           "test_prep_calls.py"]


def test_calls_pass_with_checks_of_the_allocator(box):
    pytest_inside(box, CHECKED, PYTHONMALLOC="debug", PYTHONDEVMODE="1")


def test_calls_pass_under_the_address_sanitizer(box):
    package = ROOT / "build" / "asan" / "python"
    assert (package / "terrane" / "_terrane.abi3.so").exists(), "build it: ./dev build asan"
    runtime = subprocess.run(["gcc", "-print-file-name=libasan.so"], text=True, stdout=subprocess.PIPE, check=True)
    pytest_inside(box, CHECKED, TERRANE_PACKAGE=str(package), PYTHONMALLOC="malloc",
                  LD_PRELOAD=runtime.stdout.strip(), UBSAN_OPTIONS="halt_on_error=1",
                  ASAN_OPTIONS="detect_leaks=0:quarantine_size_mb=16")


def modules():
    names = [module.name for module in pkgutil.walk_packages(terrane.__path__, "terrane.")]
    return ["terrane", *(name for name in names if name != "terrane._terrane")]


@pytest.mark.parametrize("name", modules())
def test_examples_in_docstrings(cluster, birds, photos, name):
    try:
        module = importlib.import_module(name)
    except ImportError as missing:
        pytest.skip(f"{name} needs {missing.name}")
    failed, _ = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL,
                                extraglobs={"getfixture": lambda: cluster})
    assert failed == 0


def test_the_walk_in_the_documentation(cluster, monkeypatch):
    for name in ("numpy", "fsspec", "torch"):
        pytest.importorskip(name)
    monkeypatch.setenv("TERRANE", str(TERRANE))
    failed, count = doctest.testfile(str(ROOT / "docs" / "python.md"), module_relative=False, encoding="utf-8")
    assert failed == 0 and count > 30


def test_cluster_that_comes_back_is_used_again(tmp_path):
    data = some_bytes("d", MIB)
    with Box(tmp_path / "b") as box, terrane.connect(box.env["TERRANE_CLUSTER"]) as cluster:
        cluster.write("/a", data)
        box.down()
        with pytest.raises(OSError):
            cluster.stat("/", timeout=0.2)
        box.up()
        assert cluster.read("/a") == data

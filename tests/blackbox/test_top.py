# SPDX-License-Identifier: Apache-2.0
"""terrane top: what each traffic group uses of a cluster."""
import contextlib
import subprocess
import threading

import pytest

from box import TERRANE, Box, await_true, run

FIELDS = {"group", "iops", "bytes_per_s", "disks", "queries_per_s", "servers", "waiting", "throttled_per_s"}


@pytest.fixture(scope="module")
def box(tmp_path_factory):
    with Box(tmp_path_factory.mktemp("top") / "box", "--racks", 3, "--disks", 1, "--encoding", "r3") as box:
        box("tenant", "create", "vision")
        yield box


def group_of(told, name):
    return next((g for g in told["groups"] if g["group"] == name), None)


@contextlib.contextmanager
def repeated(box, *words):
    """Runs the command again and again: on a busy machine it may end before the first look, or fail at a deadline.
    Yields the outputs of the runs that have ended, to be shown when the test fails."""
    outputs = []
    stop = threading.Event()
    process = None
    lock = threading.Lock()

    def keep():
        nonlocal process
        while True:
            with lock:
                if stop.is_set():
                    return
                process = subprocess.Popen([TERRANE, *map(str, words)], env=box.env, stdin=subprocess.DEVNULL,
                                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            outputs.append(f"{process.communicate()[0]}\nstatus {process.returncode}")
            del outputs[:-3]

    thread = threading.Thread(target=keep)
    thread.start()
    try:
        yield outputs
    except AssertionError:
        print("the last runs of", *words, "printed:", *outputs, sep="\n")
        raise
    finally:
        with lock:
            stop.set()
            if process is not None:
                process.terminate()
        thread.join()


def test_it_shows_what_a_group_uses_and_who_waits(box):
    box("group", "add", "vision/slow", "--class", "bronze", "--iops", 200)
    most = {}

    def look():
        """Keeps the largest value of each column: the writer waits in one second and writes in another one."""
        told = box.json("top")
        assert told["silent_servers"] == 0
        for name, value in (group_of(told, "vision/slow") or {}).items():
            most[name] = value if name == "group" else max(value, most.get(name, 0))
        return all(most.get(name, 0) > 0 for name in ("iops", "bytes_per_s", "disks", "waiting", "throttled_per_s"))

    with repeated(box, "bench", "write", "/big", "--replace", "--size", "8GiB", "-t", "vision", "-g", "slow"):
        await_true("the group writes and waits", look)
    assert set(most) == FIELDS and most["disks"] <= 3.5
    box("group", "remove", "vision/slow")
    await_true("an idle group is not shown", lambda: group_of(box.json("top"), "vision/slow") is None)


def test_metadata_requests_count_for_their_group(box):
    with repeated(box, "bench", "files", "/many", "--replace", "--count", "20000", "--size", "1KiB", "-g", "etl"):
        await_true("the group asks the metadata",
                   lambda: (group_of(box.json("top"), "default/etl") or {"queries_per_s": 0})["queries_per_s"] > 0)
        await_true("the table shows the group", lambda: "default/etl" in box("top").stdout)


def test_all_servers_are_asked_and_wrong_arguments_are_refused(box):
    assert box.json("top")["servers"] == 4  # a metadata server and three nodes
    assert run("top", "extra").returncode == 2
    assert run("top", "--cluster", "/no/such/file").returncode == 1


def test_a_server_that_does_not_answer_is_reported(tmp_path):
    with Box(tmp_path / "box", "--procs", "--racks", 3, "--disks", 1, "--encoding", "r3") as box:
        name = next(name for name in box.pids() if name.startswith("node"))
        box.kill(name)
        told = box.json("top")
        assert told["servers"] == 4 and told["silent_servers"] == 1
        assert "1 of 4 servers did not answer" in box("top").stdout

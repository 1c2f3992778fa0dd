# SPDX-License-Identifier: Apache-2.0
"""terrane group: traffic groups, and how fast their clients are."""
import time

import pytest

from box import MIB, Box, await_true, run, write_tree

COPIES = 3
FILES = 5
FILE_BYTES = 8 * MIB


@pytest.fixture(scope="module")
def box(tmp_path_factory):
    with Box(tmp_path_factory.mktemp("group") / "box", "--racks", 3, "--disks", 1, "--encoding", f"r{COPIES}") as box:
        yield box


def seconds_to_put(box, tmp_path, name, *words):
    start = time.monotonic()
    box("put", "-q", *words, tmp_path / "f", f"/{name}")
    return time.monotonic() - start


def test_groups_are_added_changed_listed_and_removed(box):
    box("tenant", "create", "vision")
    box("group", "add", "vision/train", "--class", "gold", "--iops", 4000, "--queries", 2000)
    box("group", "add", "vision/etl", "--class", "bronze", "--iops", 100)
    box("group", "set", "vision/etl", "--queries", 50)
    box("group", "capacity", "--iops", 10000, "--queries", 5000)
    told = box.json("group", "list")
    assert told["capacity"] == {"iops": 10000, "queries": 5000}
    assert sorted(told["groups"], key=lambda g: g["group"]) == [
        {"tenant": "vision", "group": "etl", "class": "bronze", "iops": 100, "queries": 50},
        {"tenant": "vision", "group": "train", "class": "gold", "iops": 4000, "queries": 2000}]
    text = box("group", "list").stdout
    assert "4100" in text and "10000" in text  # the sum of the groups, the capacity
    assert "vision/etl exists" in box("group", "add", "vision/etl", "--class", "gold", ok=False).stderr
    for name in ("etl", "train"):
        box("group", "remove", f"vision/{name}")
    assert box.json("group", "list")["groups"] == []
    assert "no group vision/etl" in box("group", "set", "vision/etl", "--iops", 1, ok=False).stderr
    assert "no tenant speech" in box("group", "add", "speech/etl", "--class", "gold", ok=False).stderr
    box("group", "capacity", "--iops", 0, "--queries", 0)


def test_a_group_keeps_to_its_quota_and_others_do_not_wait(box, tmp_path):
    # A request starts when the bucket of its group has room, whatever its cost: the first file of a process is free.
    write_tree(tmp_path / "f", {str(i): FILE_BYTES for i in range(FILES + 1)})
    cost = FILES * COPIES * (1 + FILE_BYTES / MIB)
    puts = iter(range(1000))

    def seconds(*words):
        return seconds_to_put(box, tmp_path, f"put-{next(puts)}", *words)

    # Busy processors make puts slow, and never make a group that is kept to its quota fast. So the quota is of a rate that
    # needs several times what puts without a quota take on this machine now.
    free = min(seconds("-g", "slow") for _ in range(3))
    iops = max(1, int(cost / max(2.5, 5 * free)))
    expected = cost / iops
    box("group", "add", "default/slow", "--class", "bronze", "--iops", iops)
    await_true("the quota is kept", lambda: seconds("-g", "slow") > 0.8 * expected)
    await_true("a group that is not listed, without a capacity", lambda: seconds() < 0.8 * expected)
    box("group", "set", "default/slow", "--iops", 100 * iops)
    await_true("the quota is raised", lambda: seconds("-g", "slow") < 0.8 * expected)
    box("group", "remove", "default/slow")


@pytest.mark.parametrize("words, complaint", [
    ([], "needs list"), (["list", "x"], "needs list"), (["add"], "needs list"),
    (["add", "train", "--class", "gold"], "TENANT/GROUP"), (["add", "/train", "--class", "gold"], "TENANT/GROUP"),
    (["add", "vision/", "--class", "gold"], "TENANT/GROUP"), (["add", "v/" + "x" * 65, "--class", "gold"], "TENANT/GROUP"),
    (["add", "vision/train"], "--class"), (["add", "vision/train", "--class", "best"], "gold, silver or bronze"),
    (["set", "vision/train"], "needs --class"), (["set", "vision/train", "--iops", "-1"], "number"),
    (["set", "vision/train", "--iops", "1000000001"], "number"), (["set", "vision/train", "--queries", "9x"], "number"),
])
def test_wrong_words_are_refused_and_explained(words, complaint):
    done = run("group", *words)
    assert done.returncode == 2 and complaint in done.stderr, done.stderr

# SPDX-License-Identifier: Apache-2.0
"""terrane job: the registry of training jobs."""
import json

import pytest

from box import Box, await_true


@pytest.fixture(scope="module")
def box(tmp_path_factory):
    with Box(tmp_path_factory.mktemp("jobs") / "box", "--racks", 3, "--disks", 1, "--encoding", "r3") as box:
        (box.folder / "F").write_bytes(b"x" * 1000)
        box("mkdir", "-p", "/sets/birds")
        box("put", "-q", box.folder / "F", "/sets/birds/one")
        yield box


def refused(box, *words):
    done = box("job", *words, ok=False)
    assert done.returncode == 1, done.stderr
    return done.stderr


def test_a_job_is_added_reports_ends_and_is_removed(box):
    box("job", "add", 17, "/sets/birds", "/sets/birds/one", "--name", "resnet", "--order", "window", "--shuffle", "seeded",
        "--seed", 5, "--accelerators", 8, "--epochs", 90, "--lease", "1h", "--ranges", "0-0.25,0.5-1", "--columns", "jpg,cls")
    job = box.json("job", "show", 17)
    assert [part["path"] for part in job["parts"]] == ["/sets/birds", "/sets/birds/one"]
    assert [part["kind"] for part in job["parts"]] == ["directory", "file"]
    assert job["ranges"] == [[0, 0.25], [0.5, 1]] and job["columns"] == ["jpg", "cls"]
    assert (job["status"], job["order"], job["seed"], job["accelerators"]) == ("active", "window", 5, 8)
    assert 3_590_000 < job["left_ms"] <= 3_600_000
    for step in (1, 2):
        box("job", "progress", 17, "--epoch", 1, "--position", 40 * step, "--total", 100, "--steps", 10 * step,
            "--compute", f"{3 * step}s", "--wait", f"{step}s", "--bytes", "1MiB" if step == 1 else "3MiB",
            "--hit-bytes", "1MiB" if step == 1 else "2MiB", "--window", 2, "--windows", 10)
    job = box.json("job", "show", 17)
    assert job["progress"]["position"] == 80 and job["progress"]["steps"] == 20
    assert job["wait_share"] == 0.25 and job["hit_share"] == 0.5 and job["steps_s"] > 0
    top = box("job", "top").stdout
    assert "resnet" in top and "3/10" in top and "25.0%" in top
    box("job", "done", 17)
    assert "17" not in box("job", "top").stdout
    assert box.json("job", "list", "--active") == []
    assert [job["status"] for job in box.json("job", "list")] == ["done"]
    box("job", "rm", 17)
    assert box.json("job", "list") == []


def test_specs_that_cannot_be_are_refused_with_the_reason(box):
    assert "does not exist" in refused(box, "add", 1, "/sets/none")
    assert "does not exist" in refused(box, "add", 1, "/sets/birds", "/nothing")
    assert "lease" in refused(box, "add", 1, "/sets/birds", "--lease", "1ms")
    assert "ranges" in refused(box, "add", 1, "/sets/birds", "--ranges", "0.5-0.6,0.1-0.2")
    assert "no job 1" in refused(box, "progress", 1)
    assert "no job 1" in refused(box, "show", 1)
    for words in (["add"], ["add", "0", "/sets/birds"], ["add", "x", "/sets/birds"], ["add", "1"], ["show"], ["list", "1"],
                  ["add", "1", "/sets/birds", "--order", "best"], ["add", "1", "/sets/birds", "--ranges", "1-0"],
                  ["progress", "1", "--steps", "-1"], ["what"], []):
        done = box("job", *words, ok=False)
        assert done.returncode == 2 and done.stderr, words
    assert box.json("job", "list") == []


def test_an_id_is_one_job_and_reports_that_lie_change_nothing(box):
    box("job", "add", 3, "/sets/birds", "--epochs", 2)
    box("job", "add", 3, "/sets/birds", "--epochs", 2)  # the same job: renews its lease
    assert "another spec" in refused(box, "add", 3, "/sets/birds", "--epochs", 5)
    box("job", "progress", 3, "--position", 5, "--total", 10, "--sequence", 100)
    assert "behind the end" in refused(box, "progress", 3, "--position", 11, "--total", 10)
    assert "no such part" in refused(box, "progress", 3, "--part", 4, "--total", 10)
    box("job", "progress", 3, "--position", 2, "--total", 10, "--sequence", 99)  # overtaken
    assert box.json("job", "show", 3)["progress"]["position"] == 5
    box("tenant", "create", "speech")
    assert box.json("job", "list", "-t", "speech") == []
    assert "does not exist" in refused(box, "add", 3, "/sets/birds", "-t", "speech")
    box("job", "rm", 3, "-t", "speech")
    assert box.json("job", "show", 3)["status"] == "active"
    box("job", "rm", 3)


def test_a_job_whose_lease_ends_stops_counting_and_may_come_back(box):
    box("job", "add", 4, "/sets/birds", "--lease", "2s")
    await_true("the lease ends", lambda: box.json("job", "list", "--active") == [])
    assert box.json("job", "show", 4)["status"] == "lease ended"
    box("job", "progress", 4, "--position", 1, "--total", 2)
    assert box.json("job", "show", 4)["progress"]["position"] == 1
    box("job", "rm", 4)


def test_jobs_survive_kill_9_of_the_cluster(box):
    box("job", "add", 5, "/sets/birds", "--lease", "1h", "--name", "kept")
    box("job", "progress", 5, "--steps", 7, "--total", 1)
    for name in box.pids():
        box.kill(name)
    box.up()
    job = box.json("job", "show", 5)
    assert job["name"] == "kept" and job["progress"]["steps"] == 7 and job["status"] == "active"
    assert json.loads(box("job", "list", "--json").stdout)[0]["id"] == 5
    box("job", "rm", 5)

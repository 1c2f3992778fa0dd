# SPDX-License-Identifier: Apache-2.0
"""terrane train --clock virtual: jobs and cluster in the simulator."""
import json

import pytest
from box import run

JOB = {"data.path": "/sets/in", "data.samples": 128, "data.sample": "64KiB", "model.step": "10ms", "model.batch": 16,
       "device.copies": "none"}
SHAPE = {"virtual.racks": 3, "virtual.encoding": "rs:2+1", "virtual.block": "1MiB", "virtual.drive": "hdd"}


def train(values, *words):
    sets = [w for key, value in values.items() for w in ("--set", f"{key}={value}")]
    return run("train", "--clock", "virtual", *words, *sets)


def trained(values, *words):
    done = train(values, *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_same_seed_gives_the_same_times():
    first, again, other = (trained({**JOB, **SHAPE, "train.seed": seed}) for seed in (3, 3, 4))
    assert first["virtual"] == again["virtual"] and first["jobs"] == again["jobs"]
    assert first["virtual"]["run"] != other["virtual"]["run"]
    job, = first["jobs"]
    assert job["all"]["read_bytes"] == 128 * 64 * 1024 and job["late_p99_us"] < 10


def test_a_sweep_over_the_cluster_shows_what_limits_the_training():
    runs = trained({**JOB, **SHAPE, "virtual.drive": "nvme"}, "--sweep", "virtual.rack_rate=0,4MiB,2MiB")["runs"]
    free, wide, narrow = (r["jobs"][0]["all"]["utilization"] for r in runs)
    assert free > 0.8 and wide > 1.6 * narrow
    # 1 MiB in 10 ms is what the device takes.
    assert wide == pytest.approx(3 * 4 / 100, rel=0.4)


def test_a_job_file_describes_its_cluster_too(tmp_path):
    job = tmp_path / "job.ini"
    lines = ["[data]", "path = /in", "samples = 64", "sample = 64KiB", "[model]", "step = 10ms", "batch = 16",
             "[device]", "copies = none", "[virtual]", "racks = 1", "encoding = r1", "drive = constant", "drive_rate = 1MiB"]
    job.write_text("\n".join(lines))
    slow, fast = trained({}, job), trained({"virtual.drive_rate": "100MiB"}, job)
    assert slow["jobs"][0]["all"]["read_s"] > 10 * fast["jobs"][0]["all"]["read_s"]
    job.write_text("\n".join([*lines, "colour = red"]))
    done = train({}, job)
    assert done.returncode == 1 and "colour" in done.stderr and ":15:" in done.stderr
    job.write_text("\n".join(lines))
    done = run("train", job)
    assert done.returncode == 1 and "[virtual]" in done.stderr


def test_drives_that_fail_are_rebuilt_while_the_training_goes_on():
    values = {**JOB, "virtual.racks": 3, "virtual.encoding": "mlec:2+1/3+1", "virtual.block": "1MiB",
              "virtual.piece": "16KiB", "virtual.drive": "constant", "virtual.drive_rate": "40MiB",
              "virtual.rack_rate": "20MiB", "virtual.fail_members": 2, "virtual.fail_at": "1s", "train.epochs": 60,
              "virtual.timeline": "1s"}
    virtual = trained(values)["virtual"]
    assert 1 <= virtual["failed_s"] < virtual["recoverable_s"] <= virtual["whole_s"] < virtual["simulated_s"]
    assert virtual["timeline_s"] == 1 and 0 < sum(*virtual["timelines"]) <= 60 * 128
    assert "drives failed after 1" in train(values).stdout


def test_keys_of_the_cluster_are_documented():
    done = run("train", "--clock", "virtual", "--keys")
    assert done.returncode == 0 and "[virtual]" in done.stdout and "rack_rate" in done.stdout
    assert "[loader]" in run("train", "--keys").stdout


@pytest.mark.parametrize("values, text", [
    ({"virtual.racks": 2}, "needs 3 disks; there are 2"),
    ({"virtual.drive": "constant"}, "needs drive_rate"),
    ({"virtual.drive": "tape"}, "tape"),
    ({"data.from": "folder"}, "cannot read a folder"),
    ({"data.samples": 0}, "set data.samples"),
    ({"data.samples": 60000000}, "keeps in memory"),
    ({"data.path": "in"}, "begins with /"),
    ({"device.lock": "true", "device.copies": "pinned"}, "device.lock"),
])
def test_what_cannot_be_simulated_is_refused(values, text):
    done = train({**JOB, **SHAPE, **values})
    assert done.returncode == 1 and text in done.stderr and done.stdout == ""


def test_an_unknown_clock_is_refused():
    done = run("train", "--clock", "sun", "--set", "model.step=1ms")
    assert done.returncode == 2 and "neither real nor virtual" in done.stderr

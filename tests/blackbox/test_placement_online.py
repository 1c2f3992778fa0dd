# SPDX-License-Identifier: Apache-2.0
"""Placement on a live cluster with flash: from files with features to a trace, a model, and what it decides."""
import csv
import io
import json
import os
import subprocess

import pytest

from box import TERRANE, Box, await_true

FEATURES = ["--feature", "n_workers=16", "--feature", "s_pipeline=daily-join"]


@pytest.fixture(name="box")
def make_box(tmp_path):
    with Box(tmp_path / "box", "--racks", 4, "--disks", 3, "--flash", 1, "--encoding", "r3") as box:
        yield box


def media(box, *paths):
    return [json.loads(box("stat", "--json", path).stdout)["media"] for path in paths]


def status(box):
    return json.loads(box("placement", "status", "--json").stdout)


def train(tmp_path):
    """A model of a generated workload: what it says of files here does not matter."""
    trace, model = tmp_path / "generated.csv", tmp_path / "model"
    with trace.open("w") as out:
        subprocess.run([TERRANE, "placement", "generate", "--cluster", "1001", "--jobs", "800"], stdout=out, check=True)
    subprocess.run([TERRANE, "placement", "train", trace, "-o", model, "--rounds", "10"], check=True,
                   capture_output=True)
    return model


def test_a_model_decides_on_the_media_and_what_files_did_becomes_a_trace(box, tmp_path):
    model = train(tmp_path)
    local = tmp_path / "f"
    local.write_bytes(os.urandom(300000))
    await_true("that the metadata server knows the flash", lambda: status(box)["capacity_bytes"] > 0)
    box("put", "-q", "--model", model, *FEATURES, "--job-id", 42, local, "/a")
    box("put", "-q", *FEATURES, "--job-id", 42, local, "/b")
    box("put", "-q", local, "/plain")
    assert media(box, "/b", "/plain") == ["disk", "disk"]
    box("get", "-q", "/a", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == local.read_bytes()
    rows = {r["category"]: r for r in status(box)["classes"]}
    assert rows[None]["disk_bytes"] == 300000  # /b: features, and no category
    category, = set(rows) - {None}
    assert rows[category]["flash_bytes"] + rows[category]["disk_bytes"] == 300000
    assert media(box, "/a") == ["flash" if rows[category]["flash_bytes"] else "disk"]
    for name in ("/a", "/b", "/plain"):
        box("rm", name)
    assert status(box)["outcomes"] == 2
    job, = csv.DictReader(io.StringIO(box("placement", "trace").stdout))
    assert job["job"] == "j42" and int(job["size_bytes"]) == 600000
    assert int(job["bytes_read"]) == 300000 and int(job["reads"]) >= 1
    assert (job["n_workers"], job["s_pipeline"]) == ("16", "daily-join")
    assert float(job["end_s"]) > float(job["start_s"])
    assert box("placement", "trace", "--tenant", "nobody").stdout.count("\n") == 1
    ended = {r["category"]: r["files_ended"] for r in status(box)["classes"]}
    assert ended == {None: 1, category: 1}
    assert "threshold" in box("placement", "status").stdout


def test_bad_models_and_features_are_refused(box, tmp_path):
    local = tmp_path / "f"
    local.write_bytes(b"x")
    (tmp_path / "model").write_bytes(b"not a model")
    for args, complaint in [(["--model", tmp_path / "model"], "cannot open the model"),
                            (["--feature", "workers"], "must be a feature"),
                            (["--feature", "n_workers=many"], "must be a feature"),
                            (["--feature", "s_user=a,b"], "the features are invalid")]:
        done = box("put", "-q", *args, local, "/x", ok=False)
        assert done.returncode != 0 and complaint in done.stderr
    assert box("stat", "/x", ok=False).returncode == 1

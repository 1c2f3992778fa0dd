# SPDX-License-Identifier: Apache-2.0
"""terrane.PlacementModel: the category of new files by a model that `terrane placement train` made."""
import csv
import io
import math
import subprocess
from pathlib import Path

import pytest

import terrane

TERRANE = Path(__file__).resolve().parents[2] / "build" / "terrane"


def placement(*args):
    return subprocess.run([TERRANE, "placement", *args], capture_output=True, text=True, timeout=300, check=True).stdout


@pytest.fixture(scope="module", name="trained")
def make_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    text = placement("generate", "--cluster", "1001", "--jobs", "800")
    (folder / "trace.csv").write_text(text)
    placement("train", str(folder / "trace.csv"), "-o", str(folder / "model"), "--rounds", "10")
    return folder / "model", list(csv.DictReader(io.StringIO(text)))


def features(row):
    out = {k: float(v) for k, v in row.items() if k.startswith("n_") and v}
    return out | {k: v for k, v in row.items() if k.startswith("s_")}


def outcome(row):
    return (float(row["start_s"]), float(row["end_s"]),
            *(int(row[k]) for k in ("size_bytes", "bytes_read", "reads", "bytes_written", "writes")))


def test_categories_follow_features_and_outcomes(trained):
    model = terrane.PlacementModel(trained[0])
    categories = [model.category(features(row), float(row["start_s"])) for row in trained[1][:300]]
    assert min(categories) >= 0 and max(categories) < 15 and len(set(categories)) > 3
    row = trained[1][0]
    before = model.category(features(row), 1e6)
    bad = (0.0, 1e6, 10**15, 0, 0, 10**15, 1)  # large, long-lived, never read
    for _ in range(30):
        model.ended(features(row), *bad)
    assert model.category(features(row), 1e6) <= before
    other = terrane.PlacementModel(str(trained[0]))
    assert other.category(features(row), 1e6) == before  # each handle has its own history


def test_missing_and_absurd_features_give_a_category(trained):
    model = terrane.PlacementModel(trained[0])
    for f in ({}, {"n_workers": math.nan}, {"n_workers": math.inf, "s_user": "x" * 100000}, {"s_user": None},
              {"unknown": 3}):
        assert 0 <= model.category(f) < 15


def test_bad_arguments_are_refused(trained, tmp_path):
    model = terrane.PlacementModel(trained[0])
    with pytest.raises(TypeError):
        model.category({"n_workers": []})
    with pytest.raises(ValueError):
        model.category({f"n_{i}": 1 for i in range(97)})
    with pytest.raises(ValueError):
        model.ended({}, 2.0, 1.0, 1, 0, 0, 0, 0)
    with pytest.raises(FileNotFoundError):
        terrane.PlacementModel(tmp_path / "none")
    (tmp_path / "bad").write_bytes(b"not a model at all")
    with pytest.raises(OSError, match="not a model"):
        terrane.PlacementModel(tmp_path / "bad")


def test_a_replaced_file_is_taken_and_a_damaged_one_is_not(trained, tmp_path):
    path = tmp_path / "model"
    path.write_bytes(trained[0].read_bytes())
    model = terrane.PlacementModel(path)
    assert not model.reload()
    (tmp_path / "new").write_bytes(trained[0].read_bytes())
    (tmp_path / "new").rename(path)
    assert model.reload()
    (tmp_path / "new").write_bytes(trained[0].read_bytes()[:-1])
    (tmp_path / "new").rename(path)
    with pytest.raises(OSError):
        model.reload()
    assert 0 <= model.category({}) < 15


def test_files_take_a_model_and_features(trained, cluster, folder, box):
    model, given = terrane.PlacementModel(trained[0]), features(trained[1][0])
    with cluster.open(f"{folder}/a", "wb", placement_model=model, features=given, job_id=2**64 - 3) as file:
        file.write(b"x" * 1000)
    with cluster.open(f"{folder}/a", "rb") as file:
        assert len(file.read()) == 1000
    cluster.remove(f"{folder}/a")
    job, = (r for r in csv.DictReader(io.StringIO(box("placement", "trace").stdout)) if r["job"] == f"j{2**64 - 3}")
    # a report of reads whose answer is lost is sent again, and counts again
    assert int(job["bytes_read"]) in (1000, 2000, 3000) and job["s_pipeline"] == given["s_pipeline"]
    for options in ({"placement_model": 7}, {"features": [1]}, {"features": {"n_workers": []}}):
        with pytest.raises(TypeError):
            cluster.open(f"{folder}/b", "wb", **options)
    for given in ({"workers": 1}, {"s_user": "a,b"}):
        with pytest.raises(OSError, match="the features are invalid"):
            cluster.open(f"{folder}/b", "wb", features=given)

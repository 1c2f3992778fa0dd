# SPDX-License-Identifier: Apache-2.0
"""`terrane prep plan` as an operator and a program use it."""
import csv
import io
import json
import random
import subprocess
from pathlib import Path

import pytest

TERRANE = Path(__file__).resolve().parents[2] / "build" / "terrane"
POLICIES = ["no-off", "all-off", "resize-off", "fastflow", "sophon", "terrane"]
SETUP = {"--bandwidth": "500Mbit", "--client-cores": "48", "--storage-cores": "4", "--accelerator-ms": "0.4"}


def prep(*args, text=None):
    return subprocess.run([TERRANE, "prep", *args], input=text, capture_output=True, text=True, timeout=120, check=False)


def plan(rows, *args, head="raw_bytes,width,height", **setup):
    options = {**SETUP, **{f"--{k.replace('_', '-')}": str(v) for k, v in setup.items()}}
    words = [word for pair in options.items() for word in pair]
    return prep("plan", "--samples", "-", *words, *args, text="\n".join([head, *rows]) + "\n")


def results(*args, **setup):
    done = plan(*args, "--json", **setup)
    assert done.returncode == 0, done.stderr
    return {r["policy"]: r for r in json.loads(done.stdout)}


@pytest.fixture(scope="module", name="photos")
def make_photos():
    """Sizes as in OpenImages."""
    rng = random.Random(5)
    return [f"{int(1000 * rng.lognormvariate(5.5, 0.65))},1024,{rng.choice((768, 683))}" for _ in range(2000)]


def test_json_and_csv_have_a_row_for_each_policy(photos):
    objects = json.loads(plan(photos, "--json").stdout)
    rows = list(csv.DictReader(io.StringIO(plan(photos, "--csv").stdout)))
    assert [r["policy"] for r in objects] == [r["policy"] for r in rows] == POLICIES
    for one, other in zip(objects, rows):
        assert list(one) == ["policy", "bytes", "traffic_ratio", "epoch_s", "offloaded", "node_cpu_s"]
        assert all(float(other[k]) == one[k] for k in one if k != "policy")


def test_no_off_is_what_the_files_are(photos):
    raw = sum(int(row.split(",")[0]) for row in photos)
    none = results(photos)["no-off"]
    assert none["bytes"] == raw and none["traffic_ratio"] == 1
    assert none["offloaded"] == none["node_cpu_s"] == 0
    assert none["epoch_s"] == pytest.approx(raw / 62.5e6)


def test_cuts_save_more_than_other_policies(photos):
    by = results(photos, storage_cores=100)
    assert by["all-off"]["bytes"] == 2000 * 602112 and by["resize-off"]["bytes"] == 2000 * 150528
    assert by["terrane"]["traffic_ratio"] < 0.8 * by["sophon"]["traffic_ratio"]
    assert by["sophon"]["traffic_ratio"] < by["resize-off"]["traffic_ratio"] < 1 < by["all-off"]["traffic_ratio"]


@pytest.mark.parametrize("nodes", [1, 7])
@pytest.mark.parametrize("bandwidth", ["100Mbit", "500Mbit", "4Gbit/s", "100Gbit"])
@pytest.mark.parametrize("cores", [0, 0.5, 3])
def test_is_never_slower_than_no_off(photos, nodes, bandwidth, cores):
    by = results(photos, nodes=nodes, bandwidth=bandwidth, storage_cores=cores)
    assert by["terrane"]["epoch_s"] <= 1.01 * by["no-off"]["epoch_s"]
    if cores == 0 or bandwidth == "100Gbit":
        assert by["terrane"]["offloaded"] == 0  # no core, or the network is not the slowest part


def test_measured_columns_are_used_and_may_be_blank():
    head = "width,raw_bytes,decode_ms,height,cut_bytes"
    by = results(["1024,300000,,768,50000", "1024,300000,4,768,"], head=head, storage_cores=100, bandwidth="1Mbit")
    assert 50000 < by["terrane"]["bytes"] <= 50000 + 150528


@pytest.mark.parametrize("head, row, complaint", [
    ("raw_bytes,width", "1,2", "height"),
    ("raw_bytes,width,height", "1,2", ":2:"),
    ("raw_bytes,width,height", "0,2,2", "raw_bytes"),
    ("raw_bytes,width,height", "5,0,2", "width"),
    ("raw_bytes,width,height", "5,2.5,2", "width must be a whole number"),
    ("raw_bytes,width,height", "5,2,70000", "height"),
    ("raw_bytes,width,height", "nan,2,2", "raw_bytes"),
    ("raw_bytes,width,height,decode_ms", "5,2,2,-1", "decode_ms"),
    ("raw_bytes,width,height", "", "has no samples"),
    ("", "", ""),
])
def test_bad_rows_are_refused_by_line_and_column(head, row, complaint):
    done = plan([row], head=head)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("terrane prep plan: -") and complaint in done.stderr


@pytest.mark.parametrize("args, complaint", [
    ([], "are required"),
    (["--bandwidth", "500"], "must be a rate such as 500Mbit"),
    (["--bandwidth", "-1Mbit"], "must be a rate"),
    (["--bandwidth", "nanMbit"], "must be a rate"),
    (["--client-cores", "0"], "must be a number from"),
    (["--nodes", "0"], "must be a whole number from 1"),
    (["--json", "--csv", "--samples", "-", *[w for p in SETUP.items() for w in p]], "give only one"),
    (["word"], "is not an option"),
])
def test_wrong_usage_is_refused(args, complaint):
    done = prep("plan", *args)
    assert done.returncode == 2 and complaint in done.stderr


def test_a_file_that_is_missing_is_named():
    done = prep("plan", "--samples", "missing.csv", *[w for p in SETUP.items() for w in p])
    assert done.returncode == 1 and "missing.csv: does not exist" in done.stderr


def test_help_names_the_commands():
    assert "measure" in prep("--help").stdout and "plan" in prep("--help").stdout
    assert prep("nonsense").returncode == 2

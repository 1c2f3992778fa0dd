# SPDX-License-Identifier: Apache-2.0
"""`terrane cachesim` as an operator and a program use it."""
import csv
import io
import json
import subprocess
from pathlib import Path

import pytest

TERRANE = Path(__file__).resolve().parents[2] / "build" / "terrane"
POLICIES = ["lru", "fifo", "s3fifo", "sieve", "wtinylfu", "admit-all", "reject-first", "dynamic", "expert", "historic",
            "future", "hybrid", "terrane", "clairvoyant"]


def cachesim(*args, stdin=None):
    return subprocess.run([TERRANE, "cachesim", *args], capture_output=True, text=True, timeout=300, check=False,
                          input=stdin)


def workload(**fields):
    """Two jobs that scan two partitions of 2 GB one after the other, with flash for a quarter of that."""
    jobs = [{"id": f"j{i}", "partitions": ["t/p", "t/q"], "start_s": 8 * i, "reader_bytes_s": 5e7,
             "request_bytes": 1048576} for i in range(2)]
    return {"partition_bytes": 2e9, "segment_bytes": 262144, "file_bytes": 104857600, "flash_bytes": 1e9,
            "block_bytes": 4194304, "dram_bytes": 64e6, "nodes": 2, "history_bytes": 65536, "min_threshold": 1.05, "jobs": jobs, **fields}


@pytest.fixture(scope="module", name="path")
def make_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("workload") / "jobs.json"
    path.write_text(json.dumps(workload()))
    return path


@pytest.fixture(scope="module", name="rows")
def make_rows(path):
    """{policy: its object}"""
    done = cachesim("--workload", path, "--json")
    assert done.returncode == 0, done.stderr
    objects = json.loads(done.stdout)
    assert [o["policy"] for o in objects] == POLICIES
    return {o["policy"]: o for o in objects}


def test_all_policies_see_the_same_requests_and_none_is_above_the_bound(rows):
    assert {r["requested_bytes"] for r in rows.values()} == {8_000_000_000}
    for r in rows.values():
        assert r["absorbed_bytes"] == r["served_bytes"] - r["fetched_bytes"]
        assert abs(r["disk_read_bytes"] + r["absorbed_bytes"] - r["requested_bytes"]) < 10
        assert 0 <= r["hit_bytes"] <= r["served_bytes"] <= r["requested_bytes"]
        assert r["absorbed_bytes"] <= rows["clairvoyant"]["absorbed_bytes"] * 1.001


SERVERS = {"storage_bytes": 1e17, "read_bytes_s": 1e13, "hdd": {"watts": 500, "bytes": 4e14, "bytes_s": 4e9},
           "flash": {"watts": 500, "bytes": 4e13, "bytes_s": 2.2e10}}


def test_power_that_is_saved_follows_from_what_is_absorbed(path, tmp_path):
    servers = tmp_path / "servers.json"
    servers.write_text(json.dumps(SERVERS))
    words = ["--workload", path, "--policy", "lru,clairvoyant", "--power", servers]
    for r in json.loads(cachesim(*words, "--json").stdout):
        # disks alone: 2500 servers for the reads; the flash tier: 0.9 of the 454.5 that could serve them all
        tier = 1e13 / 2.2e10 * 0.9
        disks = max(250, 2500 * (1 - r["absorbed_share"]))
        assert abs(r["power_saved"] - (1 - (disks + tier) / 2500)) < 1e-6
        assert abs(r["power_neutral_share"] - tier / 2500) < 1e-6
    text = cachesim(*words).stdout
    assert "disks 10.00, flash 10.00, composite 2.64; neutral when 0.164 of the reads are absorbed" in text
    assert "clairvoyant" in text.splitlines()[-1] and "% of the power of disks alone" in text
    servers.write_text(json.dumps({**SERVERS, "hdd": {"watts": 500}}))
    done = cachesim(*words)
    assert done.returncode == 1 and "hdd.bytes: must be a number above 0" in done.stderr
    assert cachesim(*words[:-1], tmp_path / "none").returncode == 1


def test_knowing_the_order_of_scans_comes_close_to_the_bound(rows):
    best = rows["clairvoyant"]["absorbed_bytes"]
    assert best > 0.2 * rows["lru"]["requested_bytes"] and best > 2 * rows["lru"]["absorbed_bytes"]
    assert rows["terrane"]["absorbed_bytes"] >= 0.8 * best


def test_csv_has_the_same_numbers_and_the_result_does_not_depend_on_threads(path, rows):
    args = ["--workload", path, "--policy", "lru,terrane,clairvoyant", "--csv"]
    done = [cachesim(*args, "--threads", n).stdout for n in ("1", "3")]
    assert done[0] == done[1]
    for row in csv.DictReader(io.StringIO(done[0])):
        assert float(row["absorbed_bytes"]) == rows[row["policy"]]["absorbed_bytes"]
        assert float(row["flash_written_bytes"]) == rows[row["policy"]]["flash_written_bytes"]


def test_a_seed_repeats_a_run_and_another_one_changes_paces(path):
    args = ["--workload", path, "--policy", "lru", "--json"]
    first, again, other = (json.loads(cachesim(*args, "--seed", s).stdout) for s in ("7", "7", "8"))
    assert first == again and first[0]["virtual_s"] != other[0]["virtual_s"]


def test_the_table_and_the_plot_name_every_policy(path, tmp_path):
    plot = tmp_path / "plot.svg"
    done = cachesim("--workload", path, "--policy", "fifo,terrane", "--plot", plot)
    assert done.returncode == 0 and not done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("policy") and [line.split()[0] for line in lines[1:]] == ["fifo", "terrane"]
    text = plot.read_text()
    assert text.startswith("<svg") and "fifo" in text and "terrane" in text


def test_a_workload_may_come_from_standard_input(path, rows):
    done = cachesim("--workload", "-", "--policy", "lru", "--json", stdin=path.read_text())
    assert json.loads(done.stdout)[0]["absorbed_bytes"] == rows["lru"]["absorbed_bytes"]


def test_one_node_stands_for_all(path, rows):
    one, = json.loads(cachesim("--workload", path, "--policy", "terrane", "--nodes", "1", "--json").stdout)
    assert one["nodes_simulated"] == 1 and one["requested_bytes"] == rows["terrane"]["requested_bytes"]
    assert abs(one["absorbed_bytes"] / rows["terrane"]["absorbed_bytes"] - 1) < 0.1


@pytest.mark.parametrize("args, complaint", [
    (["--policy", "nonsense"], '--policy: no policy has the name "nonsense"'),
    (["--policy", ""], "no policy has the name"),
    (["--nodes", "-1"], "--nodes -1: must be a whole number"),
    (["--threads", "x"], "--threads x: must be a whole number"),
    (["--json", "--csv"], "give only one of them"),
    (["more"], "'more' is not an option"),
    (["--no-such"], "--no-such"),
])
def test_wrong_usage_exits_with_2_and_names_the_word(path, args, complaint):
    done = cachesim("--workload", path, *args)
    assert done.returncode == 2
    assert complaint in done.stderr and not done.stdout


def test_a_workload_is_required():
    done = cachesim("--policy", "lru")
    assert done.returncode == 2 and "--workload FILE: must be given" in done.stderr


@pytest.mark.parametrize("text, complaint", [
    ("", "line "),
    ("[1]", "must hold a JSON object"),
    ('{"jobs": [{"id": "a", "partitions": ["p"], "after": ["a"]}]}', "jobs wait for each other"),
    (json.dumps(workload(segments=1)), "segments: no such field"),
    (json.dumps(workload(nodes=940)), "flash_bytes: each node needs at least"),
    (json.dumps(workload(dram_bytes=300000)), "dram_bytes: index and history window of a node take"),
])
def test_a_bad_workload_is_refused_with_file_and_rule(tmp_path, text, complaint):
    bad = tmp_path / "bad.json"
    bad.write_text(text)
    done = cachesim("--workload", bad)
    assert done.returncode == 1
    assert f"{bad}: " in done.stderr and complaint in done.stderr and not done.stdout


def test_a_missing_file_is_named(tmp_path):
    done = cachesim("--workload", tmp_path / "none.json")
    assert done.returncode == 1 and "none.json: does not exist" in done.stderr


def test_help_lists_every_policy():
    done = cachesim("--help")
    assert done.returncode == 0
    assert all(f"  {name}" in done.stdout for name in POLICIES)

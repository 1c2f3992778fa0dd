# SPDX-License-Identifier: Apache-2.0
"""`terrane code explain` as a person and a program use it."""
import json
import subprocess
from pathlib import Path

import pytest

BUILD = Path(__file__).resolve().parents[2] / "build"
TERRANE = next((p for p in (BUILD / "terrane", BUILD / "release" / "src" / "cli" / "terrane")
                if p.exists()), BUILD / "terrane")


def explain(*args):
    return subprocess.run([TERRANE, "code", "explain", *args], capture_output=True, text=True,
                          timeout=120, check=False)


def explain_json(*args):
    done = explain(*args, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.mark.parametrize("scheme", ["c/c", "c/d", "c/s", "d/c", "d/d", "d/s"])
def test_every_mlec_scheme_is_explained(scheme):
    answer = explain_json("mlec:10+2/17+3", "--scheme", scheme)
    assert answer["scheme"] == scheme
    assert answer["overhead"]["chunks"] == 240 and answer["overhead"]["data_chunks"] == 170
    assert answer["tolerance"] == {"any_disks": 11, "any_racks": 2}
    chunks = answer["stripe"]
    assert len(chunks) == 240
    columns = {}
    for chunk in chunks:
        columns.setdefault(chunk["column"], []).append(chunk)
    racks = {c[0]["rack"] for c in columns.values()}
    assert len(racks) == 12
    for column in columns.values():
        assert len({(c["rack"], c["enclosure"]) for c in column}) == 1
        assert len({c["disk"] for c in column}) == 20
    crossing = [m["cross_rack_bytes"] for m in answer["pool_repair"]["methods"]]
    assert crossing == sorted(crossing, reverse=True)
    assert crossing[3] * 4 <= crossing[2] * 1.0001


def test_traffic_is_given_for_the_cases_in_which_a_pool_breaks():
    pools = {s: explain_json("mlec:10+2/17+3", "--scheme", s)["pool_repair"]
             for s in ("c/c", "c/d", "c/s")}
    assert pools["c/c"]["catastrophic_probability"] == pools["c/d"]["catastrophic_probability"] == 1
    assert pools["c/s"]["catastrophic_probability"] == pytest.approx(0.07, abs=0.003)
    hyb = {s: p["methods"][2]["cross_rack_bytes"] for s, p in pools.items()}
    # One stripe set of 120, or hardly more, while the mean over all cases is that of c/d.
    assert hyb["c/s"] == pytest.approx(40e12, rel=0.03)
    assert hyb["c/s"] * pools["c/s"]["catastrophic_probability"] == pytest.approx(hyb["c/d"], rel=0.01)


@pytest.mark.parametrize("encoding, racks, reads", [("r3", 2, 1), ("rs:9+6", 6, 9),
                                                    ("lrc:12+2+2", 3, 6.75)])
def test_codes_with_one_level_are_explained_without_a_scheme(encoding, racks, reads):
    answer = explain_json(encoding)
    assert answer["tolerance"]["any_racks"] == racks
    assert answer["disk_repair"]["reads_per_chunk"] == pytest.approx(reads)
    assert answer["pool_repair"] is None
    assert len({c["rack"] for c in answer["stripe"]}) == len(answer["stripe"])


def test_what_is_not_given_for_an_lrc_has_a_reason():
    repair = explain_json("lrc:12+2+2")["disk_repair"]
    assert repair["bytes_per_s"] is None and repair["seconds"] is None
    assert "which chunks" in repair["reason"]
    assert "speed unknown: it depends on which chunks" in explain("lrc:12+2+2").stdout
    assert explain_json("rs:9+6")["disk_repair"]["reason"] is None


def test_a_person_sees_overhead_tolerance_stripe_and_repair():
    done = explain("mlec:10+2/17+3", "--scheme", "c/d")
    assert done.returncode == 0
    for word in ("Overhead", "Tolerance", "Stripe 0", "Repair of one disk", "R_MIN", "264.4 MB/s"):
        assert word in done.stdout
    assert all(len(line) <= 120 for line in done.stdout.splitlines())


def test_a_single_copy_has_no_repair():
    answer = explain_json("r1", "--scheme", "-/d")
    assert answer["scheme"] == "-/d"
    repair = answer["disk_repair"]
    assert repair["reads_per_chunk"] is None and repair["cross_rack_bytes"] is None
    assert "no other replica" in repair["reason"]
    text = explain("r1").stdout
    assert "scheme d/-" in text and "1 chunk in a stripe" in text and "no other replica" in text
    assert "cross racks" not in text


@pytest.mark.parametrize("scheme", ["c/c", "c/d", "c/s", "d/c", "d/d", "d/s"])
def test_the_smallest_system_has_finite_times(scheme):
    args = ("mlec:1+1/1+1", "--scheme", scheme, "--racks", "2", "--enclosures", "1", "--disks", "2")
    for method in explain_json(*args)["pool_repair"]["methods"]:
        assert method["network_bytes_per_s"] == pytest.approx(80e6)
        assert method["network_seconds"] > 0
    text = explain(*args).stdout
    assert "inf" not in text and "a local stripe with 1 lost chunk is" in text
    assert "2 racks x 1 enclosure x 2 disks" in text
    assert "any 1 rack\n" in text


@pytest.mark.parametrize("args, word", [
    ((), "needs one encoding"),
    (("rs:9+6", "rs:4+2"), "needs one encoding"),
    (("rs:9",), "rs:K+P"),
    (("rs:9+0+1",), "rs:9+0+1"),
    (("rs:9+6", "--scheme", "d/d"), "one level"),
    (("rs:9+6", "--scheme", "x"), "two of c, d, s and -"),
    (("mlec:2+1/2+1", "--scheme", "c/c", "--racks", "4"), "multiple of 3 racks"),
    (("rs:9+6", "--racks", "10"), "at least 15 racks"),
    (("rs:9+6", "--racks", "0"), "--racks 0"),
    (("rs:9+6", "--disks", "many"), "--disks many"),
    (("rs:9+6", "--chunk-size", "12kb"), "--chunk-size 12kb"),
    (("rs:9+6", "--disk-size", "1K", "--chunk-size", "1M"),
     "--disk-size 1024 is less than --chunk-size 1048576"),
    (("rs:9+6", "--bogus"), "--bogus"),
])
def test_mistakes_are_named_and_exit_with_2(args, word):
    done = explain(*args)
    assert done.returncode == 2
    assert done.stdout == ""
    assert word in done.stderr


def test_help_goes_to_stdout_and_errors_do_not():
    for args in (["code", "--help"], ["code", "help"], ["code", "explain", "--help"], ["--help"]):
        done = subprocess.run([TERRANE, *args], capture_output=True, text=True, check=False)
        assert done.returncode == 0 and done.stdout and not done.stderr
    for args in ([], ["code"], ["code", "bogus"], ["bogus"]):
        done = subprocess.run([TERRANE, *args], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and done.stderr and not done.stdout


def test_an_answer_that_cannot_be_written_is_an_error():
    with open("/dev/full", "w", encoding="utf-8") as full:
        for more in ([], ["--json"]):
            done = subprocess.run([TERRANE, "code", "explain", "rs:9+6", *more], stdout=full,
                                  stderr=subprocess.PIPE, text=True, check=False)
            assert done.returncode == 1 and "cannot write the result" in done.stderr

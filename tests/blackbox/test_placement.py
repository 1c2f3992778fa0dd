# SPDX-License-Identifier: Apache-2.0
"""`terrane placement` as an operator and a program use it."""
import csv
import io
import json
import statistics
import subprocess
from pathlib import Path

import pytest

TERRANE = Path(__file__).resolve().parents[2] / "build" / "terrane"
ONLINE = ["firstfit", "heuristic", "adaptive-hash", "table"]


def placement(*args):
    return subprocess.run([TERRANE, "placement", *args], capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module", name="traces")
def make_traces(tmp_path_factory):
    """Two weeks of a small generated cluster."""
    out = []
    for day in (0, 7):
        done = placement("generate", "--cluster", "1001", "--jobs", "1500", "--from-day", str(day))
        assert done.returncode == 0, done.stderr
        out.append(tmp_path_factory.mktemp("traces") / f"{day}.csv")
        out[-1].write_text(done.stdout)
    return out


def study(traces, *args):
    return placement("study", "--train", traces[0], "--test", traces[1], *args)


def test_study_prints_the_same_rows_as_csv_and_json(traces):
    args = ["--quota", "0.01,0.2", "--method", ",".join(ONLINE)]
    rows = list(csv.DictReader(io.StringIO(study(traces, *args, "--csv").stdout)))
    objects = json.loads(study(traces, *args, "--json").stdout)
    assert [(r["method"], float(r["quota"])) for r in rows] == [(m, q) for m in ONLINE for q in (0.01, 0.2)]
    assert [r["tco_saved_pct"] for r in objects] == [float(r["tco_saved_pct"]) for r in rows]
    assert all(0 <= r["spilled_pct"] <= 100 and 0 < r["tcio_saved_pct"] <= 100 for r in objects)


def test_the_bound_is_above_the_oracle_and_that_above_all_others(traces):
    args = ["--quota", "0.02", "--method", "all", "--tune", "oracle-limit-s=0", "--tune", "rounds=15", "--json"]
    saved = {r["method"]: r["tco_saved_pct"] for r in json.loads(study(traces, *args).stdout)}
    assert saved["lp-bound"] >= saved["oracle-tco"] > max(saved[m] for m in ONLINE)


def test_study_writes_a_plot_and_what_was_decided_for_each_job(traces, tmp_path):
    plot, decided = tmp_path / "plot.svg", tmp_path / "decided.csv"
    methods, quotas = ["firstfit", "true-worth", "lp-bound"], ["0.05", "0.5"]
    done = study(traces, "--method", ",".join(methods), "--quota", ",".join(quotas), "--plot", plot,
                 "--decisions", decided, "--json")
    assert done.returncode == 0, done.stderr
    assert all(m in plot.read_text() for m in methods) and plot.read_text().rstrip().endswith("</svg>")
    rows = list(csv.DictReader(io.StringIO(decided.read_text())))
    jobs = len(traces[1].read_text().splitlines()) - 1
    assert len(rows) == jobs * len(methods) * len(quotas)
    assert {r["needed"] == "" for r in rows if r["method"] == "firstfit"} == {True}
    for saved in json.loads(done.stdout):
        own = [r for r in rows if r["method"] == saved["method"] and float(r["quota"]) == saved["quota"]]
        total = sum(float(r["share"]) * float(r["saved_usd"]) for r in own)
        assert (total > 0) == (saved["tco_saved_pct"] > 0)
    assert study(traces, "--method", "firstfit", "--plot", tmp_path / "no" / "plot").returncode == 1


def test_flash_that_is_halved_saves_less_and_the_oracles_are_refused(traces):
    args = ["--quota", "0.05", "--method", "firstfit,true-worth", "--json"]
    whole = json.loads(study(traces, *args).stdout)
    half = json.loads(study(traces, *args, "--halve-at", "36").stdout)
    assert all(h["tco_saved_pct"] < w["tco_saved_pct"] for h, w in zip(half, whole))
    done = study(traces, "--method", "oracle-tco", "--halve-at", "36")
    assert done.returncode == 2 and "oracle-tco" in done.stderr


def test_dear_flash_saves_less(traces):
    args = ["--quota", "0.2", "--method", "heuristic", "--json"]
    usual, = json.loads(study(traces, *args).stdout)
    dear, = json.loads(study(traces, *args, "--rate", "flash-byte-usd=*2").stdout)
    assert dear["tco_saved_pct"] < usual["tco_saved_pct"]


@pytest.mark.parametrize("args, complaint", [
    (["--method", "nonsense"], "--method nonsense: does not exist"),
    (["--quota", "1.5"], "must be a share from 0 to 1"),
    (["-o", "x"], "invalid option"),
    (["--quota", ""], "must be a share from 0 to 1"),
    (["--rate", "flash=1"], "no such rate"),
    (["--rate", "flash-byte-usd=-1"], "out of range"),
    (["--tune", "high=2"], "out of range"),
    (["--tune", "what=2"], "no such parameter"),
    (["nonsense"], "is not an option"),
])
def test_wrong_usage_exits_with_2_and_names_the_word(traces, args, complaint):
    done = study(traces, *args)
    assert done.returncode == 2
    assert complaint in done.stderr and not done.stdout


def test_traces_are_required():
    done = placement("study", "--train", "x.csv")
    assert done.returncode == 2 and "--test" in done.stderr


def test_a_bad_trace_is_refused_with_file_line_and_rule(traces, tmp_path):
    bad = tmp_path / "bad.csv"
    lines = traces[1].read_text().splitlines()
    bad.write_text("\n".join([lines[0], lines[2], lines[1]]) + "\n")
    done = study((traces[0], bad))
    assert done.returncode == 1
    assert str(bad) in done.stderr and "line 3" in done.stderr and "is before" in done.stderr
    empty = tmp_path / "empty.csv"
    empty.write_text(lines[0] + "\n")
    done = study((traces[0], empty))
    assert done.returncode == 1 and "the trace has no jobs" in done.stderr


def train(trace, model, *args):
    return placement("train", trace, "-o", model, "--rounds", "15", *args)


def test_training_is_reproducible_and_the_study_takes_the_model(traces, tmp_path):
    reports = []
    for name in ("a", "b"):
        done = train(traces[0], tmp_path / name, "--json")
        assert done.returncode == 0, done.stderr
        reports.append(json.loads(done.stdout))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert reports[0]["jobs"] > reports[0]["validation_jobs"] >= 50 and 0 < reports[0]["accuracy"] < 1
    args = ["--quota", "0.02", "--tune", "rounds=15", "--tune", "ratio=1.5", "--json"]
    saved = {r["method"]: r["tco_saved_pct"] for r in json.loads(
        study(traces, "--method", "adaptive-hash,model", "--model", tmp_path / "a", *args).stdout)}
    assert saved["model"] > saved["adaptive-hash"]


def test_training_tells_how_well_categories_are_told_apart_and_leaves_groups_out(traces, tmp_path):
    reports = []
    for without in ((), ("--without", "history", "--without", "names", "--without", "resources", "--without", "time")):
        done = train(traces[0], tmp_path / "m", "--json", "--label", "density", "--categories", "4", *without)
        assert done.returncode == 0, done.stderr
        reports.append(json.loads(done.stdout)["auc"])
    known, unknown = reports
    assert len(known) == 4 and all(0 <= a <= 1 for a in known) and statistics.fmean(known) > 0.65
    assert all(abs(a - 0.5) < 1e-6 for a in unknown)  # without features all jobs are equal
    assert train(traces[0], tmp_path / "m", "--without", "luck").returncode == 2


def test_a_damaged_model_is_refused(traces, tmp_path):
    bad = tmp_path / "bad"
    bad.write_bytes(b"TrnPlace" + bytes(100))
    done = study(traces, "--method", "model", "--model", bad)
    assert done.returncode == 1 and str(bad) in done.stderr and "train it again" in done.stderr
    done = study(traces, "--method", "model")
    assert done.returncode == 2 and "--model FILE" in done.stderr


def test_training_needs_jobs_and_a_file(traces, tmp_path):
    few = tmp_path / "few.csv"
    few.write_text("".join(traces[0].read_text().splitlines(True)[:50]))
    done = train(few, tmp_path / "m")
    assert done.returncode == 1 and str(few) in done.stderr and "too few jobs" in done.stderr
    assert not (tmp_path / "m").exists()
    done = placement("train", few)
    assert done.returncode == 2 and "-o FILE" in done.stderr

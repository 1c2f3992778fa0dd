# SPDX-License-Identifier: Apache-2.0
"""`terrane train` and `terrane emu`: trainings on emulated accelerators, from a cluster, a folder and memory."""
import csv
import json
import os
import signal
import statistics
import subprocess

import pytest

from box import KIB, TERRANE, Box, await_true, run, write_tree

ROOT = TERRANE.parents[1]
MEMORY = {"data.from": "memory", "data.samples": 64, "model.step": "10ms", "model.batch": 8, "device.copies": "none"}


def train(values, *words, **options):
    sets = [w for key, value in values.items() for w in ("--set", f"{key}={value}")]
    return run("train", *words, *sets, **options)


def trained(values, *words, **options):
    """The JSON of a training that succeeds."""
    done = train(values, *words, "--json", **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module", name="folder")
def make_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("samples")
    write_tree(folder, {f"{n % 3}/{n:02}": 40 * KIB + n for n in range(24)})
    return folder


def test_a_job_reads_every_sample_of_a_folder_once_per_epoch(folder):
    values = {"data.from": "folder", "data.path": folder, "model.step": "5ms", "model.batch": 4, "train.epochs": 3}
    job, = trained(values)["jobs"]
    size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
    assert (job["samples"], job["data_bytes"], job["all"]["read_bytes"]) == (24, size, 3 * size)
    assert [e["steps"] for e in job["epochs"]] == [6, 6, 6]
    assert job["all"]["compute_s"] == pytest.approx(18 * 0.005)
    assert job["all"]["elapsed_s"] >= 18 * 0.005
    assert 0 < job["all"]["utilization"] <= 1


def test_preparing_longer_than_a_step_stalls_the_devices_as_computed():
    """One processor prepares a batch in 8 x 5 = 40 ms for steps of 10 ms: utilization 10/40, the rest is waiting."""
    job, = trained({**MEMORY, "loader.prep": "5ms", "loader.cores": 1})["jobs"]
    assert job["all"]["prep_cpu_s"] == pytest.approx(64 * 0.005)
    assert job["all"]["elapsed_s"] >= 8 * 0.040 + 0.010
    assert job["all"]["utilization"] <= 80 / 330
    assert job["all"]["wait_s"] >= 0.240


def test_a_cluster_feeds_a_job_that_writes_checkpoints(folder, tmp_path):
    with Box(tmp_path / "box") as box:
        box("put", folder, "/in")
        box("mkdir", "/out")
        values = {"data.path": "/in", "model.step": "5ms", "model.batch": 4, "train.epochs": 2, "train.checkpoint": 6,
                  "train.checkpoint_path": "/out", "train.checkpoint_size": "300KiB"}
        job, = trained(values, env=box.env)["jobs"]
        assert job["samples"] == 24 and job["all"]["steps"] == 12
        assert job["all"]["read_bytes"] == 2 * job["data_bytes"]
        assert job["all"]["checkpoint_s"] > 0
        sizes = {e["name"]: e["size"] for e in map(json.loads, box("ls", "/out", "--json").stdout.splitlines())}
        assert sizes == {"checkpoint-model-0": 300 * KIB, "checkpoint-model-1": 300 * KIB}


def test_job_files_run_side_by_side_and_share_a_device(tmp_path):
    text = ("[data]\nfrom = memory\nsamples = 40\n[model]\nstep = 10ms\nbatch = 4\n"
            "[device]\ncopies = none\nshared = one\nsharing = iteration\n")
    for name in ("a.ini", "b.ini"):
        (tmp_path / name).write_text(text)
    done = run("train", "a.ini", "b.ini", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    jobs = json.loads(done.stdout)["jobs"]
    assert [j["job"] for j in jobs] == ["a.ini", "b.ini"]
    assert all(j["all"]["compute_s"] == pytest.approx(0.1) and j["all"]["elapsed_s"] >= 0.189 for j in jobs)


def test_a_value_of_the_command_line_replaces_that_of_the_file(tmp_path):
    (tmp_path / "job.ini").write_text("[data]\nfrom = memory\nsamples = 40\n[model]\nstep = 10ms\nbatch = 4\n"
                                      "[train]\nepochs = 100000\n")
    job, = trained({"train.epochs": 2, "device.copies": "none"}, tmp_path / "job.ini")["jobs"]
    assert len(job["epochs"]) == 2


def test_a_model_of_the_profile_takes_its_measured_time():
    shown = json.loads(run("emu", "show", "resnet50", "--precision", "bf16", "--batch", "128", "--json").stdout)
    values = {"data.from": "memory", "data.samples": 1280, "model.name": "resnet50", "model.precision": "bf16",
              "model.batch": 128, "device.vary": "false", "device.copies": "none"}
    job, = trained(values)["jobs"]
    cost, = shown["batches"]
    assert job["device"] == "NVIDIA_H200"
    assert job["all"]["compute_s"] == pytest.approx(10 * cost["step_ms"] / 1e3)
    assert job["all"]["elapsed_s"] >= 10 * cost["step_ms"] / 1e3


def test_a_rule_of_mlperf_decides_over_passed_and_failed():
    """Steps of 323 ms on batches of 7; the slow loader prepares one in 700 ms."""
    values = {"data.from": "memory", "data.samples": 35, "data.sample": KIB, "device.spin": "false"}
    job, = trained(values, "--mlperf", "unet3d:h100")["jobs"]
    assert job["batch"] == 7 and job["passed"] and job["all"]["steps"] == 4  # without the first
    slow = train({**values, "loader.prep": "100ms", "loader.cores": 1, "data.samples": 21}, "--mlperf", "unet3d:h100")
    assert slow.returncode == 1 and "threshold 90%: not reached" in slow.stdout


def test_data_that_fits_into_memory_is_named_under_the_rules(folder):
    values = {"data.from": "folder", "data.path": folder, "data.sample": KIB, "device.spin": "false", "train.steps": 2}
    done = train(values, "--mlperf", "cosmoflow:a100")
    assert "times this machine's memory; the rules ask for 5 times" in done.stdout, done.stderr
    assert "the rules ask" not in train({**values, "model.step": "1ms"}).stdout


def test_a_sweep_finds_up_to_which_value_the_threshold_is_reached(tmp_path):
    """Steps of 20 ms; one processor prepares a batch of 8 in 4, 8 and 80 ms, so the last reaches at most 20/80."""
    values = {**MEMORY, "data.samples": 800, "model.step": "20ms", "train.steps": 30, "train.threshold": 40,
              "loader.cores": 1, "device.spin": "false"}
    sweep = ["--sweep", "loader.prep=500us,1ms,10ms", "--plot", tmp_path / "curve.svg"]
    done = train(values, *sweep)
    assert done.returncode == 0, done.stderr
    assert "utilization is at least 40% up to loader.prep = 1ms" in done.stdout
    assert (tmp_path / "curve.svg").read_text().startswith("<svg")
    runs = trained(values, *sweep)["runs"]
    assert [r["value"] for r in runs] == ["500us", "1ms", "10ms"]
    assert runs[2]["jobs"][0]["all"]["utilization"] <= 20 / 80


def test_ctrl_c_ends_a_training_and_prints_what_it_did():
    words = [w for key, value in {**MEMORY, "data.samples": 1 << 20}.items() for w in ("--set", f"{key}={value}")]
    with subprocess.Popen([TERRANE, "train", *words, "--set", "train.steps=5", "--set", "train.epochs=1000000"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
        assert "utilization" not in job.stdout.readline()  # the head, printed with the first epoch
        job.send_signal(signal.SIGINT)
        await_true("the end of the training", lambda: job.poll() is not None)
        assert job.returncode == 1 and "cancelled" in job.stderr.read()


def test_the_printed_keys_are_a_job_file(tmp_path):
    keys = run("train", "--keys")
    assert keys.returncode == 0 and "[loader]" in keys.stdout
    (tmp_path / "job.ini").write_text(keys.stdout)
    job, = trained(MEMORY, tmp_path / "job.ini")["jobs"]
    assert job["all"]["steps"] == 8


@pytest.mark.parametrize("values, complaint", [
    ({**MEMORY, "model.step": "0s"}, "names no model and no step"),
    ({**MEMORY, "model.step": "0s", "model.name": "nonsense"}, 'no profile of model "nonsense"'),
    ({**MEMORY, "model.step": "0s", "model.name": "resnet50", "model.batch": 60000, "data.samples": 60000},
     "batch 60000 was not measured (measured: 1 to 512)"),
    ({**MEMORY, "model.step": "0s", "model.name": "resnet50", "device.memory": "1GiB"}, "out of memory on the device"),
    ({**MEMORY, "model.batch": 65}, "64 samples do not fill one step"),
    ({**MEMORY, "data.from": "folder", "data.path": "missing"}, "cannot list missing: does not exist"),
    ({**MEMORY, "data.from": "tape"}, "tape"),
    ({**MEMORY, "device.nonsense": 1}, "nonsense"),
    ({**MEMORY, "train.seed": "1\n[loader]"}, "is not SECTION.KEY=VALUE"),
    ({**MEMORY, "nonsense": 1}, "is not SECTION.KEY=VALUE"),
])
def test_a_job_that_cannot_be_trained_is_an_error_that_says_why(values, complaint):
    done = train(values)
    assert done.returncode in (1, 2) and complaint in done.stderr, done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("words, complaint", [
    (["no-such-job.ini"], "cannot read the job file no-such-job.ini: does not exist"),
    ([], "name a job file"),
    (["--mlperf", "bert:h100", "--set", "data.path=/"], 'is not WORKLOAD:ACCELERATOR'),
    (["--plot", "a.svg", "--set", "data.path=/"], "there is none"),
    (["--sweep", "device.count", "--set", "data.path=/"], "is not SECTION.KEY=V1,V2"),
    (["--sweep", "device.count=1,,2", "--set", "data.path=/"], "an empty or a long value"),
    (["--sweep", "device.count=0", "--set", "data.path=/"], "count"),
    (["--profile", "no-such-profile.csv", "--set", "data.path=/"], "no-such-profile.csv"),
])
def test_a_wrong_command_line_is_an_error_that_says_why(words, complaint):
    done = run("train", *words)
    assert done.returncode in (1, 2) and complaint in done.stderr, done.stderr


@pytest.mark.parametrize("text, complaint", [
    ("", "profile.csv:0: the file has no header"),
    ("a,b\n1,2\n", "the header is none of a profile"),
    ("device,direction,pinned,bytes,host_s\n", 'column "device_s" is missing'),
    ("device,direction,pinned,bytes,host_s,device_s\nx,h2d,0,4096,-1,0.1\n", "profile.csv:2: host_s = -1 is out of range"),
    ("device,direction,pinned,bytes,host_s,device_s\nx,h2d,0,4096,0.1,1e99\n", "device_s = 1e99 is out of range"),
    ("device,direction,pinned,bytes,host_s,device_s\nx,up,0,4096,0.1,0.1\n", "direction"),
    ("device,direction,pinned,bytes,host_s,device_s\nx,h2d,0\n", "the row has 3 values and the header 6"),
])
def test_a_profile_that_makes_no_sense_is_refused_with_its_place(tmp_path, text, complaint):
    (tmp_path / "profile.csv").write_text(text)
    for words in (["emu", "models"], ["train", "--set", "data.path=/"]):
        done = run(*words, "--profile", "profile.csv", cwd=tmp_path)
        assert done.returncode == 1 and complaint in done.stderr, done.stderr


def test_the_error_of_interpolation_is_that_of_held_out_batches():
    """Computed here once more, from the table of the profile."""
    with open(ROOT / "src" / "emu" / "profiles" / "h200_steps.csv", newline="", encoding="ascii") as file:
        rows = [r for r in csv.DictReader(file) if r["model"] == "resnet50" and r["status"] == "ok"]
    used = sorted((int(r["batch"]), float(r["step_s"])) for r in rows if r["held_out"] == "0")
    errors = []
    for r in (r for r in rows if r["held_out"] == "1"):
        batch = int(r["batch"])
        (b0, t0), (b1, t1) = max(p for p in used if p[0] < batch), min(p for p in used if p[0] > batch)
        errors.append(100 * abs((t0 + (t1 - t0) * (batch - b0) / (b1 - b0)) / float(r["step_s"]) - 1))
    model, = (m for m in json.loads(run("emu", "models", "--json").stdout)["models"] if m["model"] == "resnet50")
    assert model["held_out"] == len(errors) == 7
    assert model["held_out_median_percent"] == pytest.approx(statistics.median(errors), abs=0.01)
    assert model["held_out_worst_percent"] == pytest.approx(max(errors), abs=0.01)
    shown = run("emu", "show", "resnet50").stdout
    assert f"{max(errors):.1f} %" in shown and shown.count("*") == 8  # the last one explains it


def test_measuring_a_profile_without_torch_says_what_is_missing(tmp_path):
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\")\n")
    done = run("emu", "profile", "--out", tmp_path / "out", env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1 and "install torch 2" in done.stderr, done.stderr
    assert not (tmp_path / "out").exists()

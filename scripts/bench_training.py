# SPDX-License-Identifier: Apache-2.0
"""./dev bench training [NAME...]: trainings on emulated accelerators.

  figures   4.19 to 4.22 of the MLEC dissertation in virtual time, the same on every machine: training_figures.py
  studies   experiments of its sections 4.2 and 4.3 in virtual time: training_studies.py
  4.20b     one of them by its number
  mlperf    how many emulated accelerators one client feeds by the rules of MLPerf Storage, from clusters with emulated
            drives (--emulate nvme,nvme+flash: without and with a cache on flash in the nodes), from a plain folder of the
            same files and, with --peers, from MooseFS, in the same run

Without a name: figures and studies. --plots FOLDER gets drawings as SVG.

mlperf: rounds alternate between the systems, and the median of each counts. The data fits into the machine's memory:
the path is measured, not this machine's disk. The first step of an epoch does not count, and loaders have read up to 8
batches by then: the more steps an epoch has, the less that matters.
"""
import argparse
import contextlib
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import peers
import training_figures
import training_studies
from common import BUILD, CORES, ROOT

sys.path[:0] = [str(ROOT / "tests" / "blackbox")]
# pylint: disable=wrong-import-position
from box import MIB, Box  # noqa: E402

TERRANE = BUILD / "terrane"
RECORD = {"resnet50": 114660, "unet3d": 146600628, "cosmoflow": 2828486}
BATCH = {"resnet50": 400, "unet3d": 7, "cosmoflow": 1}


def write_samples(folder, record, count, per_file):
    """Writes files of `per_file` records each."""
    folder.mkdir()
    piece = os.urandom(record)
    for first in range(0, count, per_file):
        with open(folder / f"{first:08}", "wb") as file:
            for _ in range(min(per_file, count - first)):
                file.write(piece)


def buffers(accelerators):
    """Batches that the loader reads ahead."""
    return max(8, 2 * accelerators)


def sweep(options, env, words):
    """The JSON of one sweep over the numbers of accelerators."""
    command = [TERRANE, "train", "--mlperf", options.rule, "--json", "--quiet", "--sweep", f"device.count={options.counts}",
               "--set", f"train.epochs={options.epochs}", "--set", f"device.spin={str(options.spin).lower()}"]
    most = max(map(int, options.counts.split(",")))
    for word in [*words, f"loader.buffers={buffers(most)}"]:
        command += ["--set", word]
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"training failed: {done.stderr.strip()}")
    return json.loads(done.stdout)["runs"]


def row(name, runs):
    """One line from the runs with one number of accelerators, and its utilization."""
    spans = [r["jobs"][0]["all"] for r in runs]
    steps = [s["steps"] for s in spans]
    middle = {k: statistics.median(s[k] for s in spans) for k in ("utilization", "samples_per_s", "elapsed_s", "wait_s")}
    cpu = statistics.median(r["process_cpu_ms_per_sample"] for r in runs)
    result = {"from": name, "accelerators": int(runs[0]["value"]), "utilization_percent": 100 * middle["utilization"],
              "wait_percent": 100 * middle["wait_s"] / middle["elapsed_s"], "samples_per_s": middle["samples_per_s"],
              "client_cpu_ms_per_sample": cpu, "steps": steps[0]}
    return result


def show(results, threshold, as_json):
    for r in results:
        if as_json:
            print(json.dumps(r))
        else:
            print(f"| {r['from']} | {r['accelerators']} | {r['utilization_percent']:.1f} % | {r['wait_percent']:.1f} % | "
                  f"{r['samples_per_s']:.0f} | {r['client_cpu_ms_per_sample']:.3f} ms |")
    for name in dict.fromkeys(r["from"] for r in results):
        most = 0
        for r in (r for r in results if r["from"] == name):
            if r["utilization_percent"] < threshold:
                break
            most = r["accelerators"]
        if as_json:
            print(json.dumps({"from": name, "accelerators_at_threshold": most, "threshold_percent": threshold}))
        else:
            print(f"\n{name}: {most} accelerators at {threshold} % or more")


def virtual(names, folder):
    """Prints the tables of these figures and studies, and writes their drawings to the folder, unless it is None."""
    print("terrane train --clock virtual: the same numbers on every machine")
    for name in names:
        drawing = {**training_figures.FIGURES, **training_studies.STUDIES}[name]()
        if drawing is not None and folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"figure-{name}.svg").write_text(drawing)


def main():
    every = [*training_figures.FIGURES, *training_studies.STUDIES]
    parser = argparse.ArgumentParser(prog="./dev bench training", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"figures, studies, mlperf, or of {' '.join(every)}")
    parser.add_argument("--plots", type=Path, help="folder for drawings")
    parser.add_argument("--dir", help="where to keep data; else a new folder")
    parser.add_argument("--rule", default="resnet50:h100", help="WORKLOAD:ACCELERATOR (default resnet50:h100)")
    parser.add_argument("--counts", default="1,2,4", help="numbers of accelerators (default 1,2,4)")
    parser.add_argument("--size", type=int, default=1536, help="MiB of data (default 1536)")
    parser.add_argument("--emulate", default="nvme", help="how fast the cluster's disks are, several with commas; KIND+flash: with "
                        "--flash of each node as a cache (default nvme)")
    parser.add_argument("--flash", default="64MiB", help="flash of each node for KIND+flash (default 64MiB)")
    parser.add_argument("--peers", action="store_true", help="MooseFS too (packages of the group peers)")
    parser.add_argument("--epochs", type=int, default=2, help="of each run (default 2)")
    parser.add_argument("--rounds", type=int, default=3, help="of cluster and folder in turn (default 3)")
    parser.add_argument("--spin", action="store_true", help="spin for exact ends of steps: for machines with free cores")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    groups = {"figures": list(training_figures.FIGURES), "studies": list(training_studies.STUDIES)}
    names = [n for name in options.names or groups for n in groups.get(name, [name])]
    unknown = [n for n in names if n not in every and n != "mlperf"]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}")
    if names != ["mlperf"]:
        virtual([n for n in names if n != "mlperf"], options.plots)
    if "mlperf" in names:
        mlperf(parser, options)


def open_sources(options, folder, stack):
    """Starts the systems and gives them the samples: name -> (environment, values of the job)."""
    sources = {}
    for kind in options.emulate.split(","):
        drive, _, flash = kind.partition("+")
        words = ["--node-flash", options.flash] if flash == "flash" else []
        box = stack.enter_context(Box(folder / f"box-{kind}", "--emulate", drive, *words))
        box("mkdir", "/sets")
        box("put", "-q", folder / "samples", "/sets/samples", timeout=1200)
        name = f"cluster, {drive}, rs:4+2" + (f", {options.flash} of flash a node" if words else "")
        sources[name] = (box.env, ["data.path=/sets/samples"])
    folders = {"folder": folder / "samples"}
    if options.peers:
        subprocess.run(["./dev", "deps", "peers"], cwd=ROOT, check=True)
        peer = stack.enter_context(peers.MooseFS(folder / "mfs", 2))
        shutil.copytree(folder / "samples", peer.mount / "samples")
        folders["MooseFS, 2 copies"] = peer.mount / "samples"
    for name, path in folders.items():
        sources[name] = (os.environ, ["data.from=folder", f"data.path={path}"])
    return sources


def mlperf(parser, options):
    workload = options.rule.partition(":")[0]
    if workload not in RECORD:
        parser.error(f"--rule {options.rule}: unknown workload, one of {', '.join(RECORD)}")
    record = RECORD[workload]
    count = max(options.size * MIB // record, 1)
    ahead = buffers(max(map(int, options.counts.split(",")))) * BATCH[workload]
    if count < 2 * ahead:
        parser.error(f"--size {options.size}: {count} samples, of which the loader reads {ahead} before the first step has ended, which "
                     f"does not count; use --size {-(-2 * ahead * record // MIB)} or more")
    folder = Path(tempfile.mkdtemp(prefix="terrane-training-", dir=options.dir))
    try:
        write_samples(folder / "samples", record, count, max(64 * MIB // record, 1))
        with contextlib.ExitStack() as stack:
            sources = open_sources(options, folder, stack)
            rounds = [(name, sweep(options, env, words)) for _ in range(options.rounds) for name, (env, words) in sources.items()]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not options.json:
        print(f"{options.rule}, {count} samples of {record} bytes, on {CORES} cores, Linux {platform.release()}, "
              f"load {os.getloadavg()[0]:.1f}\n\n"
              "| read from | accelerators | utilization | waiting for data | samples/s | client's processor time of a sample |\n"
              "|---|---:|---:|---:|---:|---:|")
    results = [row(name, [runs[i] for source, runs in rounds if source == name])
               for name in sources for i in range(len(rounds[0][1]))]
    show(results, 70 if workload == "cosmoflow" else 90, options.json)


if __name__ == "__main__":
    main()

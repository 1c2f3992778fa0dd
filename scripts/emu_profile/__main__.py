# SPDX-License-Identifier: Apache-2.0
"""Measures a GPU for the emulator: `python3 scripts/emu_profile --seconds 600 --out DIR`.

Writes steps.csv, copies.csv, decodes.csv, loops.csv and about.csv. Every row is written when it is measured. What the
files under --resume (or --out) already hold is not measured again, so a profile can be taken in several sittings.
"""
import argparse
import csv
import gc
import os
import platform
import sys
import time
from pathlib import Path

try:
    import torch
except ModuleNotFoundError as error:
    sys.exit(f"terrane emu profile: {error}; install torch 2 or newer, with torchvision for its models and decoders")

import loops
import steps
import transfers
from device import Device
from nets import NETS


class Table:
    """A CSV file that grows by rows; `key` columns tell whether a row is there."""

    def __init__(self, out, resume, name, columns, key):
        self.columns, self.key = columns, [columns.index(k) for k in key]
        self.rows = []
        for folder in (resume, out):
            path = folder / name if folder else None
            if path and path.is_file() and not self.rows:
                with path.open(newline="") as file:
                    rows = list(csv.reader(file))
                if rows and rows[0] == columns:
                    self.rows = [r for r in rows[1:] if len(r) == len(columns)]
        self.file = (out / name).open("w", newline="")
        self.writer = csv.writer(self.file, lineterminator="\n")
        self.writer.writerow(columns)
        self.writer.writerows(self.rows)
        self.file.flush()
        self.keys = {tuple(r[i] for i in self.key) for r in self.rows}

    def has(self, *key):
        return tuple(map(str, key)) in self.keys

    def add(self, row):
        row = [str(v) for v in row]
        assert len(row) == len(self.columns), (len(row), len(self.columns), row)
        self.rows.append(row)
        self.keys.add(tuple(row[i] for i in self.key))
        self.writer.writerow(row)
        self.file.flush()


class Profile:
    def __init__(self, options):
        self.options = options
        self.begin = time.monotonic()
        self.deadline = self.begin + options.seconds
        self.device = Device(options.device)
        self.identity = [self.device.name, self.device.driver, torch.__version__]
        out = Path(options.out)
        out.mkdir(parents=True, exist_ok=True)
        resume = Path(options.resume) if options.resume else None
        self.steps = Table(out, resume, "steps.csv", steps.COLUMNS, ["model", "precision", "layout", "batch"])
        self.copies = Table(out, resume, "copies.csv", transfers.COPY_COLUMNS, ["direction", "pinned", "bytes"])
        self.decodes = Table(out, resume, "decodes.csv", transfers.DECODE_COLUMNS, ["decoder", "width", "batch"])
        self.loops = Table(out, resume, "loops.csv", loops.COLUMNS,
                           ["model", "precision", "batch", "bound", "pinned", "prefetch"])
        self.about = Table(out, resume, "about.csv", ["what", "value"], ["what"])
        self.nets = {n.name: n for n in NETS}

    def late(self, need=0.0):
        return time.monotonic() + need > self.deadline

    def describe(self):
        d = self.device
        facts = {"device": d.name, "driver": d.driver, "torch": torch.__version__, "python": platform.python_version(),
                 "memory_bytes": d.total, "context_bytes": d.used(), "host_cores": os.cpu_count(),
                 "kernel": platform.release(), "cpu": processor()}
        if d.cuda:
            facts |= {"cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(),
                      "multiprocessors": torch.cuda.get_device_properties(0).multi_processor_count,
                      "cudnn_benchmark": torch.backends.cudnn.benchmark,
                      "float32_matmul_precision": torch.get_float32_matmul_precision()}
        for what, value in facts.items():
            if not self.about.has(what):
                self.about.add([what, value])

    def transfers(self):
        if not self.copies.rows:
            for row in transfers.copies(self.device, self.options.small):
                self.copies.add(self.identity + row)
        if not self.decodes.rows:
            for row in transfers.decodes(self.device, self.options.small, self.begin + 60):
                self.decodes.add(self.identity + row)

    def todo(self, net, precision, layout):
        batches = [(b, 0) for b in net.batches] + [(b, 1) for b in net.held]
        if self.options.small:
            batches = [(b, h) for b, h in batches if b <= 2]
        return [(b, h) for b, h in sorted(batches) if not self.steps.has(net.name, precision, layout, b)]

    def group(self, net, precision):
        """All batches of a model at a precision that are still missing."""
        layout = "nhwc" if precision == "bf16" and net.kind in ("image", "volume", "regression") else "nchw"
        todo = self.todo(net, precision, layout)
        if not todo or self.late(4):
            return
        began = time.monotonic()
        session = None
        try:
            session = steps.Session(self.device, net, precision)
        except (RuntimeError, ImportError, AttributeError, TypeError) as error:
            print(f"{net.name} {precision}: not built: {first_line(error)}", flush=True)
            return
        known = []
        state = "ok"
        for batch, held in todo:
            state = self.point(session, precision, (batch, held), known, state)
            if state == "late":
                break
        del session
        gc.collect()
        print(f"{time.monotonic() - self.begin:6.1f} {net.name:18} {precision} {len(known)} points, "
              f"{time.monotonic() - began:.1f} s, last {state}", flush=True)

    def point(self, session, precision, what, known, state):
        batch, held = what
        net = session.net
        head = self.identity + [net.name, net.input, precision, session.layout, batch, held]
        blank = [""] * (len(steps.COLUMNS) - len(head) - 1)
        need = steps.estimate(known, batch)
        if state == "oom" or need > self.options.longest:
            state = "oom" if state == "oom" else "slow"
            self.steps.add(head + [state] + blank)
            return state
        if self.late(need * 12 + 1):
            return "late"
        try:
            row = steps.measure(session, batch, self.options.box, self.deadline)
        except (RuntimeError, ValueError) as error:
            # The frames of the error hold tensors of the step until they are dropped.
            state = "oom" if self.device.out_of_memory(error) else "error"
            print(f"{net.name} {precision} {batch}: {first_line(error)}", flush=True)
            error.__traceback__ = None
            session.optimizer.zero_grad(set_to_none=True)
            gc.collect()
            self.steps.add(head + [state] + blank)
            return state
        known.append((batch, float(row[4])))
        self.steps.add(head + ["ok"] + row)
        return "ok"

    def runs(self):
        session = None
        for model, precision, batch, *how in loops.variants():
            if self.options.models and model not in self.options.models:
                continue
            batch = 2 if self.options.small else batch
            if self.loops.has(model, precision, batch, *how) or self.late(self.options.run * 2.5):
                continue
            if session is None or session.net is not self.nets[model]:
                session = None
                gc.collect()
                session = steps.Session(self.device, self.nets[model], precision)
            try:
                row = loops.run(self.device, session, batch, how, self.options.run, self.deadline)
            except (RuntimeError, ValueError) as error:
                print(f"loop {model} {how}: {first_line(error)}", flush=True)
                continue
            self.loops.add(self.identity + [model, precision, batch, *how] + row)
        print(f"{time.monotonic() - self.begin:6.1f} loops: {len(self.loops.rows)} of {len(list(loops.variants()))}",
              flush=True)

    def all(self):
        self.describe()
        self.transfers()
        print(f"{time.monotonic() - self.begin:6.1f} copies {len(self.copies.rows)}, decodes {len(self.decodes.rows)}",
              flush=True)
        first = list(dict.fromkeys(m for m, _, _ in loops.RUNS))
        names = [n for n in (self.options.models or [n.name for n in NETS])]
        for name in [n for n in first if n in names]:
            precision = next(p for m, p, _ in loops.RUNS if m == name)
            self.group(self.nets[name], precision)
        if not self.options.no_loops:
            self.runs()
        for precision in ("bf16", "fp32"):
            for name in names:
                self.group(self.nets[name], precision)
        done = sum(r[9] == "ok" for r in self.steps.rows)
        print(f"{time.monotonic() - self.begin:6.1f} in all: {done} points of "
              f"{len({r[3] for r in self.steps.rows})} models, {len(self.steps.rows) - done} that did not fit or run")


def first_line(error):
    return (str(error).splitlines() or [type(error).__name__])[0][:160]


def processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return "unknown"
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0].replace(",", " ") if names else "unknown"


def main():
    parser = argparse.ArgumentParser(prog="terrane emu profile", description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, metavar="DIR", help="where the CSV files go")
    parser.add_argument("--resume", metavar="DIR", help="CSV files of an earlier sitting (default: those in --out)")
    parser.add_argument("--seconds", type=float, default=900, help="stop after this long (default 900)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu tries the script out")
    parser.add_argument("--models", nargs="+", choices=[n.name for n in NETS], help="only these models")
    parser.add_argument("--box", type=float, default=0.4, help="seconds of timed steps per point (default 0.4)")
    parser.add_argument("--longest", type=float, default=1.2, help="skip points whose step takes longer (default 1.2 s)")
    parser.add_argument("--run", type=float, default=1.5, help="seconds of one training loop (default 1.5)")
    parser.add_argument("--no-loops", action="store_true", help="no training loops, only the profile")
    parser.add_argument("--small", action="store_true", help="few and small points")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        print("terrane emu profile: torch sees no GPU here; --device cpu tries the script out", file=sys.stderr)
        return 1
    Profile(options).all()
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Real training loops whose loader's pace is known, to compare an emulated run with.

Loader threads fill buffers of a fixed ring and hand them over through a bounded queue. A batch costs a loader thread
`delay` seconds: asleep (bound by storage) or computing outside of Python's lock (bound by the CPU). The loop waits for a
batch, copies it, steps and reads the loss; with `prefetch` the next batch is copied on a stream of its own meanwhile. The
epoch begins with empty buffers.
"""
import queue
import threading
import time

import torch

from device import median, quantiles
from steps import QUANTILES, warm

COLUMNS = (["device", "driver", "torch", "model", "precision", "batch", "bound", "pinned", "prefetch", "workers", "depth",
            "steps", "delay_set_s", "delay_s", "delay_q10_s", "delay_q90_s", "epoch_s", "wait_s", "first_s", "copy_bytes",
            "step_only_s", "loader_cpu_s", "host_cpu_s"] + [f"q{i}_s" for i in range(QUANTILES)])

# Batches that no profile holds: the emulator has to interpolate.
RUNS = [("alexnet", "fp32", 192), ("resnet18", "bf16", 96), ("resnet50", "bf16", 96), ("cosmoflow", "bf16", 5),
        ("bert_base", "bf16", 48)]
WORKERS = 4
DEPTH = 8
# The loaders' pace over the device's: above 1 the device is the limit.
PACE = {"gpu": 3.0, "cpu": 0.6, "io": 0.6}


def variants():
    for model, precision, batch in RUNS:
        for bound in PACE:
            for pinned, prefetch in ((0, 0), (1, 0), (1, 1)):
                yield model, precision, batch, bound, pinned, prefetch


class Loader:
    """WORKERS threads that fill buffers; get() returns the index of a full one, put() gives it back."""

    def __init__(self, buffers, total, delay, compute):
        self.free, self.full = queue.Queue(), queue.Queue()
        for i in range(buffers):
            self.free.put(i)
        self.left, self.lock = total, threading.Lock()
        self.delay, self.compute = delay, compute
        self.delays, self.cpu = [], []
        self.threads = [threading.Thread(target=self.work, daemon=True) for _ in range(WORKERS)]
        for t in self.threads:
            t.start()

    def work(self):
        scratch = torch.rand(32 << 10)  # small enough that torch computes it on this thread alone
        before = time.thread_time()
        while True:
            with self.lock:
                if self.left == 0:
                    self.cpu.append(time.thread_time() - before)
                    return
                self.left -= 1
            i = self.free.get()
            begin = time.perf_counter()
            end = begin + self.delay
            if self.compute:
                while time.perf_counter() < end:
                    torch.sin_(scratch)
            else:
                time.sleep(max(self.delay, 0))
            self.delays.append(time.perf_counter() - begin)
            self.full.put(i)

    def join(self):
        for t in self.threads:
            t.join()


def host_examples(net, batch, pinned, device):
    """DEPTH batches in the host's memory."""
    made = net.example(batch, "cpu", False)
    pin = pinned and device.cuda
    return [tuple(t.pin_memory() if pin else t.clone() for t in made) for _ in range(DEPTH)]


class Copier:
    """Moves batches to the device; with prefetch on a stream of its own."""

    def __init__(self, device, session, pinned, prefetch):
        self.device, self.session, self.pinned = device, session, pinned
        self.stream = torch.cuda.Stream() if prefetch and device.cuda else None

    def move(self, pair):
        x, target = (t.to(self.device.kind, non_blocking=bool(self.pinned)) for t in pair)
        if self.session.channels_last:
            x = x.to(memory_format=torch.channels_last if x.dim() == 4 else torch.channels_last_3d)
        return x, target

    def start(self, pair):
        if self.stream is None:
            return self.move(pair), None
        with torch.cuda.stream(self.stream):
            moved = self.move(pair)
            done = torch.cuda.Event()
            done.record()
        return moved, done

    def finish(self, started):
        moved, done = started
        if done is not None:
            torch.cuda.current_stream().wait_event(done)
            for t in moved:
                t.record_stream(torch.cuda.current_stream())
        return moved


def epoch(session, copier, loader, buffers, count):
    """Runs `count` steps. Returns the times of each iteration, and the waits for data."""
    iterations, waits = [], []

    def fetch():
        begin = time.perf_counter()
        i = loader.full.get()
        waits.append(time.perf_counter() - begin)
        return i, copier.start(buffers[i])

    ahead = None
    for n in range(count):
        begin = time.perf_counter()
        i, started = ahead if ahead is not None else fetch()
        loss, _ = session.step(*copier.finish(started))
        if copier.stream is not None and n + 1 < count:
            ahead = fetch()
        loss.item()
        loader.free.put(i)
        iterations.append(time.perf_counter() - begin)
    return iterations, waits


def run(device, session, batch, how, box_s, deadline):
    """One training run; the columns from `workers` on."""
    bound, pinned, prefetch = how
    net = session.net
    device.forget()
    x, target, step_s = warm(session, batch, deadline)
    alone = []
    for _ in range(5):
        device.sync()
        begin = time.perf_counter()
        session.step(x, target)[0].item()
        alone.append(time.perf_counter() - begin)
    step_s = median(alone)
    buffers = host_examples(net, batch, pinned, device)
    copier = Copier(device, session, pinned, prefetch)
    copying = []
    for _ in range(4):
        device.sync()
        begin = time.perf_counter()
        copier.finish(copier.start(buffers[0]))
        device.sync()
        copying.append(time.perf_counter() - begin)
    cycle = step_s + min(copying)
    delay = WORKERS * cycle / PACE[bound]
    count = int(min(max(box_s / (cycle / min(PACE[bound], 1)), 12), 400))
    cpu = time.process_time()
    begin = time.perf_counter()
    loader = Loader(DEPTH, count, delay, bound == "cpu")
    iterations, waits = epoch(session, copier, loader, buffers, count)
    device.sync()
    whole = time.perf_counter() - begin
    cpu = time.process_time() - cpu
    loader.join()
    dq = quantiles(loader.delays, 5)
    times = [delay, sum(loader.delays) / len(loader.delays), dq[0], dq[4], whole, sum(waits), iterations[0]]
    return [WORKERS, DEPTH, count] + [f"{t:.7f}" for t in times] + [net.host_bytes(batch)] \
        + [f"{t:.7f}" for t in (step_s, sum(loader.cpu), cpu)] \
        + [f"{q:.7f}" for q in quantiles(iterations, QUANTILES)]

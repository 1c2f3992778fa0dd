# SPDX-License-Identifier: Apache-2.0
"""One point of a profile: a model at a precision and a batch size, its steps timed on the device.

A timed step runs on an idle device, as in a loop that reads the loss after every step: forward, backward and optimizer
are the times between marks on the stream, which include what the device waits for the host that launches kernels. The
launch is the host's time to submit the step. `busy` is the device's time alone: the step is submitted behind a stall that
outlasts the launch, so that no kernel waits for the host.
"""
import time

import torch

from device import median, quantiles
from nets import optimizer

QUANTILES = 20
CURVE = 10

COLUMNS = (["device", "driver", "torch", "model", "input", "precision", "layout", "batch", "held_out", "status", "steps",
            "forward_s", "backward_s", "optimizer_s", "step_s", "wall_s", "launch_s", "busy_s",
            "peak_bytes", "persistent_bytes", "reserved_bytes", "parameter_bytes", "input_bytes"]
           + [f"q{i}_s" for i in range(QUANTILES)] + [f"ready{i}" for i in range(1, CURVE + 1)])


class Session:
    """A model on the device, ready to step."""

    def __init__(self, device, net, precision):
        self.device, self.net = device, net
        self.channels_last = precision == "bf16" and net.kind in ("image", "volume", "regression")
        self.autocast = precision == "bf16"
        if device.cuda:
            with torch.device("cuda"):
                model = net.build()
        else:
            model = net.build()
        if self.channels_last:
            model = model.to(memory_format=torch.channels_last if len(net.shape) == 3 else torch.channels_last_3d)
        self.model = model.train()
        self.optimizer = optimizer(net, self.model)

    @property
    def layout(self):
        return "nhwc" if self.channels_last else "nchw"

    def parameter_bytes(self):
        return sum(p.numel() * p.element_size() for p in self.model.parameters())

    def forward(self, x, target):
        with torch.autocast(self.device.kind, dtype=torch.bfloat16, enabled=self.autocast):
            return self.net.loss(self.model(x), target)

    def step(self, x, target):
        """Submits one step. Returns its loss and the marks before it and after forward, backward and optimizer."""
        d = self.device
        marks = [d.mark()]
        loss = self.forward(x, target)
        marks.append(d.mark())
        loss.backward()
        marks.append(d.mark())
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        marks.append(d.mark())
        return loss, marks


def ready_curve(session, x, target):
    """Share of the bytes of gradients that are ready after 10 %, 20 % ... of backward."""
    d = session.device
    seen, hooks = [], []

    def ready(p):
        seen.append((p.numel() * p.element_size(), d.mark()))

    for p in session.model.parameters():
        if hasattr(p, "register_post_accumulate_grad_hook"):
            hooks.append(p.register_post_accumulate_grad_hook(ready))
        else:
            hooks.append(p.register_hook(lambda _, p=p: ready(p)))
    try:
        _, marks = session.step(x, target)
        d.sync()
    finally:
        for hook in hooks:
            hook.remove()
    whole = d.between(marks[1], marks[2])
    total = sum(n for n, _ in seen)
    if total == 0 or whole <= 0:
        return [""] * CURVE
    at = [(d.between(marks[1], mark) / whole, n) for n, mark in seen]
    return [f"{sum(n for when, n in at if when <= i / CURVE + 1e-9) / total:.4f}" for i in range(1, CURVE)] + ["1.0000"]


def launch_and_busy(session, x, target, step_s):
    """Host time to submit a step to an idle device; device time of a step that the host does not hold up."""
    d = session.device
    launches = []
    tries = 3 if step_s < 0.2 else 1
    for _ in range(tries):
        d.sync()
        begin = time.perf_counter()
        session.step(x, target)
        launches.append(time.perf_counter() - begin)
    launch = min(median(launches), step_s * 1.2)
    if not d.cuda:
        return launch, step_s
    busy = []
    for _ in range(tries):
        d.sync()
        d.stall(min(launch * 1.5 + 0.001, 1.0))
        _, marks = session.step(x, target)
        d.sync()
        busy.append(d.between(marks[0], marks[3]))
    return launch, median(busy)


def warm(session, batch, deadline):
    """Runs steps until kernels are chosen and memory is allocated. Returns the input, the target and the last step's time."""
    d = session.device
    x, target = session.net.example(batch, d.kind, session.channels_last)
    last = 0
    for i in range(3):
        d.sync()
        begin = time.perf_counter()
        loss, _ = session.step(x, target)
        loss.item()
        last = time.perf_counter() - begin
        if i >= 1 and (last > 0.5 or time.monotonic() > deadline):
            break
    return x, target, last


def measure(session, batch, box_s, deadline):
    """The columns from `steps` on. Raises what the device raises."""
    d = session.device
    d.forget()
    x, target, last = warm(session, batch, deadline)
    d.sync()
    persistent = d.allocated()
    count = int(min(max(box_s / max(last, 1e-5), 4), 200))
    rows, walls = [], []
    for _ in range(count):
        d.sync()
        begin = time.perf_counter()
        loss, marks = session.step(x, target)
        loss.item()
        d.sync()
        walls.append(time.perf_counter() - begin)
        del loss
        rows.append([d.between(a, b) for a, b in zip(marks, marks[1:])] + [d.between(marks[0], marks[3])])
        if time.monotonic() > deadline and len(rows) >= 4:
            break
    peak, reserved = d.peaks()
    step_s = median([r[3] for r in rows])
    launch, busy = launch_and_busy(session, x, target, median(walls))
    curve = ready_curve(session, x, target)
    times = [median([r[i] for r in rows]) for i in range(3)] + [step_s, median(walls), launch, busy]
    return [len(rows)] + [f"{t:.7f}" for t in times] \
        + [peak, persistent, reserved, session.parameter_bytes(), session.net.host_bytes(batch)] \
        + [f"{q:.7f}" for q in quantiles([r[3] for r in rows], QUANTILES)] + curve


def estimate(known, batch):
    """Seconds of one step at this batch, from the largest smaller batch that was measured; 0 when none was."""
    below = [(b, s) for b, s in known if b <= batch]
    if not below:
        return 0
    b, s = max(below)
    return s * batch / b

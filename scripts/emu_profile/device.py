# SPDX-License-Identifier: Apache-2.0
"""The device that is measured: marks on its stream, its memory, and its names. The cpu is for trying the script out."""
import subprocess
import time

import torch


class Device:
    def __init__(self, kind):
        self.kind = kind
        self.cuda = kind == "cuda"
        if self.cuda:
            torch.cuda.init()
            self.name = torch.cuda.get_device_name().replace(" ", "_").replace(",", "")
            self.total = torch.cuda.get_device_properties(0).total_memory
            self.cycles = self.cycles_per_s()
        else:
            self.name, self.total = "cpu", 1 << 34
        self.driver = self.ask_driver()

    def cycles_per_s(self):
        """Cycles of torch's sleep kernel per second, by a sleep that wakes the clocks and one that is timed."""
        for _ in range(2):
            first = self.mark()
            torch.cuda._sleep(20_000_000)
            second = self.mark()
            self.sync()
        return 20_000_000 / self.between(first, second)

    def ask_driver(self):
        if not self.cuda:
            return "none"
        try:
            done = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
                                  capture_output=True, text=True, timeout=20, check=True)
            return done.stdout.strip().splitlines()[0]
        except (OSError, subprocess.SubprocessError, IndexError):
            return "unknown"

    def sync(self):
        if self.cuda:
            torch.cuda.synchronize()

    def mark(self):
        """A point on the current stream."""
        if not self.cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, first, second):
        """Seconds from one mark to the other; both have been passed."""
        return first.elapsed_time(second) / 1e3 if self.cuda else second - first

    def stall(self, seconds):
        """Keeps the stream busy for about this long, so that what is submitted now waits behind it."""
        if self.cuda:
            torch.cuda._sleep(int(seconds * self.cycles))

    def forget(self):
        """Gives cached memory back and starts the peaks anew."""
        if self.cuda:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def peaks(self):
        """Peak of allocated and of reserved bytes since forget()."""
        return (torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()) if self.cuda else (0, 0)

    def allocated(self):
        return torch.cuda.memory_allocated() if self.cuda else 0

    def used(self):
        """Bytes that the whole process holds on the device, with the context and libraries."""
        if not self.cuda:
            return 0
        free, total = torch.cuda.mem_get_info()
        return total - free

    def out_of_memory(self, error):
        return isinstance(error, getattr(torch.cuda, "OutOfMemoryError", ())) or "out of memory" in str(error)


def quantiles(values, n):
    """n quantiles at (i + 0.5) / n, linear between the values."""
    values = sorted(values)
    out = []
    for i in range(n):
        at = min(max((i + 0.5) / n * len(values) - 0.5, 0), len(values) - 1)
        low = int(at)
        high = min(low + 1, len(values) - 1)
        out.append(values[low] + (values[high] - values[low]) * (at - low))
    return out


def median(values):
    return quantiles(values, 1)[0]

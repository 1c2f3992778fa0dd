# SPDX-License-Identifier: Apache-2.0
"""Images whose samples may be worked on near the data: what is measured, and the plan of an epoch (docs/prep.md).

The first epoch reads every sample as it is stored and learns where samples are. Each later epoch has a plan: the form in
which each sample is asked for, raw, cut or as pixels. It follows from five speeds: accelerator, processors of the client,
network, disks, and processors of each node. Speeds are corrected after each epoch by what was seen.
"""
import io
import time

import numpy

from . import _errors, _terrane
from ._dataset import _room

PREP = numpy.dtype([(name, "<u4") for name in (
    "form", "x", "y", "width", "height", "out_width", "out_height", "got", "reason", "source_crc", "crc", "got_x", "got_y",
    "unknown")] + [("bytes", "<u8"), ("node", "<u8"), ("node_ns", "<u8")])
RAW, CUT, PIXELS = range(3)
MODES = ("auto", "off", "cut", "pixels")
PROFILE_BATCHES = 50
PROFILE_SECONDS = 10
PLAN_SAMPLES = 1 << 20  # samples that are planned together
# Reasons that say the same of the sample in every epoch: damaged, unsupported, too large, outside, scattered.
NEVER = (2, 3, 4, 5, 10)
BUSY = 8
SLOWER = 1.01  # an epoch that takes more than this of one without operations was planned badly


class Traffic:
    """What an epoch read: samples, bytes of their files, bytes that came, samples that nodes worked on, and why the others
    that were asked for came as they are."""

    def __init__(self, epoch):
        self.epoch, self.samples, self.file_bytes, self.bytes = epoch, 0, 0, 0
        self.offloaded, self.asked, self.node_seconds, self.reasons = 0, 0, 0.0, {}

    def add(self, preps, entries):
        worked, asked = preps["got"] != RAW, preps["form"] != RAW
        self.samples += len(preps)
        self.file_bytes += int(entries["size"].sum(dtype=numpy.uint64))
        self.bytes += int(preps["bytes"].sum(dtype=numpy.uint64))
        self.offloaded += int(worked.sum())
        self.asked += int(asked.sum())
        self.node_seconds += float(preps["node_ns"].sum(dtype=numpy.uint64)) / 1e9
        for number, count in zip(*numpy.unique(preps["reason"][asked & ~worked], return_counts=True)):
            text = _terrane.prep_reason(int(number))
            self.reasons[text] = self.reasons.get(text, 0) + int(count)

    @property
    def ratio(self):
        """Bytes that came by bytes of the files."""
        return self.bytes / self.file_bytes if self.file_bytes else 1.0

    def __repr__(self):
        why = "".join(f", {count} {text}" for text, count in sorted(self.reasons.items()))
        return (f"<epoch {self.epoch}: {self.samples} samples, {self.bytes} of {self.file_bytes} bytes, "
                f"{self.offloaded} near the data{why}>")


class Times:
    """Seconds of an epoch: all, waiting for batches, and of the threads: waiting for reads, decoding."""

    def __init__(self):
        self.begun, self.epoch_s, self.waited_s, self.read_s, self.decode_s = time.monotonic(), 0.0, 0.0, 0.0, 0.0
        self.away = False  # the cluster did not answer for a time, so that the times say nothing


class Speeds:
    """What an epoch is limited by. Times are seconds, rates bytes per second; 0: not known."""

    def __init__(self, client_cores, node_cores, bandwidth):
        self.given = bandwidth > 0  # the rate of the network is known and not measured
        self.bandwidth, self.accelerator_s = float(bandwidth), 0.0
        self.client_cores, self.node_cores = float(client_cores), float(node_cores)
        self.client_factor = self.node_factor = 1.0  # measured times by those of the model
        self.raw_s = 0.0  # of an epoch without operations, per sample

    def network_first(self, entries, client_s):
        """Whether the network is the slowest part of an epoch in which nothing is offloaded."""
        network = float(entries["size"].sum(dtype=numpy.uint64)) / self.bandwidth
        return network > max(len(entries) * self.accelerator_s, client_s * self.client_factor / self.client_cores)


class Near:
    """The decisions for one job and what it reads: a `Dataset`, a `Subset` or a `Mix`."""

    def __init__(self, dataset, seed, size, mode, client_cores, node_cores, bandwidth=0, policy="terrane", part=""):
        self.dataset, self.seed, self.size, self.mode, self.policy, self.part = dataset, seed, size, mode, policy, part
        self.speeds = Speeds(client_cores, node_cores, bandwidth)
        self.plan = None  # (bytes, seconds, CPU seconds of nodes, samples) that the plan of the epoch expects
        self.epoch = None
        self.nodes = {}  # number of a node -> its index
        self._again = False  # the next epoch measures again, without operations
        if mode == "auto":
            self._node = numpy.zeros(dataset._span, numpy.uint16)  # index of the sample's node
            self._never = numpy.zeros(dataset._span, numpy.uint8)
            self._form = numpy.zeros(dataset._span, numpy.uint8)

    # --- requests

    def requests(self, epoch, entries):
        """The operations for these samples, and their flips."""
        preps, flips = numpy.zeros(len(entries), PREP), numpy.zeros(len(entries), numpy.uint8)
        _terrane.prep_draw(entries, self.seed, epoch, self.size, preps, flips)
        known = preps["unknown"] == 0
        if self.mode == "auto":
            preps["form"] = self._form[entries["sample"]]
        elif self.mode != "off":
            preps["form"][known] = CUT if self.mode == "cut" else PIXELS
        return preps, flips

    def start(self, epoch, numbers, allocate):
        """Starts to read the images of samples. Returns (the read, operations, flips)."""
        made = []

        def prepare(entries):
            made.extend(self.requests(epoch, entries))
            return made[0]
        reading = self.dataset._start(numbers, allocate, prepare, self.part)
        return reading, *made

    # --- stage 2: what reads tell

    def learn(self, entries, preps):
        """Notes where samples are, and which come as they are whatever is asked for."""
        if self.mode != "auto":
            return
        numbers = entries["sample"]
        for node in numpy.unique(preps["node"]).tolist():
            if node:
                index = self.nodes.setdefault(node, len(self.nodes))
                self._node[numbers[preps["node"] == node]] = index % (1 << 16)
        asked = (preps["form"] != RAW) & (preps["got"] == RAW)
        self._never[numbers[asked & numpy.isin(preps["reason"], NEVER)]] = 1

    # --- the plan

    def _pieces(self, numbers):
        for i in range(0, len(numbers), PLAN_SAMPLES):
            yield self.dataset._lookup(numbers[i:i + PLAN_SAMPLES], self.part)

    def begin(self, epoch, numbers):
        """Plans an epoch that reads these samples; raw for all while a speed is not known or the network is fast enough."""
        self.epoch, self.plan = epoch, None
        if self.mode != "auto":
            return
        speeds = self.speeds
        self._form[:] = RAW
        if not speeds.bandwidth or not self.nodes or not speeds.node_cores or self._again:
            self._again = False
            return
        total = numpy.zeros(4)
        for entries in self._pieces(numbers):
            preps, _ = self.requests(epoch, entries)
            forms = numpy.zeros(len(entries), numpy.uint8)
            client_s, _ = _terrane.prep_cost(entries, preps, forms)
            if not speeds.network_first(entries, client_s):
                continue
            where = numpy.ascontiguousarray(self._node[entries["sample"]], numpy.uint32)
            total += _terrane.prep_plan(
                self.policy, entries, preps, where, numpy.ascontiguousarray(self._never[entries["sample"]]), forms,
                (speeds.bandwidth, 0.0, speeds.accelerator_s, speeds.client_cores, speeds.node_cores, len(self.nodes)),
                (speeds.client_factor, speeds.node_factor))
            self._form[entries["sample"]] = forms
        self.plan = tuple(total)

    def end(self, traffic, times, modelled_node_s):
        """Corrects speeds by what an epoch took."""
        speeds, each = self.speeds, times.epoch_s / max(1, traffic.samples)
        if self.mode != "auto" or not traffic.samples or times.epoch_s <= 0 or times.away:
            return
        speeds.accelerator_s = max(0.0, times.epoch_s - times.waited_s) / traffic.samples
        seen = traffic.bytes / times.epoch_s
        limited = times.waited_s > times.epoch_s / 5 and times.read_s > times.decode_s  # by reads
        if not speeds.given:
            speeds.bandwidth = seen if limited and not traffic.asked else max(seen, speeds.bandwidth)
        if not traffic.asked:
            speeds.raw_s = each
            return
        if traffic.node_seconds and modelled_node_s:
            speeds.node_factor = traffic.node_seconds / modelled_node_s
        busy = traffic.reasons.get(_terrane.prep_reason(BUSY), 0) / traffic.asked
        slower = bool(speeds.raw_s) and each > SLOWER * speeds.raw_s
        self._again = slower
        if busy > 0.02 or slower:
            speeds.node_cores *= max(0.25, min(0.75, 1 - busy))
            if speeds.node_cores < 0.05:
                speeds.node_cores = 0.0
        else:
            speeds.node_cores = min(speeds.node_cores * 1.25, 1024.0)


def modelled_node_s(entries, preps):
    """The seconds that the model gives the nodes for what they did."""
    return _terrane.prep_cost(entries, preps, preps["got"].astype(numpy.uint8))[1]


# --- tensors ------------------------------------------------------------------------------------------------------------

def _decode(near, epoch, entry, data, out):
    """The tensor of a sample that the library does not decode, by Pillow: other formats, CMYK, images that EXIF rotates."""
    try:
        from PIL import Image
    except ImportError as e:
        raise ImportError(f"sample {entry['sample']} is not a JPEG file that Terrane decodes: install Pillow") from e
    sample, size = int(entry["sample"]), near.size
    try:
        with Image.open(io.BytesIO(data)) as opened:
            image = opened.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as e:
        raise _errors.make(74, f"sample {sample} is no image that can be decoded: {e}", near.dataset.path) from e
    x, y, width, height, flip = _terrane.prep_draw_one(near.seed, epoch, sample, *image.size)
    image = image.crop((x, y, x + width, y + height)).resize((size, size), Image.BILINEAR)
    _terrane.prep_tensor(bytearray(image.tobytes()), size, flip, out)


def tensors(near, epoch, batch, preps, flips):
    """A batch as an array of 3 * size * size floats for each sample, normalized as torchvision's models want it."""
    n, size = len(batch), near.size
    out, left = numpy.empty((n, 3, size, size), numpy.float32), numpy.zeros(n, numpy.uint8)
    _terrane.prep_finish(batch.entries, preps, batch.data, flips, size, out, left)
    for i in numpy.flatnonzero(left).tolist():
        if preps[i]["got"] != RAW:
            raise _errors.make(74, f"a node sent a form of sample {batch.entries[i]['sample']} that cannot be decoded",
                               near.dataset.path)
        _decode(near, epoch, batch.entries[i], batch[i].data, out[i])
    return out


# --- stage 1: the rates of reading and of decoding, each alone ----------------------------------------------------------

def profile(near, epoch, batches, prefetch, threads):
    """Measures reads alone and the client's processors alone on up to 50 batches, and sets the speeds. Returns the seconds
    (reading, decoding) and the bytes. The accelerator alone is what the first epoch does not wait."""
    begun, readings, kept, count, total = time.monotonic(), [], None, 0, 0
    for numbers in batches:
        readings.append(near.start(epoch, numbers, _room))
        count += 1
        if len(readings) >= prefetch:
            kept = readings.pop(0)
            total += kept[0].wait().data.nbytes
        if count >= PROFILE_BATCHES or time.monotonic() - begun > PROFILE_SECONDS:
            break
    for kept in readings:
        total += kept[0].wait().data.nbytes
    read_s = time.monotonic() - begun
    if kept is None or not total:
        return 0.0, 0.0, 0
    reading, preps, flips = kept
    batch, begun, rounds = reading.wait(), time.process_time(), 0
    while not rounds or (rounds < PROFILE_BATCHES and time.process_time() - begun < 1):
        tensors(near, epoch, batch, preps, flips)
        rounds += 1
    decode_s = (time.process_time() - begun) / rounds
    modelled, _ = _terrane.prep_cost(batch.entries, preps, numpy.zeros(len(batch), numpy.uint8))
    if not near.speeds.given:
        near.speeds.bandwidth = total / read_s
    if modelled:
        near.speeds.client_factor = decode_s / modelled
        near.speeds.node_factor = near.speeds.client_factor  # until a node has told
    near.speeds.client_cores = max(1, threads)
    return read_s, decode_s, total

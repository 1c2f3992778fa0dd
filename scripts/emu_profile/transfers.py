# SPDX-License-Identifier: Apache-2.0
"""Copies between host and device by size, direction and pinning; decoding of JPEG by image size and batch."""
import time

import torch

from device import median, quantiles

COPY_COLUMNS = ["device", "driver", "torch", "direction", "pinned", "bytes", "copies", "host_s", "device_s", "q10_s", "q90_s"]
DECODE_COLUMNS = ["device", "driver", "torch", "decoder", "width", "height", "file_bytes", "batch", "rounds", "wall_s",
                  "host_cpu_s", "q10_s", "q90_s", "held_bytes"]

SIZES = [4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30]
IMAGES = [(256, 256), (500, 375), (1024, 768), (2048, 1536)]
BATCHES = [1, 2, 4, 8, 16, 32, 64, 128, 256]


def copies(device, small):
    """Yields rows of COPY_COLUMNS from `direction` on."""
    for size in SIZES[:4] if small else SIZES:
        for pinned in (0, 1):
            try:
                host = torch.empty(size, dtype=torch.uint8, pin_memory=bool(pinned) and device.cuda)
                there = torch.empty(size, dtype=torch.uint8, device=device.kind)
            except RuntimeError as error:
                print(f"copies of {size} bytes, pinned {pinned}: {str(error).splitlines()[0]}", flush=True)
                continue
            host.fill_(1)
            for direction, to, source in (("h2d", there, host), ("d2h", host, there)):
                yield [direction, pinned, size] + time_copy(device, to, source, bool(pinned))


def time_copy(device, to, source, asynchronous):
    host_s, device_s = [], []
    begin = time.monotonic()
    for i in range(53):
        device.sync()
        start = time.perf_counter()
        first = device.mark()
        to.copy_(source, non_blocking=asynchronous)
        second = device.mark()
        submitted = time.perf_counter() - start
        device.sync()
        if i >= 3:
            host_s.append(submitted)
            device_s.append(device.between(first, second))
        if i >= 8 and time.monotonic() - begin > 0.25:
            break
    q = quantiles(device_s, 5)
    return [len(device_s)] + [f"{t:.7f}" for t in (median(host_s), median(device_s), q[0], q[4])]


def picture(width, height):
    """A JPEG as detailed as a photograph: smooth shapes with noise, quality 90."""
    from torchvision.io import encode_jpeg
    y, x = torch.meshgrid(torch.linspace(0, 9, height), torch.linspace(0, 12, width), indexing="ij")
    smooth = torch.stack([torch.sin(x + i) * torch.cos(y * (i + 1)) for i in range(3)]) * 90 + 128
    noise = torch.randn(3, height, width, generator=torch.Generator().manual_seed(width)) * 6
    return encode_jpeg((smooth + noise).clamp(0, 255).to(torch.uint8), quality=90)


def decodes(device, small, deadline):
    """Yields rows of DECODE_COLUMNS from `decoder` on: nvJPEG on the device, and one core of the host."""
    try:
        from torchvision.io import ImageReadMode, decode_jpeg
    except ImportError as error:
        print(f"no decoding measured: {error}", flush=True)
        return
    torch.set_num_threads(max(torch.get_num_threads(), 1))
    for width, height in IMAGES[:1] if small else IMAGES:
        file = picture(width, height)
        yield time_decode(lambda _: decode_jpeg(file, mode=ImageReadMode.RGB), device, ("cpu", width, height, file, 1))
        if not device.cuda:
            continue
        for batch in BATCHES:
            if time.monotonic() > deadline or batch * width * height * 3 > 6 << 30:
                break
            files = [file.clone() for _ in range(batch)]
            try:
                yield time_decode(lambda f: decode_jpeg(f, mode=ImageReadMode.RGB, device="cuda"), device,
                                  ("nvjpeg", width, height, files, batch))
            except (RuntimeError, TypeError) as error:
                print(f"nvjpeg {width}x{height} x {batch}: {str(error).splitlines()[0]}", flush=True)
                return


def time_decode(decode, device, what):
    decoder, width, height, files, batch = what
    walls, cpu = [], []
    begin = time.monotonic()
    for i in range(33):
        device.sync()
        start, before = time.perf_counter(), time.process_time()
        decode(files)
        device.sync()
        if i >= 2:
            walls.append(time.perf_counter() - start)
            cpu.append(time.process_time() - before)
        if i >= 6 and time.monotonic() - begin > 0.3:
            break
    length = files[0].numel() if isinstance(files, list) else files.numel()
    held = device.used() - (torch.cuda.memory_reserved() if device.cuda else 0)
    q = quantiles(walls, 5)
    return [decoder, width, height, length, batch, len(walls)] \
        + [f"{t:.7f}" for t in (median(walls), median(cpu), q[0], q[4])] + [held]

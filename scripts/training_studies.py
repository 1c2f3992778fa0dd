# SPDX-License-Identifier: Apache-2.0
"""Experiments of sections 4.2 and 4.3 of the MLEC dissertation in virtual time (terrane train --clock virtual). Steps of
models on a V100 are GPEmu's public numbers for a batch of 128; an image of ImageNet has 110 KiB.
"""
import training_figures as figures
from training_figures import head, train

# seconds of a step of 128 images on a V100: forward, backward and optimizer
STEPS = {"alexnet": 0.0333, "shufflenet_v2_x1_0": 0.0600, "mobilenet_v2": 0.1512, "resnet18": 0.1305, "vgg11": 0.2933,
         "resnet50": 0.3848}
IMAGE = 110 * 1024
# One CPU prepares an image in this time: 3 CPUs feed one ResNet-50 (the dissertation), which trains 333 images in a second.
PREP = "9ms"
DISK = {"virtual.racks": 1, "virtual.encoding": "r1", "virtual.block": "16MiB"}
JOB = {"data.sample": IMAGE, "loader.workers": 4}


def run(values):
    return train({**JOB, **DISK, **values})


def whole(result, job=0):
    return result["jobs"][job]["all"]


def model(name, batch=128):
    return {"model.step": f"{int(1e6 * STEPS[name] * batch / 128)}us", "model.batch": batch}


def study_46a():
    head("4.6a: fetch stalls with 35 % of the data in memory; 8 V100, a SATA flash drive, third epoch and later", "model",
         ["page cache (lru)", "minio"], "the dissertation")
    told = {"alexnet": "26 % (the DS paper: 40 %), the largest", "vgg11": "the smallest"}
    samples = 4096
    for name in STEPS:
        cells = []
        for policy in ("lru", "minio"):
            result = run({**model(name, 32), "device.count": 8, "data.samples": samples, "virtual.drive": "sata",
                          "loader.workers": 16, "data.cache": int(0.35 * samples * IMAGE), "data.cache_policy": policy,
                          "train.epochs": 3})
            last = result["jobs"][0]["epochs"][-1]
            cells.append(100 * last["wait_s"] / last["elapsed_s"])
        print(f"| {name} | {' | '.join(f'{c:.1f} %' for c in cells)} | {told.get(name, '')} |", flush=True)


def epoch_s(values):
    """Seconds of the last of three epochs, and the share of its bytes that the cache had in epochs 2 and 3."""
    job = run({**values, "train.epochs": 3})["jobs"][0]
    return job["epochs"][-1]["elapsed_s"], job["cached_bytes"] / (2 * job["data_bytes"])


def study_46b():
    head("4.6b: an epoch of resnet18 against the share in memory, a hard disk, 1024 images", "share in memory",
         ["page cache (lru): s", "minio: s", "hits lru", "hits minio"], "the dissertation")
    told = {40: "5.2 times slower than with 100 %; 270 s of stalls with the page cache, 158 s ideal"}
    for share in (20, 40, 60, 80, 100):
        got = [epoch_s({**model("resnet18", 32), "data.samples": 1024, "virtual.drive": "hdd",
                        "data.cache": int(share * 1024 * IMAGE / 100), "data.cache_policy": p}) for p in ("lru", "minio")]
        times = " | ".join(f"{g[0]:.2f}" for g in got) + " | " + " | ".join(f"{100 * g[1]:.0f} %" for g in got)
        print(f"| {share} % | {times} | {told.get(share, '')} |", flush=True)


def study_46c():
    counts = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
    head("4.6c: images per second of one V100 against CPUs, 9 ms of a CPU for an image", "CPUs", STEPS)
    told = {3: "enough for resnet50", 24: "enough for alexnet"}
    series = {name: [] for name in STEPS}
    for cores in counts:
        for name in STEPS:
            rate = whole(run({**model(name), "data.from": "memory", "data.samples": 128 * 60, "loader.prep": PREP,
                              "loader.cores": cores, "loader.workers": 2 * cores, "train.skip_first": "true"}))
            series[name].append((cores, rate["samples_per_s"]))
        print(f"| {cores} | {' | '.join(f'{s[-1][1]:.0f}' for s in series.values())} | {told.get(cores, '')} |", flush=True)
    return figures.svg.lines("4.6c: CPUs for a V100", "CPUs", "images/s", list(series.items()))


def study_410():
    head("4.10: epoch of resnet18 on N hosts with 8 V100 each, each caching alone or a part (minio, CoorDL); a hard disk in each "
         "host; a hit in another host costs nothing", "hosts", ["65 % each: speed-up", "40 % each: speed-up"], "the dissertation")
    told = {1: "3 times at 65 %", 2: "6 times at 65 %: the caches hold everything"}
    samples = 6144
    for hosts in (1, 2, 3):
        cells = []
        for share in (0.65, 0.40):
            common = {**model("resnet18", 32), "device.count": 8, "virtual.drive": "hdd", "data.samples": samples,
                      "loader.workers": 16, "train.steps": samples // 256 // hosts, "device.ring": 8 * hosts}
            base, _ = epoch_s({**common, "data.cache": int(share * samples * IMAGE)})
            parts, _ = epoch_s({**common, "data.cache": int(min(1, hosts * share) * samples * IMAGE),
                                "data.cache_policy": "minio", "train.epochs": 3})
            cells.append(base / parts)
        print(f"| {hosts} | {' | '.join(f'{c:.1f} times' for c in cells)} | {told.get(hosts, '')} |", flush=True)


SCHEDULED = [(name, gpus, images) for i in range(8) for name, gpus, images in
             (("alexnet", 1, 4e6 * (1 + i % 3)), ("resnet50", 2, 1.5e6 * (1 + i % 4)), ("vgg11", 1, 1e6 * (1 + i % 2)),
              ("resnet18", 4, 8e6))]


def job_rate(name, gpus, cpus):
    """Images per second of a job: the slower of its GPUs and its CPUs (4.6c shows that trainings reach this)."""
    return min(gpus * 128 / STEPS[name], cpus / (float(PREP[:-2]) / 1e3))


def average_jct(policy, sensitive, gpus=16, cpus=48):
    """Average completion time in hours of SCHEDULED, one job each 5 minutes, on one cluster, in rounds of a minute."""
    jobs = [{"name": n, "gpus": g, "left": images, "arrival": 300 * i, "served": 0} for i, (n, g, images) in enumerate(SCHEDULED)]
    order = {"FIFO": lambda j: j["arrival"], "SRTF": lambda j: j["left"] / job_rate(j["name"], j["gpus"], cpus * j["gpus"] / gpus),
             "LAS": lambda j: j["served"]}[policy]
    now, done = 0, []
    while len(done) < len(jobs):
        free, running = gpus, []
        for j in sorted((j for j in jobs if j["left"] > 0 and j["arrival"] <= now), key=order):
            if j["gpus"] <= free:
                free -= j["gpus"]
                running.append(j)
        want = {id(j): j["gpus"] * 128 / STEPS[j["name"]] * float(PREP[:-2]) / 1e3 for j in running}
        total = sum(want.values())
        for j in running:
            share = cpus * j["gpus"] / gpus
            if sensitive:  # what a job needs, and the rest by need (Synergy)
                share = want[id(j)] if total <= cpus else cpus * want[id(j)] / total
            j["left"] -= 60 * job_rate(j["name"], j["gpus"], share)
            j["served"] += 60 * j["gpus"]
            if j["left"] <= 0:
                done.append(now + 60 - j["arrival"])
        now += 60
    return sum(done) / len(done) / 3600


def study_412():
    head("4.12: average completion time of 32 jobs on 16 V100 and 48 CPUs", "policy",
         ["CPUs by GPUs: h", "CPUs by need: h", "shorter by"], "the dissertation")
    for policy in ("FIFO", "SRTF", "LAS"):
        plain, tuned = (average_jct(policy, sensitive) for sensitive in (False, True))
        print(f"| {policy} | {plain:.2f} | {tuned:.2f} | {100 * (1 - tuned / plain):.0f} % | Synergy shortens it for each policy |",
              flush=True)


def study_416():
    head("4.16: an epoch of alexnet against the cache, 1024 images whose sizes spread as ImageNet's, a hard disk", "share in memory",
         ["page cache (lru): s", "minio: s", "small files first: s", "against minio"], "the dissertation")
    told = {20: "28 % less than minio", 40: "537, 394 s (page cache, minio)"}
    for share in (20, 40, 60, 80):
        times = [epoch_s({**model("alexnet", 32), "data.samples": 1024, "virtual.drive": "hdd", "virtual.spread": 50,
                          "data.cache": int(share * 1024 * IMAGE / 100), "data.cache_policy": p})[0]
                 for p in ("lru", "minio", "small")]
        print(f"| {share} % | {' | '.join(f'{t:.2f}' for t in times)} | {100 * (1 - times[2] / times[1]):.0f} % less "
              f"| {told.get(share, '')} |", flush=True)


def study_417():
    head("4.17: an epoch of alexnet in batches of 16, 4 workers, a hard disk, 1024 images", "reads of a worker",
         ["s", "against one by one"], "the dissertation")
    first = None
    for what, values, told in (("one by one", {"loader.at_once": 1}, "PyTorch's loader"), ("a batch", {}, "19 % less"),
                               ("2 batches", {"loader.workers": 8}, "superbatch: up to 50 % less"),
                               ("4 batches", {"loader.workers": 16}, ""), ("8 batches", {"loader.workers": 32}, "little more")):
        took = whole(run({**model("alexnet", 16), "data.samples": 1024, "virtual.drive": "hdd", **values}))["elapsed_s"]
        first = first or took
        print(f"| {what} | {took:.2f} | {100 * (1 - took / first):.0f} % less | {told} |", flush=True)


def study_418():
    head("4.18: an epoch of alexnet, 4096 images in groups that are read together, a hard disk, 4 workers that read one group at "
         "a time", "images in a group", ["s", "faster"], "the dissertation")
    told = {1: "498 s", 8: "2.4 times", 32: "more brings nothing"}
    first = None
    for group in (1, 2, 4, 8, 16, 32, 64):
        took = whole(run({"model.step": f"{int(1e6 * STEPS['alexnet'])}us", "model.batch": 128 // group, "loader.at_once": 1,
                          "data.sample": group * IMAGE, "data.samples": 4096 // group, "virtual.drive": "hdd"}))["elapsed_s"]
        first = first or took
        print(f"| {group} | {took:.2f} | {first / took:.1f} times | {told.get(group, '')} |", flush=True)


def study_414():
    """Job 1 runs alone for 30 s, job 2 joins, job 3 joins after 60 s; they end in reverse order."""
    step, seconds = STEPS["resnet50"], 5
    values = {"data.from": "memory", "model.step": f"{int(1e6 * step)}us", "model.batch": 128, "device.copies": "none",
              "device.shared": "gpu", "device.sharing": "iteration", "loader.workers": 2}
    jobs = [{"train.delay": "0s", "data.samples": 128 * 220}, {"train.delay": "30s", "data.samples": 128 * 110},
            {"train.delay": "60s", "data.samples": 128 * 30}]
    result = figures.train_files([{**values, **j} for j in jobs], {**DISK, "virtual.timeline": f"{seconds}s"})
    lines = [[n / seconds for n in line] for line in result["virtual"]["timelines"]]
    head("4.14: images per second of three jobs that share a V100 by iteration", "s", ["job 1", "job 2", "job 3"])
    for at in range(0, len(lines[0]), 3):
        print(f"| {at * seconds} | {' | '.join(f'{line[at]:.0f}' for line in lines)} | "
              f"{'220 alone, a half with two jobs, a third with three' if at == 0 else ''} |")
    return figures.svg.lines("4.14: three jobs share a V100", "s", "images/s",
                             [(f"job {i + 1}", [(seconds * k, n) for k, n in enumerate(line)]) for i, line in enumerate(lines)])


STUDIES = {"4.6a": study_46a, "4.6b": study_46b, "4.6c": study_46c, "4.10": study_410, "4.12": study_412, "4.14": study_414,
           "4.16": study_416, "4.17": study_417, "4.18": study_418}

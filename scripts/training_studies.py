# SPDX-License-Identifier: Apache-2.0
"""Experiments of sections 4.2 and 4.3 of the MLEC dissertation in virtual time (terrane train --clock virtual). Steps of
models on a V100 are GPEmu's public numbers for a batch of 128; an image of ImageNet has 110 KiB.
"""
import random

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
    samples, drawn = 4096, []
    for name in STEPS:
        cells = []
        for policy in ("lru", "minio"):
            result = run({**model(name, 32), "device.count": 8, "data.samples": samples, "virtual.drive": "sata",
                          "loader.workers": 16, "data.cache": int(0.35 * samples * IMAGE), "data.cache_policy": policy,
                          "train.epochs": 3})
            last = result["jobs"][0]["epochs"][-1]
            cells.append(100 * last["wait_s"] / last["elapsed_s"])
        drawn.append(cells)
        print(f"| {name} | {' | '.join(f'{c:.1f} %' for c in cells)} | {told.get(name, '')} |", flush=True)
    return bars("4.6a: fetch stalls, 35 % of the data in memory", "stalls (% of an epoch)", STEPS, ("page cache", "minio"), drawn)


def bars(title, y_label, groups, names, rows):
    """A drawing of a table: a row for each group, a value for each name."""
    return figures.svg.bars(title, y_label, list(groups), [(n, [row[i] for row in rows]) for i, n in enumerate(names)])


def epoch_s(values, epochs=3):
    """Seconds of the last of some epochs, and the share of its bytes that the cache had in those after the first."""
    job = run({**values, "train.epochs": epochs})["jobs"][0]
    return job["epochs"][-1]["elapsed_s"], job["cached_bytes"] / ((epochs - 1) * job["data_bytes"])


def study_46b():
    head("4.6b: an epoch of resnet18 against the share in memory, a hard disk, 1024 images", "share in memory",
         ["page cache (lru): s", "minio: s", "hits lru", "hits minio"], "the dissertation")
    told = {40: "5.2 times slower than with 100 %; 270 s of stalls with the page cache, 158 s ideal"}
    shares, drawn = (20, 40, 60, 80, 100), []
    for share in shares:
        got = [epoch_s({**model("resnet18", 32), "data.samples": 1024, "virtual.drive": "hdd",
                        "data.cache": int(share * 1024 * IMAGE / 100), "data.cache_policy": p}) for p in ("lru", "minio")]
        times = " | ".join(f"{g[0]:.2f}" for g in got) + " | " + " | ".join(f"{100 * g[1]:.0f} %" for g in got)
        drawn.append([g[0] for g in got])
        print(f"| {share} % | {times} | {told.get(share, '')} |", flush=True)
    return bars("4.6b: an epoch of resnet18", "s", (f"{s} % in memory" for s in shares), ("page cache", "minio"), drawn)


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
    samples, drawn = 6144, []
    for hosts in (1, 2, 3):
        cells = []
        for share in (0.65, 0.40):
            common = {**model("resnet18", 32), "device.count": 8, "virtual.drive": "hdd", "data.samples": samples,
                      "loader.workers": 16, "train.steps": samples // 256 // hosts, "device.ring": 8 * hosts}
            # A host reads an N-th of the data in an epoch, so that its cache takes as many more to fill.
            base, _ = epoch_s({**common, "data.cache": int(share * samples * IMAGE)}, 1 + 3 * hosts)
            parts, _ = epoch_s({**common, "data.cache": int(min(1, hosts * share) * samples * IMAGE),
                                "data.cache_policy": "minio"}, 1 + 3 * hosts)
            cells.append(base / parts)
        drawn.append(cells)
        print(f"| {hosts} | {' | '.join(f'{c:.1f} times' for c in cells)} | {told.get(hosts, '')} |", flush=True)
    return bars("4.10: CoorDL against caches for themselves", "times faster", ("1 host", "2 hosts", "3 hosts"), ("65 %", "40 %"), drawn)


def study_47():
    """The rate of the devices is that of 7 workers, where the dissertation's curve ends to rise; the shape is what is compared."""
    step = 128 / (7 * 4 / (float(PREP[:-2]) / 1e3))
    head("4.7: images per second of 4 GPUs with remote CPUs that prepare: workers of 4 CPUs each, 10 Gbit/s to the training host",
         "workers", ["images/s", "speed-up against 4 local CPUs"], "the dissertation")
    told = {7: "more brings little"}
    series, first = [], None
    for workers in (0, 1, 2, 4, 6, 7, 8, 10):
        cores = 4 * max(workers, 1)
        values = {"model.step": f"{int(1e6 * step)}us", "model.batch": 32, "device.count": 4, "device.copies": "none",
                  "data.sample": 3 * 224 * 224, "data.samples": 128 * 60, "loader.prep": PREP, "loader.cores": cores,
                  "loader.workers": min(2 * cores, 48), "loader.buffers": 64, "virtual.drive": "nvme", "virtual.racks": 4,
                  "virtual.encoding": "rs:3+1", "virtual.client_rate": 1250000000 if workers else 0, "train.skip_first": "true"}
        rate = whole(train({**JOB, **values}))["samples_per_s"]
        first = first or rate
        series.append((workers, rate / first))
        print(f"| {workers or 'local'} | {rate:.0f} | {rate / first:.1f} times | {told.get(workers, '')} |", flush=True)
    return figures.svg.lines("4.7: preparing on remote workers", "workers of 4 CPUs", "times faster", [("speed-up", series)])


def study_411():
    """One of N hosts that cache an N-th each. With the sampling order of LADL a host reads only what it caches itself."""
    head("4.11: epoch of one of N hosts with 8 V100 each, everything cached by one of them, 3 Gbit/s for a host", "model, hosts",
         ["any sample: s", "local samples first (LADL): s", "faster"], "the dissertation")
    samples, drawn, groups = 12288, [], []
    for name in ("alexnet", "resnet18"):
        for hosts in (2, 4):
            common = {**model(name, 32), "device.count": 8, "device.ring": 8 * hosts, "loader.workers": 16, "virtual.drive": "nvme",
                      "virtual.client_rate": 375000000, "data.cache": samples * IMAGE // hosts, "data.cache_policy": "minio",
                      "train.steps": samples // 256 // hosts, "device.copies": "none"}
            anything, _ = epoch_s({**common, "data.samples": samples})
            local, _ = epoch_s({**common, "data.samples": samples // hosts})
            drawn.append([anything, local])
            groups.append(f"{name}, {hosts}")
            told = "60 s, 12 s: 5 times" if hosts == 4 else ""
            print(f"| {name}, {hosts} | {anything:.2f} | {local:.2f} | {anything / local:.1f} times | {told} |", flush=True)
    return bars("4.11: reading from other hosts' caches", "s", groups, ("any sample", "local first"), drawn)


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
    drawn = []
    for policy in ("FIFO", "SRTF", "LAS"):
        plain, tuned = (average_jct(policy, sensitive) for sensitive in (False, True))
        drawn.append([plain, tuned])
        told = "LAS: 22 % shorter" if policy == "LAS" else ""
        print(f"| {policy} | {plain:.2f} | {tuned:.2f} | {100 * (1 - tuned / plain):.0f} % | {told} |", flush=True)
    return bars("4.12: average completion time of 32 jobs", "h", ("FIFO", "SRTF", "LAS"), ("CPUs by GPUs", "by need"), drawn)


def assignment(costs):
    """The column of each row so that the sum of costs is least (Hungarian method with potentials); rows <= columns."""
    rows, columns = len(costs), len(costs[0])
    u, v, owner = [0.0] * (rows + 1), [0.0] * (columns + 1), [0] * (columns + 1)
    for row in range(1, rows + 1):
        owner[0], at, least, before, seen = row, 0, [float("inf")] * (columns + 1), [0] * (columns + 1), [False] * (columns + 1)
        while owner[at]:
            seen[at], delta, following = True, float("inf"), 0
            for c in range(1, columns + 1):
                if seen[c]:
                    continue
                reduced = costs[owner[at] - 1][c - 1] - u[owner[at]] - v[c]
                if reduced < least[c]:
                    least[c], before[c] = reduced, at
                if least[c] < delta:
                    delta, following = least[c], c
            for c in range(columns + 1):
                if seen[c]:
                    u[owner[c]] += delta
                    v[c] -= delta
                else:
                    least[c] -= delta
            at = following
        while at:
            owner[at], at = owner[before[at]], before[at]
    result = [0] * rows
    for c in range(1, columns + 1):
        if owner[c]:
            result[owner[c] - 1] = c - 1
    return result


def mixed_jobs():
    """40 jobs: (arrival, hours on a GPU, hours on a CPU worker), 1.3 to 8.2 times slower there, as in the dissertation."""
    chance = random.Random(1)
    return [(0.05 * i, hours, hours * chance.uniform(1.3, 8.2)) for i in range(40) for hours in [chance.uniform(0.2, 2)]]


def mixed_jct(policy, gpus=4, cpus=8):
    """Average completion time of mixed_jobs() in hours. A worker runs one job at a time; the free ones choose when a job comes or
    ends. DRFF: in order of arrival; DRFS: the shortest first; Allox: by the assignment of all waiting jobs to places in the
    queues of all workers that gives the least sum of completion times, and jobs whose place is not the next one wait."""
    jobs, free_at = mixed_jobs(), [0.0] * (gpus + cpus)
    waiting, done, now = set(range(len(jobs))), 0.0, 0.0
    hours = [[job[1] if w < gpus else job[2] for w in range(gpus + cpus)] for job in jobs]
    while waiting:
        here = [j for j in waiting if jobs[j][0] <= now]
        if policy == "Allox" and here:
            places = [(w, k) for w in range(gpus + cpus) for k in range(1, len(here) + 1)]
            costs = [[k * hours[j][w] + max(free_at[w] - now, 0) for w, k in places] for j in here]
            last = {}
            for j, place in zip(here, assignment(costs)):
                w, k = places[place]
                last[w] = max(last.get(w, (0, 0)), (k, j))  # the job that most others wait for runs first
            starts = [(j, w) for w, (_, j) in last.items() if free_at[w] <= now]
        else:
            order = sorted(here, key=lambda j: jobs[j][0] if policy == "DRFF" else jobs[j][1])
            starts = list(zip(order, [w for w in range(gpus + cpus) if free_at[w] <= now]))
        for j, w in starts:
            waiting.remove(j)
            free_at[w] = now + hours[j][w]
            done += free_at[w] - jobs[j][0]
        later = [t for t in [*free_at, *(jobs[j][0] for j in waiting)] if t > now]
        now = min(later) if later else now
    return done / len(jobs)


def study_413():
    head("4.13: average completion time of 40 jobs on 4 GPUs and 8 CPU workers, where a job takes 1.3 to 8.2 times as long", "policy",
         ["h", "against DRFF"], "the dissertation")
    times = {policy: mixed_jct(policy) for policy in ("DRFF", "DRFS", "Allox")}
    told = {"Allox": "42 % less than DRFF"}
    for policy, took in times.items():
        print(f"| {policy} | {took:.2f} | {100 * (1 - took / times['DRFF']):.0f} % less | {told.get(policy, '')} |", flush=True)
    return bars("4.13: jobs on GPUs and CPUs", "average completion time (h)", times, ("h",), [[t] for t in times.values()])


def study_416():
    head("4.16: an epoch of alexnet against the cache, 1024 images whose sizes spread as ImageNet's, a hard disk", "share in memory",
         ["page cache (lru): s", "minio: s", "small files first: s", "against minio"], "the dissertation")
    told = {20: "28 % less than minio", 40: "537, 394 s (page cache, minio)"}
    shares, drawn = (20, 40, 60, 80), []
    for share in shares:
        times = [epoch_s({**model("alexnet", 32), "data.samples": 1024, "virtual.drive": "hdd", "virtual.spread": 50,
                          "data.cache": int(share * 1024 * IMAGE / 100), "data.cache_policy": p})[0]
                 for p in ("lru", "minio", "small")]
        print(f"| {share} % | {' | '.join(f'{t:.2f}' for t in times)} | {100 * (1 - times[2] / times[1]):.0f} % less "
              f"| {told.get(share, '')} |", flush=True)
        drawn.append(times)
    return bars("4.16: an epoch of alexnet", "s", (f"{s} % in memory" for s in shares), ("page cache", "minio", "small first"), drawn)


def study_417():
    head("4.17: an epoch of alexnet in batches of 16, 4 workers, a hard disk, 1024 images", "reads of a worker",
         ["s", "against one by one"], "the dissertation")
    drawn, first = {}, None
    for what, values, told in (("one by one", {"loader.at_once": 1}, "PyTorch's loader"), ("a batch", {}, "19 % less"),
                               ("2 batches", {"loader.workers": 8}, "superbatch: up to 50 % less"),
                               ("4 batches", {"loader.workers": 16}, ""), ("8 batches", {"loader.workers": 32}, "little more")):
        took = whole(run({**model("alexnet", 16), "data.samples": 1024, "virtual.drive": "hdd", **values}))["elapsed_s"]
        first = first or took
        drawn[what] = [took]
        print(f"| {what} | {took:.2f} | {100 * (1 - took / first):.0f} % less | {told} |", flush=True)
    return bars("4.17: batches that are read at once", "s", drawn, ("an epoch",), list(drawn.values()))


def study_418():
    head("4.18: an epoch of alexnet, 4096 images in groups that are read together, a hard disk, 4 workers that read one group at "
         "a time", "images in a group", ["s", "faster"], "the dissertation")
    told = {1: "498 s", 8: "2.4 times", 32: "more brings nothing"}
    drawn, first = {}, None
    for group in (1, 2, 4, 8, 16, 32, 64):
        took = whole(run({"model.step": f"{int(1e6 * STEPS['alexnet'])}us", "model.batch": 128 // group, "loader.at_once": 1,
                          "data.sample": group * IMAGE, "data.samples": 4096 // group, "virtual.drive": "hdd"}))["elapsed_s"]
        first = first or took
        drawn[group] = [took]
        print(f"| {group} | {took:.2f} | {first / took:.1f} times | {told.get(group, '')} |", flush=True)
    return bars("4.18: images in groups", "s", drawn, ("an epoch",), list(drawn.values()))


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


STUDIES = {"4.6a": study_46a, "4.6b": study_46b, "4.6c": study_46c, "4.7": study_47, "4.10": study_410, "4.11": study_411,
           "4.12": study_412, "4.13": study_413, "4.14": study_414, "4.16": study_416, "4.17": study_417, "4.18": study_418}

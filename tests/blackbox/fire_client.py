# SPDX-License-Identifier: Apache-2.0
"""A client of the tests under fire, a process of its own: python3 fire_client.py CLUSTER_FILE NAME SEED HISTORY SHARED

Works on the directories /NAME/a and /NAME/b, and on the log SHARED that others take from it (shared.py), until it gets
SIGTERM, and writes its history (history.py) to HISTORY. It notes errors of the cluster and
continues; any other error ends it with a trace.
"""
import random
import signal
import sys
import time

from history import Recorder, content, mark
from libterrane import REPLACE, Client, Failed
from shared import record

KIB = 1 << 10
BLOCK = 64 * KIB
# Sizes around those of pages, chunks and blocks; most are small, because more operations find more errors.
SIZES = [0, 1, 4 * KIB - 1, 4 * KIB, 16 * KIB + 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 77, 8 * BLOCK]
LOG_SIZES = [n for n in SIZES if 0 < n <= BLOCK]  # larger appends are not promised to be atomic
SHARED_SIZES = [0, 100, 4 * KIB, 16 * KIB + 1]
LOGS = 2
FILES_MAX = 40


class Worker:
    def __init__(self, cluster_file, name, seed, history, shared):
        self.chance = random.Random(seed)
        self.record = Recorder(history)
        self.name, self.cluster_file, self.client = name, cluster_file, None
        self.files, self.logs = [], {}  # paths whose state is known; path: open log, or None
        self.made, self.stop = 0, False
        self.shared, self.held, self.shares = shared, None, 0  # its path; open log, or None; records appended to it

    def connect(self):
        while not self.stop:
            try:
                self.client = self.client or Client(self.cluster_file)
                for sub in "ab":
                    self.client.mkdir(f"/{self.name}/{sub}")
                self.client.mkdir(self.shared.rpartition("/")[0])
                self.make_shared()
                return
            except Failed:
                pass

    def make_shared(self):
        try:
            self.client.log(self.shared, True, block_bytes=BLOCK).close()
        except Failed as failed:
            if failed.code != "EEXIST":
                raise

    def new(self):
        """Draws a name that was never used, and a seed for its bytes."""
        self.made += 1
        return f"/{self.name}/{self.chance.choice('ab')}/f{self.made:05}"

    def seed(self):
        return f"{self.name}-{self.made}-{self.record.serial}"

    def do(self, op, work, **fields):
        """Writes the intent, does the work, writes the outcome. Returns the result of the work, or None after an error."""
        n = self.record.intent(op, **fields)
        try:
            answer = work()
        except Failed as failed:
            self.record.outcome(n, error=failed.code)
            return None
        answer = {} if answer is None else answer
        self.record.outcome(n, **answer)
        return answer

    def how(self):
        code = self.chance.choice([None, None, b"r3", b"rs:4+2"])
        return {"encoding": code, "block_bytes": self.chance.choice([BLOCK, 4 * BLOCK])}

    def write(self, path=None, flags=0):
        path = path or self.new()
        seed, size = self.seed(), self.chance.choice(SIZES)
        if self.do("write", lambda: self.client.write(path, content(seed, size), flags, **self.how()),
                   path=path, seed=seed, size=size) is not None:
            self.files.append(path)

    def taken(self):
        return self.files.pop(self.chance.randrange(len(self.files)))

    def replace(self):
        self.write(self.taken(), REPLACE)

    def remove(self):
        path = self.taken()
        self.do("remove", lambda: self.client.remove(path), path=path)

    def rename(self):
        """Renames to a new name in the same or another directory, or onto an existing file."""
        a = self.taken()
        b = self.taken() if self.files and self.chance.random() < 0.2 else self.new()
        if self.do("rename", lambda: self.client.rename(a, b), path=a, to=b) is not None:
            self.files.append(b)

    def pack(self):
        folder = f"/{self.name}/{self.chance.choice('ab')}"
        files = {}
        for _ in range(self.chance.randrange(1, 12)):
            self.made += 1
            files[f"p{self.made:05}"] = (f"{self.name}-{self.made}", self.chance.randrange(9000))

        def work():
            how = {"block_bytes": BLOCK}
            return {"results": self.client.pack(folder, {n: content(*v) for n, v in files.items()}, **how)}
        answer = self.do("pack", work, folder=folder, files=files)
        self.files += [f"{folder}/{n}" for n, error in answer["results"].items() if error is None]

    def append(self):
        if len(self.logs) < LOGS and self.chance.random() < 0.3:
            path = self.new()
            opened = []
            if self.do("log", lambda: opened.append(self.client.log(path, True, block_bytes=BLOCK)),
                       path=path) is not None:
                self.logs[path] = opened[0]
            return
        for path in self.chance.sample(sorted(self.logs), min(1, len(self.logs))):
            if self.logs[path] is None or self.chance.random() < 0.1:
                self.take(path)
            if self.logs[path] is not None:
                seed, size = self.seed(), self.chance.choice(LOG_SIZES)
                if self.do("append", lambda p=path, s=seed, z=size: self.logs[p].append(content(s, z)),
                           path=path, seed=seed, size=size) is None:
                    self.let_go(path)

    def let_go(self, path):
        try:
            self.logs[path].close()
        except Failed:
            pass
        self.logs[path] = None

    def take(self, path):
        """Takes the token as another writer would, also from this process's own handle."""
        old, opened = self.logs[path], []

        def work():
            opened.append(self.client.log(path, block_bytes=BLOCK))
            return {"size": opened[0].size()}
        taken = self.do("take", work, path=path) is not None
        if old is not None and taken:
            self.prove_fenced(path, old)
        elif old is not None:
            self.let_go(path)
        if opened and not taken:
            self.logs[path] = opened[0]
            self.let_go(path)
        else:
            self.logs[path] = opened[0] if taken else None

    def prove_fenced(self, path, old):
        """Appends with the token that was taken, which must fail."""
        self.do("fenced", lambda: old.append(b"from a writer that was fenced"), path=path)
        try:
            old.close()
        except Failed:
            pass

    def share(self):
        """Appends to the log that all clients take; takes it back after another client took it."""
        if self.held is None:
            self.steal()
            return
        self.shares += 1
        number, size = self.shares, self.chance.choice(SHARED_SIZES)

        def work():
            self.held.append(record(self.name, number, size))
            return {"at": time.monotonic_ns()}
        if self.do("share", work, path=self.shared, number=number, size=size) is None:
            self.drop()

    def steal(self):
        opened = []

        def work():
            opened.append(self.client.log(self.shared, block_bytes=BLOCK))
            return {"size": opened[0].size(), "at": time.monotonic_ns()}
        taken = self.do("steal", work, path=self.shared, at=time.monotonic_ns()) is not None
        self.held = opened[0] if opened else None
        if not taken:
            self.drop()

    def drop(self):
        try:
            if self.held is not None:
                self.held.close()
        except Failed:
            pass
        self.held = None

    def read(self):
        path = self.chance.choice(self.files + [p for p in self.logs if self.logs[p]])
        self.do("read", lambda: {"mark": mark(self.client.read(path))}, path=path)

    def list(self):
        folder = f"/{self.name}/{self.chance.choice('ab')}"
        self.do("list", lambda: {"names": self.client.list(folder)}, folder=folder)

    def run(self):
        self.connect()
        for _ in range(4):
            self.write()
        while not self.stop:
            kinds = [self.write] * (6 if len(self.files) < FILES_MAX else 0) + [self.append] * 5 + [self.pack] \
                + [self.share] * 3
            if self.files:
                kinds += [self.read] * 6 + [self.remove] * 3 + [self.rename] * 2 + [self.replace, self.list]
            if len(self.files) > 2 * FILES_MAX:
                kinds = [self.remove]
            self.chance.choice(kinds)()
        for path, log in self.logs.items():
            if log is not None:
                self.let_go(path)
        self.drop()
        if self.client:
            self.client.close()


def main():
    worker = Worker(*sys.argv[1:6])

    def end(*_):
        worker.stop = True
    signal.signal(signal.SIGTERM, end)
    worker.run()


if __name__ == "__main__":
    main()

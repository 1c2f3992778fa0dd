# SPDX-License-Identifier: Apache-2.0
"""Histories of clients, and the rules that a cluster must keep after them.

A client writes each operation before it sends the request (intent) and the result after it (outcome), as lines of
JSON with a CRC-32 before them, to a file of its own outside of the cluster. The checker reads these files and
nothing else of the client, and compares them with the contents of the cluster after it has converged.

Each client has directories of its own and does one operation at a time, so the state of its files follows from its
history alone. Operations that did not succeed are the exception: an error or a missing outcome means that the change may
have happened, or may still happen. The checker then accepts both states, and the client does not use the names
again (of a log, until it has taken the token again). The state is a set of cells:

    cell     some paths, and a list of alternatives: the contents that these paths may have together

An acknowledged file is a cell with one alternative. A rename with an unknown outcome is a cell of two paths with two
alternatives: the file has one name or the other, never both, never none.

Rules, each with a test in test_history.py:
  1. Acknowledged data exists, byte by byte, at the end and in every answer on the way.
  2. A file that was not acknowledged exists completely or not at all; a log has complete records in order without a gap.
  3. What was deleted stays deleted; no name exists that no client created.
  4. A rename neither loses nor duplicates.
  5. When a client takes over a log, its contents are final: the previous writer can add nothing.
  6. A log that clients take from each other (shared.py) has the contents that its writers' histories together allow.
"""
import json
import os
import random
import zlib
from functools import lru_cache
from pathlib import Path


CHANGES = ("write", "remove", "log", "append", "pack", "rename", "share")


@lru_cache(maxsize=64)
def content(seed, size):
    """The bytes of a file or record; they follow from its seed."""
    return random.Random(seed).randbytes(size)


class Recorder:
    """Writes a history. The kernel has each line before the call returns."""

    def __init__(self, path):
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.serial = 0

    def line(self, **fields):
        text = json.dumps(fields, sort_keys=True).encode()
        os.write(self.fd, b"%08x %s\n" % (zlib.crc32(text), text))

    def intent(self, op, **fields):
        self.serial += 1
        self.line(n=self.serial, op=op, **fields)
        return self.serial

    def outcome(self, n, **fields):
        self.line(n=n, **fields)


def load(path):
    """Reads a history: [(intent, outcome or None)]. Its last line may be incomplete, if the client was killed."""
    lines = Path(path).read_bytes().split(b"\n")
    pairs = []
    for i, line in enumerate(lines[:-1]):
        crc, _, text = line.partition(b" ")
        assert int(crc, 16) == zlib.crc32(text), f"{path}: line {i + 1} is damaged"
        fields = json.loads(text)
        if "op" in fields:
            pairs.append((fields, None))
        else:
            assert pairs[-1][0]["n"] == fields["n"], f"{path}: line {i + 1} answers nothing"
            pairs[-1] = (pairs[-1][0], fields)
    return pairs


def body(value):
    """The bytes of a value, which is a tuple of (seed, size): one content after the other."""
    return b"".join(content(seed, size) for seed, size in value)


def mark(data):
    return [len(data), zlib.crc32(data)]


class History:
    """The states that one client's history allows. `wrong` has a line for each violation in an answer."""

    def __init__(self, path=None):
        self.cells = {}  # path: (paths, [alternatives]); the same tuple for all of its paths
        self.logs = set()
        self.holds = []  # times with the token of a shared log, in order
        self.wrong, self.acknowledged, self.unknown, self.refused_reads = [], 0, 0, {}
        for intent, outcome in load(path) if path else []:
            self.step(intent, outcome)

    def put(self, paths, alternatives):
        cell = (tuple(paths), [tuple(a) for a in alternatives])
        for path in paths:
            self.cells[path] = cell

    def one(self, path):
        """The only content that a path may have."""
        paths, alternatives = self.cells.get(path, ((path,), [(None,)]))
        assert len(paths) == 1 and len(alternatives) == 1, f"the client used {path} without knowing its state"
        return alternatives[0][0]

    def possible(self, path):
        paths, alternatives = self.cells.get(path, ((path,), [(None,)]))
        return [a[paths.index(path)] for a in alternatives]

    def step(self, intent, outcome):
        ok = outcome is not None and "error" not in outcome
        if intent["op"] in CHANGES:
            self.acknowledged += ok
            self.unknown += not ok
        getattr(self, "do_" + intent["op"])(intent, outcome, ok)

    def change(self, path, before, after, ok):
        self.put([path], [(after,)] if ok or before == after else [(before,), (after,)])

    def do_write(self, i, _, ok):
        self.change(i["path"], self.one(i["path"]), ((i["seed"], i["size"]),), ok)

    def do_remove(self, i, _, ok):
        self.change(i["path"], self.one(i["path"]), None, ok)

    def do_log(self, i, _, ok):
        self.logs.add(i["path"])
        self.change(i["path"], self.one(i["path"]), (), ok)

    def do_append(self, i, _, ok):
        before = self.one(i["path"])
        self.change(i["path"], before, before + ((i["seed"], i["size"]),), ok)

    def do_pack(self, i, outcome, _):
        results = (outcome or {}).get("results", {})
        for name, (seed, size) in i["files"].items():
            ok = outcome is not None and results.get(name, "?") is None
            self.change(f"{i['folder']}/{name}", None, ((seed, size),), ok)

    def do_rename(self, i, _, ok):
        a, b = i["path"], i["to"]
        source, target = self.one(a), self.one(b)
        if ok:
            self.put([a], [(None,)])
            self.put([b], [(source,)])
        else:
            self.put([a, b], [(source, target), (None, source)])

    def do_take(self, i, outcome, ok):
        """A log taken over: its size must be a possible one, and is final from now on (rule 5)."""
        if not ok:
            return
        found = [v for v in self.possible(i["path"]) if v is not None
                 and sum(size for _, size in v) == outcome["size"]]
        if found:
            self.put([i["path"]], [(found[0],)])
        else:
            self.wrong.append(f"{i['path']}: taken over with {outcome['size']} bytes, which is no possible size")
            self.put([i["path"]], [(self.possible(i["path"])[-1],)])

    def do_fenced(self, i, _, ok):
        if ok:
            self.wrong.append(f"operation {i['n']}: {i['path']} took an append of a writer without the token")

    def do_steal(self, i, outcome, ok):
        if ok:
            self.holds.append({"path": i["path"], "asked": i["at"], "got": outcome["at"], "size": outcome["size"],
                               "records": []})

    def do_share(self, i, outcome, ok):
        """A record appended to a shared log with the token of the last hold."""
        self.holds[-1]["records"].append({"number": i["number"], "size": i["size"],
                                          "acknowledged": outcome["at"] if ok else None})

    def do_read(self, i, outcome, ok):
        if outcome is None:
            return
        if not ok and outcome["error"] != "ENOENT":
            self.refused_reads[outcome["error"]] = self.refused_reads.get(outcome["error"], 0) + 1
            return
        got = outcome["mark"] if ok else None
        if got not in [None if v is None else mark(body(v)) for v in self.possible(i["path"])]:
            self.wrong.append(f"operation {i['n']}: read of {i['path']} gave {got or 'ENOENT'}")

    def do_list(self, i, outcome, ok):
        if ok:
            self.judge_names(i["folder"], set(outcome["names"]), f"operation {i['n']}: ")

    def judge_names(self, folder, names, when=""):
        """Checks rules 1 and 3 for the names of a directory."""
        for path, (paths, alternatives) in self.cells.items():
            above, _, name = path.rpartition("/")
            values = [a[paths.index(path)] for a in alternatives]
            if above == folder and name not in names and None not in values:
                self.wrong.append(f"{when}{path} is lost")
            if above == folder and name in names and all(v is None for v in values):
                self.wrong.append(f"{when}{path} was deleted but exists")
        for name in names:
            if f"{folder}/{name}" not in self.cells:
                self.wrong.append(f"{when}{folder}/{name} exists but no client created it")

    def judge(self, tree):
        """Checks the cluster at the end: {path: bytes} of all files in this client's directories. Returns all violations."""
        tree = dict(tree)
        seen = set()
        for paths, alternatives in self.cells.values():
            if paths in seen:
                continue
            seen.add(paths)
            got = tuple(tree.pop(p, None) for p in paths)
            if got not in [tuple(None if v is None else body(v) for v in a) for a in alternatives]:
                shown = [None if g is None else mark(g) for g in got]
                wanted = [[None if v is None else mark(body(v)) for v in a] for a in alternatives]
                self.wrong.append(f"{' '.join(paths)}: has {shown}, but may only have {wanted}")
        self.wrong += [f"{path} exists but no client created it" for path in tree]
        return self.wrong

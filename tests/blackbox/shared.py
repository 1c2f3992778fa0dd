# SPDX-License-Identifier: Apache-2.0
"""A log that several clients take from each other, and rule 6 of history.py.

A record names its writer, its number and its size, so that the log can be read without the histories:

    header   32 bytes: "WRITER NUMBER SIZE", padded with spaces, a newline at the end
    body     SIZE bytes that follow from WRITER and NUMBER

A hold is the time in which a client has the token: it requested the log, got it together with its size, and appended
until an append failed. Times are those of the machine's monotonic clock, which all clients share.
"""
from history import content

HEADER = 32


def record(writer, number, size):
    head = f"{writer} {number} {size}".encode().ljust(HEADER - 1) + b"\n"
    assert len(head) == HEADER
    return head + content(f"{writer}-shared-{number}", size)


def parse(data):
    """The records as [(offset, writer, number)], and None or why the rest is no record."""
    found, at = [], 0
    while at < len(data):
        words = data[at:at + HEADER].split()
        try:
            writer, number, size = words[0].decode(), int(words[1]), int(words[2])
        except (ValueError, IndexError):
            return found, f"no record begins at {at} of {len(data)}"
        whole = record(writer, number, size)
        if data[at:at + len(whole)] != whole:
            return found, f"record {number} of {writer} at {at} is not whole: it is cut or has wrong bytes"
        found.append((at, writer, number))
        at += len(whole)
    return found, None


def judge_records(path, holds, found):
    """Compares the appended records of each writer with the records in the log."""
    wrong = []
    there = {}
    for at, writer, number in found:
        if (writer, number) in there:
            wrong.append(f"{path}: record {number} of {writer} is in the log twice")
        there[writer, number] = at
    asked = {(writer, r["number"]): r for writer, h in holds for r in h["records"]}
    wrong += [f"{path}: no client appended record {n} of {w}" for w, n in there if (w, n) not in asked]
    wrong += [f"{path}: record {n} of {w} is lost" for (w, n), r in asked.items()
              if r["acknowledged"] is not None and (w, n) not in there]
    last = {}
    for _, writer, number in found:
        if number < last.get(writer, 0):
            wrong.append(f"{path}: record {number} of {writer} comes after {last[writer]}")
        last[writer] = number
    return wrong, there


def judge_holds(path, holds, there, boundaries):
    """Compares the size that each hold found, and the records that it added, with all other holds."""
    wrong = []
    spans = []
    for writer, hold in holds:
        at = [there[writer, r["number"]] for r in hold["records"] if (writer, r["number"]) in there]
        spans.append((writer, hold, at))
        if hold["size"] not in boundaries:
            wrong.append(f"{path}: {writer} found {hold['size']} bytes, but no record begins there")
        wrong += [f"{path}: {writer} added at {a}, before the {hold['size']} bytes that it found"
                  for a in at if a < hold["size"]]
    for writer, hold, at in spans:
        for other, later, after in spans:
            if later is hold:
                continue
            before = all(a < later["size"] for a in at)
            if hold["got"] < later["asked"] and not before:
                wrong.append(f"{path}: {writer} added after {other} had taken it with {later['size']} bytes")
            elif not before and not all(a < hold["size"] for a in after):
                wrong.append(f"{path}: {writer} and {other} both had the token")
            wrong += [f"{path}: {other} did not find record {r['number']} of {writer}" for r in hold["records"]
                      if r["acknowledged"] is not None and r["acknowledged"] < later["asked"]
                      and there.get((writer, r["number"]), 0) >= later["size"]]
    return wrong


def judge_shared(path, histories, data):
    """Checks a shared log against the histories of its writers, {name: History}. `data` is None if there is no log."""
    holds = [(name, h) for name, history in histories.items() for h in history.holds if h["path"] == path]
    if data is None:
        return [f"{path} is lost"] if holds else []
    found, trouble = parse(data)
    wrong, there = judge_records(path, holds, found)
    boundaries = {at for at, _, _ in found} | {len(data)}
    return ([f"{path}: {trouble}"] if trouble else []) + wrong + judge_holds(path, holds, there, boundaries)


def thefts(data):
    """The number of changes of the writer from one record to the next."""
    writers = [writer for _, writer, _ in parse(data)[0]]
    return sum(a != b for a, b in zip(writers, writers[1:]))

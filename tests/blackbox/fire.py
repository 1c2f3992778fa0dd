# SPDX-License-Identifier: Apache-2.0
"""A cluster under fire: clients that work and write histories, faults, healing, and the judgement.

    with Fire(tmp_path) as fire:
        fire.clients(3)
        ... something bad, to fire.box ...
        fire.judge()

Waits are for conditions, with deadlines. What is drawn is of the commit unless TERRANE_FIRE_SEED says otherwise. A
round of the short run takes some seconds; TERRANE_FIRE_SECONDS makes the bad part of each case longer (./dev fire).
"""
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path

from box import Box, await_true, lives
from history import CHANGES, History
from shared import judge_shared, thefts

HERE = Path(__file__).resolve().parent
SECONDS = float(os.environ.get("TERRANE_FIRE_SECONDS", "2"))
LONG = "TERRANE_FIRE_SECONDS" in os.environ
CALL_S = 10  # after so long a client's call has failed (libterrane.py)
HEAL_S = 180  # for everything to be whole again; seconds on a machine that has nothing else to do
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")
GRACE_S = 180  # of collection: the least that a janitor takes
# Epochs in which everything that was deleted or left behind is collected: no sooner than, and no later.
LEAST_EPOCHS, EPOCHS_MAX = 6, 40
# A janitor in a hurry: what a box loses is repaired while the test waits.
HURRY = {"round": "200ms", "lease": "2s", "delay": "3s", "look": "1s", "percent": "100"}


def seed_of(environ):
    """TERRANE_FIRE_SEED, or of the commit, so that the next one meets other kills and cuts; or of the day."""
    if "TERRANE_FIRE_SEED" in environ:
        return int(environ["TERRANE_FIRE_SEED"])
    asked = ["git", "-C", HERE, "describe", "--always", "--dirty"]
    commit = environ.get("TERRANE_COMMIT") or subprocess.run(
        asked, capture_output=True, text=True, check=False).stdout.strip()
    return zlib.crc32((time.strftime("%Y-%m-%d") if commit in ("", "unknown") else commit).encode())


SEED = seed_of(os.environ)


def replay_line():
    """Which case this is and how to see it again; pytest shows it with a failure."""
    case = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0].rpartition("/")[2]
    long = f"TERRANE_FIRE_SECONDS={SECONDS:g} " if LONG else ""
    return f"replay: TERRANE_FIRE_SEED={SEED} {long}python3 -B -m pytest 'tests/blackbox/{case}'"


def set_keys(path, keys):
    """Values of keys that a file of settings has, or that belong to its sections by SECTION.KEY."""
    text = path.read_text()
    for key, value in keys.items():
        section, _, name = key.rpartition(".")
        line = f"{name} = {value}"
        text, found = re.subn(rf"(?m)^{name} = .*$", line, text)
        if not found:
            text += f"[{section or 'repair'}]\n{line}\n"
    path.write_text(text)


class Tally:
    """Counts a history that is being written, each line once."""

    def __init__(self, path):
        self.path, self.at, self.op = path, 0, None
        self.good, self.unknown = 0, 0

    def read(self):
        with open(self.path, "rb") as file:
            file.seek(self.at)
            lines = file.read()
        lines = lines[:lines.rfind(b"\n") + 1]
        self.at += len(lines)
        for line in lines.splitlines():
            fields = json.loads(line.partition(b" ")[2])
            self.op = fields.get("op", self.op)
            if "op" not in fields:
                bad = "error" in fields or any(fields.get("results", {}).values())
                self.good += not bad
                self.unknown += bad and self.op in CHANGES


class Fire:
    """`prepare` may change the files of the box before its processes start for good."""

    def __init__(self, folder, *shape, metadata="rocksdb"):
        print(replay_line())
        self.folder = Path(folder)
        self.box = Box(self.folder / "box", *(shape or ("--racks", 6, "--disks", 2)), "--metadata", metadata,
                       "--procs")
        self.chance = random.Random(SEED)
        self.running, self.count = {}, 0  # history: process
        self.histories, self.sealed = [], set()
        self.shared = "/shared/1"  # the log that clients take from each other; another one after each sealing
        self.tallies = {}  # history: Tally
        self.can_collect = not metadata.startswith("rados")  # there a round of collection takes most of a minute

    def prepare(self):
        set_keys(self.box.folder / "conf" / "janitor.ini", HURRY)

    def start(self):
        """Starts what does not run."""
        self.box.up("--procs")

    def __enter__(self):
        try:
            self.box.up(*self.box.shape)
            self.box.down()
            self.prepare()
            self.start()
        except BaseException:
            self.__exit__(AssertionError)
            raise
        return self

    def __exit__(self, kind, *_):
        for process in self.running.values():
            process.kill()
            process.communicate()
        for pid in self.box.pids().values():
            if lives(pid):
                os.kill(pid, signal.SIGCONT)
        self.box.__exit__(kind)
        if kind is None:
            left = [*self.box.folder.glob("run/*"), *self.box.folder.glob("disks/*/*/tmp/*")]
            assert not left, f"left behind: {left}"

    def roles(self):
        return sorted(p.stem for p in (self.box.folder / "conf").glob("*.ini"))

    def restart(self, name):
        """kill -9, and up again."""
        self.box.kill(name)
        self.start()

    # ---- clients

    def clients(self, count):
        for _ in range(count):
            self.count += 1
            name = f"c{self.count}"
            history = self.folder / f"{name}.history"
            self.running[history] = subprocess.Popen(
                [*self.box.under, sys.executable, "-B", HERE / "fire_client.py", self.box.folder / "cluster.ini", name,
                 f"{SEED}-{name}", history, self.shared], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            self.histories.append(history)
        await_true("that the clients work", lambda: all(
            h.exists() and h.stat().st_size > 1000 for h in self.running))

    def kill_client(self):
        history = self.chance.choice(sorted(self.running))
        process = self.running.pop(history)
        process.kill()
        process.communicate()
        self.clients(1)

    def stop_clients(self):
        for process in self.running.values():
            process.send_signal(signal.SIGTERM)
        for history, process in self.running.items():
            _, error = process.communicate(timeout=HEAL_S)
            assert process.returncode == 0, f"{history.name}: ended with {process.returncode}: {error}"
        self.running = {}

    def tally(self):
        """(good, unknown): how many operations ended well, and how many changes did not."""
        for history in self.histories:
            self.tallies.setdefault(history, Tally(history)).read()
        return (sum(t.good for t in self.tallies.values()), sum(t.unknown for t in self.tallies.values()))

    def refused_reads(self):
        return sum(sum(History(h).refused_reads.values()) for h in self.histories)

    def progress(self, count=20, seconds=30):
        """Waits until that many more operations of the clients have ended well."""
        start = self.tally()[0]
        await_true("that the clients get on", lambda: self.tally()[0] >= start + count, seconds)

    def await_sharers(self):
        """Waits until two clients have each appended to a log that both take."""
        def sharers():
            names = {}
            for history in self.histories:
                for hold in History(history).holds:
                    if any(r["acknowledged"] is not None for r in hold["records"]):
                        names.setdefault(hold["path"], set()).add(history)
            return max(map(len, names.values()), default=0)
        await_true("that clients take a log from each other", lambda: sharers() >= 2, 30)

    def await_unknown(self, start):
        """Waits until a change has ended without anybody knowing how, since the tally was `start`."""
        await_true("that a change fails", lambda: self.tally()[1] > start[1], 3 * CALL_S)

    def await_suspect(self, nodes):
        """Waits until the cluster has noticed that nodes are silent."""
        def noticed():
            done = self.box("status", "--json", ok=False)
            states = {n["name"]: n["state"] for n in json.loads(done.stdout)["nodes"]} if done.stdout else {}
            return all(states.get(n) == "suspect" for n in nodes)
        await_true(f"that {nodes} are suspect", noticed, 30)

    def disk_state(self, number):
        return {d["id"]: d["state"] for d in self.box.json("disk", "list")}[number]

    # ---- healing

    def repaired(self):
        return self.box.metrics("janitor").get("terrane_janitor_chunks_repaired_total", 0)

    def whole(self):
        """None when the check of everything finds all copies of all chunks, else what it found. Clients may work
        meanwhile."""
        done = self.box("fsck", "--deep", "-q", "--json", ok=False, timeout=HEAL_S)
        if done.returncode not in (0, 1) or not done.stdout:
            return done.stderr
        found = json.loads(done.stdout)
        assert found["lost"] == 0, f"{found}\n{done.stderr}"
        bad = {k: found[k] for k in ("degraded", "out_of_reach", "missing", "damaged", "unreachable", "broken_files")}
        return None if not any(bad.values()) else f"{bad}\n{done.stderr}"

    def heal(self):
        """Everything runs again, and the janitor has made whole what was not."""
        for pid in self.box.pids().values():
            if lives(pid):
                os.kill(pid, signal.SIGCONT)
        self.start()
        self.await_online()

    def online(self):
        done = self.box("status", "--json", ok=False)
        return done.stdout != "" and json.loads(done.stdout)["online"]

    def await_online(self):
        await_true("that all is online", self.online, HEAL_S)

    def await_whole(self):
        end = time.monotonic() + HEAL_S
        while (found := self.whole()) is not None:
            assert time.monotonic() < end, f"not whole after {HEAL_S} s: {found}"
            time.sleep(0.3)

    # ---- what is left over

    def left_over(self):
        """None when the disks hold the chunks of all files and nothing else, and tenants pay for these; else what
        does not fit."""
        done = self.box("fsck", "-q", "--json", ok=False)
        if not done.stdout:
            return done.stderr
        chunks = json.loads(done.stdout)["chunks"]
        files = [p for p in self.box.folder.glob("disks/*/*/chunks/*/*") if p.is_file()]
        used = sum(t["used_bytes"] for t in self.box.json("tenant", "list"))
        blocks = self.box.json("status", ok=False)["data"]["block_bytes"]
        if len(files) == chunks and used == blocks:
            return None
        return f"{len(files)} files of {chunks} chunks, {used} bytes paid for {blocks}"

    def hasty_janitor(self, stamp):
        """A janitor whose clocks, the monotonic one too, are as far ahead as a file says."""
        pid = self.box.pids()["janitor"]
        os.kill(pid, signal.SIGTERM)  # it gives its leases back
        await_true("the end of the janitor", lambda: not lives(pid))
        set_keys(self.box.folder / "conf" / "janitor.ini",
                 {"grace": f"{GRACE_S}s", "orphans": "1s", "period": "1s"})
        env = {"LD_PRELOAD": str(FAKETIME), "FAKETIME_TIMESTAMP_FILE": str(stamp), "FAKETIME_NO_CACHE": "1"}
        self.box.up("--procs", env={**os.environ, **env})

    def await_collected(self):
        """Nobody works any more: the janitor's clock jumps by a grace each time that it has made use of the last one,
        until nothing is left over; and all that is wanted is still there."""
        stamp = self.folder / "janitor.clock"
        stamp.write_text("+0")
        self.hasty_janitor(stamp)

        def shown(name):
            try:
                return self.box.metrics("janitor")[f"terrane_janitor_{name}"]
            except OSError:  # the request was too late when the clock jumped
                assert lives(self.box.pids().get("janitor")), "the janitor ended"
                return 0
        await_true("that the janitor collects", lambda: shown("collect_rounds_total") > 0, HEAL_S)
        for i in range(1, EPOCHS_MAX + 1):
            epoch, done = shown("epoch"), shown("collect_rounds_total")
            stamp.write_text(f"+{i * (GRACE_S + 20)}")
            await_true("the next epoch", lambda: shown("epoch") > epoch, HEAL_S)
            await_true("a round in it", lambda: shown("collect_rounds_total") > done, HEAL_S)
            if i >= LEAST_EPOCHS and (left := self.left_over()) is None:
                break
        else:
            raise AssertionError(f"left over after {EPOCHS_MAX} epochs: {left}")
        self.await_whole()

    # ---- the judgement

    def seal_logs(self):
        """Open blocks are their writers' (janitor rule 6), and some of these were killed: sealing ends them."""
        for history in self.histories:
            for path in sorted(History(history).logs - self.sealed):
                if self.box("stat", path, ok=False).returncode == 0:
                    self.box("seal", path)
                self.sealed.add(path)
        if self.box("stat", self.shared, ok=False).returncode == 0:
            self.box("seal", self.shared)
            self.shared = f"/shared/{int(self.shared.rpartition('/')[2]) + 1}"

    def settle(self):
        """Clients end, and all that they wrote becomes whole."""
        self.heal()
        self.stop_clients()
        self.seal_logs()
        self.await_whole()

    def judge(self, left=LONG):
        """Settles, and holds what is there against the histories; with `left`, looks for what is left over too. Their
        numbers, for messages."""
        self.settle()
        histories = {h.stem: History(h) for h in self.histories}
        out = self.folder / "out"
        subprocess.run(["rm", "-rf", out], check=True)
        self.box("get", "-q", "/", out, timeout=HEAL_S)
        wrong = []
        for name, history in histories.items():
            files = {f"/{p.relative_to(out)}": p.read_bytes() for p in (out / name).rglob("*") if p.is_file()}
            wrong += history.judge(files)
        logs = {f"/{p.relative_to(out)}": p.read_bytes() for p in (out / "shared").glob("*")}
        for path in {*logs, *(hold["path"] for h in histories.values() for hold in h.holds)}:
            wrong += judge_shared(path, histories, logs.get(path))
        assert not wrong, "\n".join(wrong)
        if left and self.can_collect and FAKETIME.exists():
            self.await_collected()
        return {"thefts": sum(thefts(data) for data in logs.values()),
                "acknowledged": sum(h.acknowledged for h in histories.values()),
                "unknown": sum(h.unknown for h in histories.values()),
                "refused_reads": [h.refused_reads for h in histories.values()]}

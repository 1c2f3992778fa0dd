# SPDX-License-Identifier: Apache-2.0
"""A cluster under fire: clients that write histories of their operations, faults, repair, and the check of histories.

    with Fire(tmp_path) as fire:
        fire.clients(3)
        ... a fault in fire.box ...
        fire.judge()

Waits are for conditions, with deadlines. The commit seeds all draws unless TERRANE_FIRE_SEED is set. A case of the short
run takes some seconds; TERRANE_FIRE_SECONDS makes the time with faults in each case longer (./dev fire).
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
CALL_S = 10  # timeout of a client's call (libterrane.py)
HEAL_S = 180  # time limit for the cluster to converge; it takes seconds on an idle machine
# The variant for programs with threads. Under the other one a clock that two threads read goes back by the whole offset now
# and then, and a process that computes a time-out from it sleeps for minutes.
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
GRACE_S = 180  # grace period of collection: the least that a janitor accepts
# Everything deleted or orphaned is collected after at least, and at most, so many epochs.
LEAST_EPOCHS, EPOCHS_MAX = 6, 40
# Settings of a janitor that repairs losses while the test waits.
HURRY = {"round": "200ms", "lease": "2s", "delay": "3s", "look": "1s", "percent": "100"}


def seed_of(environ):
    """TERRANE_FIRE_SEED; else a hash of the commit, so that each commit draws other faults; else a hash of the day."""
    if "TERRANE_FIRE_SEED" in environ:
        return int(environ["TERRANE_FIRE_SEED"])
    asked = ["git", "-C", HERE, "describe", "--always", "--dirty"]
    commit = environ.get("TERRANE_COMMIT") or subprocess.run(
        asked, capture_output=True, text=True, check=False).stdout.strip()
    return zlib.crc32((time.strftime("%Y-%m-%d") if commit in ("", "unknown") else commit).encode())


SEED = seed_of(os.environ)


def replay_line():
    """The command that runs this case again; pytest prints it with a failure."""
    case = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0].rpartition("/")[2]
    long = f"TERRANE_FIRE_SECONDS={SECONDS:g} " if LONG else ""
    return f"replay: TERRANE_FIRE_SEED={SEED} {long}python3 -B -m pytest 'tests/blackbox/{case}'"


def set_keys(path, keys):
    """Sets keys in a file of settings. A key that it lacks is added to its section: SECTION.KEY, by default repair."""
    text = path.read_text()
    for key, value in keys.items():
        section, _, name = key.rpartition(".")
        line = f"{name} = {value}"
        text, found = re.subn(rf"(?m)^{name} = .*$", line, text)
        if not found:
            text += f"[{section or 'repair'}]\n{line}\n"
    path.write_text(text)


class Tally:
    """Counts the results in a history that is being written; reads each line once."""

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
    """A cluster of processes with clients. A subclass may change the files of the box in `prepare`, before the
    processes start."""

    def __init__(self, folder, *shape, metadata="rocksdb"):
        print(replay_line())
        self.folder = Path(folder)
        self.box = Box(self.folder / "box", *(shape or ("--racks", 6, "--disks", 2)), "--metadata", metadata,
                       "--procs")
        self.chance = random.Random(SEED)
        self.running, self.count = {}, 0  # history: process
        self.histories, self.sealed = [], set()
        self.shared = "/shared/1"  # the log that clients take from each other; after it was sealed, the next one
        self.tallies = {}  # history: Tally
        self.can_collect = not metadata.startswith("rados")  # with RADOS a round of collection takes most of a minute

    def prepare(self):
        set_keys(self.box.folder / "conf" / "janitor.ini", HURRY)

    def start(self):
        """Starts the processes that do not run."""
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
        """Kills a process with SIGKILL and starts it again."""
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
        await_true("the first operations of the clients", lambda: all(
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
        """(good, unknown): the number of operations that succeeded, and of changes that did not."""
        for history in self.histories:
            self.tallies.setdefault(history, Tally(history)).read()
        return (sum(t.good for t in self.tallies.values()), sum(t.unknown for t in self.tallies.values()))

    def refused_reads(self):
        return sum(sum(History(h).refused_reads.values()) for h in self.histories)

    def progress(self, count=20, seconds=30):
        """Waits until so many more operations of the clients have succeeded."""
        start = self.tally()[0]
        await_true("progress of the clients", lambda: self.tally()[0] >= start + count, seconds)

    def await_sharers(self):
        """Waits until two clients have each appended to a log that both take."""
        def sharers():
            names = {}
            for history in self.histories:
                for hold in History(history).holds:
                    if any(r["acknowledged"] is not None for r in hold["records"]):
                        names.setdefault(hold["path"], set()).add(history)
            return max(map(len, names.values()), default=0)
        await_true("clients that take a log from each other", lambda: sharers() >= 2, 30)

    def await_unknown(self, start):
        """Waits until a change has ended with an unknown outcome, since the tally was `start`."""
        await_true("a change that fails", lambda: self.tally()[1] > start[1], 3 * CALL_S)

    def await_suspect(self, nodes):
        """Waits until `terrane status` reports the nodes as suspect."""
        def noticed():
            done = self.box("status", "--json", ok=False)
            states = {n["name"]: n["state"] for n in json.loads(done.stdout)["nodes"]} if done.stdout else {}
            return all(states.get(n) == "suspect" for n in nodes)
        await_true(f"{nodes} to be suspect", noticed, 30)

    def disk_state(self, number):
        return {d["id"]: d["state"] for d in self.box.json("disk", "list")}[number]

    # ---- repair

    def repaired(self):
        return self.box.metrics("janitor").get("terrane_janitor_chunks_repaired_total", 0)

    def whole(self):
        """None if `fsck --deep` finds all copies of all chunks, else its findings. Clients may work at the same time."""
        done = self.box("fsck", "--deep", "-q", "--json", ok=False, timeout=HEAL_S)
        if done.returncode not in (0, 1) or not done.stdout:
            return done.stderr
        found = json.loads(done.stdout)
        assert found["lost"] == 0, f"{found}\n{done.stderr}"
        bad = {k: found[k] for k in ("degraded", "out_of_reach", "missing", "damaged", "unreachable", "broken_files")}
        return None if not any(bad.values()) else f"{bad}\n{done.stderr}"

    def heal(self):
        """Continues stopped processes, starts ended ones, and waits until all nodes and disks are online."""
        for pid in self.box.pids().values():
            if lives(pid):
                os.kill(pid, signal.SIGCONT)
        self.start()
        self.await_online()

    def online(self):
        done = self.box("status", "--json", ok=False)
        return done.stdout != "" and json.loads(done.stdout)["online"]

    def await_online(self):
        await_true("all nodes and disks to be online", self.online, HEAL_S)

    def await_whole(self):
        end = time.monotonic() + HEAL_S
        while (found := self.whole()) is not None:
            assert time.monotonic() < end, f"chunks are missing or damaged after {HEAL_S} s: {found}"
            time.sleep(0.3)

    # ---- orphans and quota

    def left_over(self):
        """None if the disks hold exactly the chunks of all files, and tenants are charged for exactly their blocks; else
        the difference."""
        done = self.box("fsck", "-q", "--json", ok=False)
        if not done.stdout:
            return done.stderr
        chunks = json.loads(done.stdout)["chunks"]
        files = [p for p in self.box.folder.glob("disks/*/*/chunks/*/*") if p.is_file()]
        used = sum(t["used_bytes"] for t in self.box.json("tenant", "list"))
        blocks = self.box.json("status", ok=False)["data"]["block_bytes"]
        if len(files) == chunks and used == blocks:
            return None
        return f"{len(files)} chunk files for {chunks} chunks; {used} bytes charged, {blocks} bytes in blocks"

    def hasty_janitor(self, stamp):
        """Restarts the janitor with clocks, the monotonic one too, that are ahead by what the file contains."""
        pid = self.box.pids()["janitor"]
        os.kill(pid, signal.SIGTERM)  # it gives its leases back
        await_true("the end of the janitor", lambda: not lives(pid))
        set_keys(self.box.folder / "conf" / "janitor.ini",
                 {"grace": f"{GRACE_S}s", "orphans": "1s", "period": "1s"})
        env = {"LD_PRELOAD": str(FAKETIME), "FAKETIME_TIMESTAMP_FILE": str(stamp), "FAKETIME_NO_CACHE": "1"}
        self.box.up("--procs", env={**os.environ, **env})

    def await_collected(self):
        """After all clients have ended: moves the janitor's clock forward by a grace period after each round of collection,
        until no orphan is left and quotas are exact; then checks that all chunks of all files exist."""
        stamp = self.folder / "janitor.clock"
        stamp.write_text("+0")
        self.hasty_janitor(stamp)

        def shown(name):
            try:
                return self.box.metrics("janitor")[f"terrane_janitor_{name}"]
            except OSError:  # the request timed out because the clock jumped
                assert lives(self.box.pids().get("janitor")), "the janitor ended"
                return 0
        await_true("a round of collection", lambda: shown("collect_rounds_total") > 0, HEAL_S)
        for i in range(1, EPOCHS_MAX + 1):
            epoch, done = shown("epoch"), shown("collect_rounds_total")
            stamp.write_text(f"+{i * (GRACE_S + 20)}")
            await_true("the next epoch", lambda: shown("epoch") > epoch, HEAL_S)
            await_true("a round of collection in it", lambda: shown("collect_rounds_total") > done, HEAL_S)
            if i >= LEAST_EPOCHS and (left := self.left_over()) is None:
                break
        else:
            raise AssertionError(f"not collected after {EPOCHS_MAX} epochs: {left}")
        self.await_whole()

    # ---- the check of histories

    def seal_logs(self):
        """Seals all logs, which ends their open blocks: janitors do not repair the open block of a killed writer."""
        for history in self.histories:
            for path in sorted(History(history).logs - self.sealed):
                if self.box("stat", path, ok=False).returncode == 0:
                    self.box("seal", path)
                self.sealed.add(path)
        if self.box("stat", self.shared, ok=False).returncode == 0:
            self.box("seal", self.shared)
            self.shared = f"/shared/{int(self.shared.rpartition('/')[2]) + 1}"

    def settle(self):
        """Ends the clients, seals their logs and waits until all chunks are repaired."""
        self.heal()
        self.stop_clients()
        self.seal_logs()
        self.await_whole()

    def judge(self, left=LONG):
        """Settles, and compares the cluster with the histories; with `left`, also requires that nothing is left to collect.
        Returns counts of the histories, for messages."""
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

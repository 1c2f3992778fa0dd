# SPDX-License-Identifier: Apache-2.0
"""Real processes under fire: no acknowledged data is lost, no other change is half done, and the cluster converges.

In each case clients work (fire_client.py), a fault strikes the processes, disks, clocks or network of their
cluster, the fault ends, and the histories are checked (fire.py). Damage stays within what an acknowledgement promises
to tolerate: one disk, node or rack at a time, repaired before the next.
"""
import os
import random
import shutil
import signal
import subprocess
import time
from datetime import datetime, timezone
from pathlib import Path

import pytest

import fire_net
from box import KIB, MIB, await_true, lives, run
from fire import CALL_S, FAKETIME, HEAL_S, LONG, SECONDS, SEED, Fire, seed_of, set_keys

RADOS = Path(__file__).resolve().parents[2] / "scripts" / "rados.sh"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
long_only = pytest.mark.skipif(not LONG, reason="only in the long run: ./dev fire")


def rounds(least):
    """Yields the numbers of rounds: at least `least` rounds, and for SECONDS."""
    end, done = time.monotonic() + SECONDS, 0
    while done < least or time.monotonic() < end:
        yield done
        done += 1


def test_the_seed_follows_from_the_commit_and_is_printed(tmp_path, capsys):
    assert seed_of({"TERRANE_FIRE_SEED": "7", "TERRANE_COMMIT": "abc"}) == 7
    assert seed_of({"TERRANE_COMMIT": "abc"}) == seed_of({"TERRANE_COMMIT": "abc"})
    assert seed_of({"TERRANE_COMMIT": "abc"}) != seed_of({"TERRANE_COMMIT": "abd"})
    Fire(tmp_path)
    told = capsys.readouterr().out
    assert f"TERRANE_FIRE_SEED={SEED} " in told
    assert "'tests/blackbox/test_fire.py::test_the_seed_follows_from_the_commit_and_is_printed'" in told


def test_kill_9_of_any_process_in_a_loop(tmp_path):
    with Fire(tmp_path) as fire:
        fire.clients(3)
        for _ in rounds(8):
            name = fire.chance.choice([*fire.roles(), "client"])
            if name == "client":
                fire.kill_client()
            else:
                fire.restart(name)
            fire.progress(5)
        fire.await_sharers()
        assert fire.judge(left=True)["thefts"] > 0


def test_kill_9_of_everything_at_once(tmp_path):
    with Fire(tmp_path, "--racks", 3, "--disks", 2) as fire:
        fire.clients(2)
        for _ in rounds(2):
            for pid in fire.box.pids().values():
                os.kill(pid, signal.SIGKILL)
            fire.start()
            fire.progress(10)
        fire.judge()


def test_processes_are_stopped_and_continue(tmp_path):
    with Fire(tmp_path) as fire:
        fire.clients(3)
        for _ in rounds(3):
            name = fire.chance.choice(fire.roles())
            pid, start = fire.box.pids()[name], fire.tally()
            os.kill(pid, signal.SIGSTOP)
            if name != "meta":
                fire.progress(20)
            elif not LONG:  # clients make no progress without it
                time.sleep(0.5)
            if LONG:
                noticed(fire, name, start)
            os.kill(pid, signal.SIGCONT)
            fire.progress(10)
            if LONG:
                fire.await_online()
        fire.judge()


def noticed(fire, name, start):
    """Waits until a client or the cluster has noticed that a process is silent."""
    if name == "meta":
        fire.await_unknown(start)
    elif name.startswith("node"):
        fire.await_suspect([name])


def test_whole_racks_go_and_come_back(tmp_path):
    with Fire(tmp_path, "--racks", 6, "--nodes", 12, "--disks", 1) as fire:
        for _ in rounds(1):
            fire.clients(3)
            rack = fire.chance.randrange(1, 7)
            nodes = [f"node-{rack}", f"node-{rack + 6}"]
            before = fire.repaired()
            for node in nodes:
                fire.box.kill(node)
            fire.progress(40)
            fire.await_suspect(nodes)
            if LONG:
                await_true("repair of its blocks on other nodes", lambda: fire.repaired() > before, HEAL_S)
            fire.progress(20)
            fire.settle()
        fire.judge()


# ---- disks

def flip(path, chance):
    data = bytearray(path.read_bytes())
    for _ in range(4):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    with open(path, "r+b") as file:
        file.write(data)


def truncate(path, chance):
    os.truncate(path, chance.randrange(path.stat().st_size))


def delete(path, _):
    path.unlink()


def swap(path, chance):
    """Exchanges the contents of two chunk files."""
    other = chance.choice([p for p in path.parents[1].glob("*/*") if p != path])
    aside = path.parents[2] / "tmp" / "aside"
    path.rename(aside)
    other.rename(path)
    aside.rename(other)


DAMAGE = [flip, truncate, delete, swap]


@pytest.mark.parametrize("how", [[d] for d in DAMAGE] if LONG else [DAMAGE],
                         ids=lambda how: "-".join(d.__name__ for d in how))
def test_damage_to_the_files_of_a_node_is_found_and_repaired(tmp_path, how):
    with Fire(tmp_path) as fire:
        for _ in rounds(1):
            fire.clients(2)
            fire.progress(60)
            node = fire.chance.randrange(1, 7)
            fire.box.kill(f"node-{node}")  # the node must not serve undamaged bytes from memory
            files = fire.box.chunks(node)
            for path in fire.chance.sample(files, len(files) // 2):
                if path.stat().st_size > 0:
                    fire.chance.choice(how)(path, fire.chance)
            fire.start()
            fire.progress(30)
            fire.settle()
        fire.judge()


def test_the_folder_of_a_disk_is_deleted(tmp_path):
    with Fire(tmp_path) as fire:
        for _ in rounds(1):
            fire.clients(2)
            fire.progress(60)
            node = fire.chance.randrange(1, 7)
            folder, number = fire.box.folder / "disks" / f"node-{node}" / "1", node * 1000 + 1
            shutil.rmtree(folder, ignore_errors=True)
            shutil.rmtree(folder, ignore_errors=True)  # files that were created during the first call
            await_true("the disk to be failed", lambda: fire.disk_state(number) == "failed", HEAL_S)
            fire.progress(30)
            fire.stop_clients()
            fire.seal_logs()
            fire.await_whole()  # without the disk
            folder.mkdir(parents=True, exist_ok=True)
            done = run("node", "format", "--config", fire.box.folder / "conf" / f"node-{node}.ini",
                       cwd=fire.box.folder)  # 1, because the other disks are in use
            assert f"disk_formatted disk={number}" in done.stderr
            fire.box("disk", "online", number)
            await_true("the disk to be online", lambda: fire.disk_state(number) == "online", HEAL_S)
        fire.judge()


class SmallDisk(Fire):
    """A cluster whose first disk is a filesystem of its own."""

    def __init__(self, folder):
        super().__init__(folder)
        self.disk = self.box.folder / "disks" / "node-1" / "1"

    def prepare(self):
        super().prepare()
        image = self.folder / "image"
        with open(image, "wb") as file:
            file.truncate(96 * MIB)
        subprocess.run(["mkfs.ext4", "-q", "-O", "^has_journal", image], check=True)
        aside = self.folder / "aside"
        self.disk.rename(aside)
        self.disk.mkdir()
        subprocess.run(["mount", "-o", "loop", image, self.disk], check=True)
        subprocess.run(["cp", "-a", f"{aside}/.", self.disk], check=True)
        set_keys(self.box.folder / "conf" / "node-1.ini", {"keep_free": "8MiB"})

    def __exit__(self, *why):
        try:
            super().__exit__(*why)
        finally:
            if os.path.ismount(self.disk):
                subprocess.run(["umount", self.disk], check=True)


@needs_root
def test_a_disk_is_full_to_the_last_byte(tmp_path):
    """Fills the disk beyond what the node keeps free, as another program would."""
    with SmallDisk(tmp_path) as fire:
        fire.clients(2)
        for _ in rounds(1):
            await_true("room on the disk", lambda: fire.disk_state(1001) == "online", 30)
            filler = fire.disk / "lost+found" / "filler"
            with open(filler, "wb") as file:
                with pytest.raises(OSError):
                    while True:
                        os.write(file.fileno(), bytes(64 * KIB))
            # A node reports a disk as full only after a put or an append failed for lack of space.
            await_true("a put that finds the disk full", lambda: fire.disk_state(1001) == "full", 30)
            fire.progress(60)
            assert fire.box.json("status", ok=False)["disk_states"].get("failed", 0) == 0
            filler.unlink()
            fire.progress(10)
        fire.judge()


# ---- clocks

JUMPS = {"+3y": 3 * 365, "-2y": -2 * 365, "+40d": 40}  # offset for libfaketime: the same in days


def days_ahead(fire, names):
    """Stops processes and starts them again. Returns {name: days by which the last line of its log was ahead}."""
    pids = [fire.box.pids()[name] for name in names]
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    await_true("their end", lambda: not any(lives(pid) for pid in pids), HEAL_S)
    days = {}
    for name in names:
        lines = (fire.box.folder / "log" / f"{name}.log").read_text().splitlines()
        stopping = [line for line in lines if f" {name.split('-')[0]}_stopping" in line][-1]
        told = datetime.strptime(stopping.split(".")[0], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)
        days[name] = (told - datetime.now(timezone.utc)).total_seconds() / 86400
    fire.start()
    return days


@needs_root
@pytest.mark.skipif(not FAKETIME.exists(), reason="needs libfaketime: ./dev deps fire")
def test_clocks_that_jump(tmp_path):
    """The wall clocks of three processes jump by days and years, each by its own offset. After a restart the monotonic
    clock of another process starts at another value, as after a reboot."""
    with Fire(tmp_path, "--racks", 3, "--disks", 2) as fire:
        stamps = {}
        for name in ("meta", "node-1", "janitor"):
            stamps[name] = tmp_path / f"{name}.clock"
            stamps[name].write_text("+0")
            fire.box.kill(name)
            env = {"LD_PRELOAD": str(FAKETIME), "FAKETIME_TIMESTAMP_FILE": str(stamps[name]),
                   "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
            fire.box.up("--procs", env={**os.environ, **env})
        fire.clients(2)
        for _ in rounds(4):
            name = fire.chance.choice(sorted(stamps))
            stamps[name].write_text(fire.chance.choice([*JUMPS, "-90", "+0"]))
            fire.progress(15)
        for offset in (-1, 86400 * 400):
            fire.box.kill("node-2")
            if offset < 0:  # a time namespace cannot go below zero: use the earliest possible value
                offset = -int(time.monotonic()) + 5
            fire.box.up("--procs", under=["unshare", "-T", "--monotonic", str(offset)])
            seen = monotonic_of(fire.box.pids()["node-2"])
            assert abs(seen - offset) <= 1, f"its clock is {seen} s from ours"
            fire.progress(20)
        fire.stop_clients()
        jumps = dict(zip(stamps, JUMPS))
        for name, stamp in stamps.items():
            stamp.write_text(jumps[name])
        for name, days in days_ahead(fire, stamps).items():  # the times of their last lines of log
            assert abs(days - JUMPS[jumps[name]]) < 2, f"{name} did not see its clock jump: {days}"
        fire.judge()


def monotonic_of(pid):
    """The number of seconds by which the monotonic clock of a process is ahead of this one's."""
    lines = Path(f"/proc/{pid}/timens_offsets").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("monotonic"))


# ---- networks

@pytest.fixture(scope="module")
def network():
    why = fire_net.missing()
    if why:
        pytest.skip(why)
    with fire_net.Network(["meta", "janitor", "client"] + [f"node-{n}" for n in range(1, 7)]) as made:
        yield made


def cuts(network, chance):
    """Ways to break a network: a name, the function, whether clients make progress, and what is noticed: "meta" when
    changes fail, a node that becomes suspect, or nothing."""
    node, other = (f"node-{n}" for n in chance.sample(range(1, 7), 2))
    return [
        ("a node alone", lambda: network.rules(node, "drop", "drop"), True, node),
        ("a node that receives nothing", lambda: network.rules(node, "drop"), True, node),
        ("a node that sends nothing", lambda: network.rules(node, "", "drop"), True, node),
        ("a node apart from clients", lambda: network.apart("client", node), True, ""),
        ("a node apart from the metadata", lambda: network.apart("meta", node), True, node),
        ("the janitor alone", lambda: network.rules("janitor", "drop", "drop"), True, ""),
        ("clients apart from the metadata", lambda: network.apart("client", "meta"), False, "meta"),
        ("metadata that sends nothing", lambda: network.rules("meta", "", "drop"), False, "meta"),
        ("loss", lambda: [network.rules(h, "numgen random mod 100 < 3 drop") for h in network.hosts], True, ""),
        ("delay", lambda: [network.delay(h, 20) for h in (node, other, "meta")], True, ""),
    ]


def test_networks_that_part_lose_and_delay(tmp_path, network):
    with fire_net.NetFire(tmp_path, network) as fire:
        fire.await_online()
        fire.clients(2)
        ways = len(cuts(network, random.Random(1)))
        for i in rounds(ways if LONG else 4):
            chosen = i % ways if LONG else fire.chance.randrange(ways)
            _, cut, goes_on, missed = cuts(network, fire.chance)[chosen]
            start, began = fire.tally(), time.monotonic()
            cut()
            if goes_on:
                fire.progress(12, 60)
            elif not LONG:
                time.sleep(0.7)
            if LONG:
                noticed(fire, missed, start)
                while time.monotonic() < began + CALL_S + 2:  # until every call in flight has timed out
                    fire.progress(12, 60) if goes_on else time.sleep(0.2)
            network.mend()
            fire.progress(12, 60)
            if LONG:
                fire.await_online()
        fire.judge()


# ---- RADOS

@long_only
def test_metadata_on_rados_with_an_osd_down(tmp_path):
    if shutil.which("ceph-osd") is None:
        pytest.skip("needs ceph: ./dev deps rados")
    ceph = tmp_path / "ceph"
    subprocess.run([RADOS, "up", ceph], check=True, timeout=180)
    try:
        with Fire(tmp_path, "--racks", 3, "--disks", 2, metadata=f"rados:{ceph}/ceph.conf") as fire:
            fire.clients(2)
            for i in rounds(2):
                subprocess.run([RADOS, "osd-kill", ceph, str(i % 3)], check=True)
                fire.progress(20, 60)
                fire.restart("meta")
                fire.progress(20, 60)
                subprocess.run([RADOS, "osd-start", ceph, str(i % 3)], check=True)
                fire.progress(20, 60)
            fire.judge()
    finally:
        subprocess.run([RADOS, "down", ceph], check=True, timeout=60)
    assert not ceph.exists()

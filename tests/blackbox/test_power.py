# SPDX-License-Identifier: Apache-2.0
"""Power loss under real processes: whatever was acknowledged before a cut is there after the next start.

Metadata, disks and pools of a whole cluster are on one drive (power.py), so that everything loses power at the same
moment, and a flush of one part must not be what makes another part durable only by luck: most cuts are taken right
after an acknowledgement. TERRANE_POWER_CUTS sets the number of cuts of each case (./dev fire sets it).
"""
import os
import random
import signal
import subprocess
import sys
import time

import pytest

import power
from box import Box, KIB, run
from fire import HERE, LONG, SEED, replay_line
from history import History
from shared import judge_shared

CUTS = int(os.environ.get("TERRANE_POWER_CUTS", "500" if LONG else "25"))
WORK_OPS = 60  # operations of each client before the recording ends
CLIENTS = ("c1", "c2")
SHARED = "/shared/1"
needs_drive = pytest.mark.skipif(power.missing() is not None, reason=str(power.missing()))


def work(box, drive):
    """Lets clients work until each has done some operations."""
    running = [subprocess.Popen([sys.executable, "-B", HERE / "fire_client.py", box.folder / "cluster.ini", path.stem,
                                 f"{SEED}-{path.stem}", path, SHARED], stdin=subprocess.DEVNULL)
               for path in drive.histories]
    try:
        end = time.monotonic() + 120
        while min(outcomes(path) for path in drive.histories) < WORK_OPS:
            assert time.monotonic() < end, "the clients make no progress"
            time.sleep(0.05)
    finally:
        for process in running:
            process.send_signal(signal.SIGTERM)
        for process in running:
            assert process.wait(timeout=120) == 0


def outcomes(path):
    return path.read_bytes().count(b'"op"') if path.exists() else 0


def fetch_all(box, out):
    """Gets all files. On a busy machine the metadata server may not answer in time: then asks again."""
    end = time.monotonic() + 120
    while True:
        subprocess.run(["rm", "-rf", out], check=True)
        done = box("get", "-q", "/", out, ok=False)
        if done.returncode == 0 or "did not answer" not in done.stderr or time.monotonic() > end:
            break
    assert done.returncode == 0, done.stderr


def start(box):
    """Starts the cluster on what a loss of power left. Part of a record at the end of the log of the metadata can be there
    without the rest: ext4 may make the length of a file durable before its last bytes. RocksDB cannot tell that from damage
    and does not open the store. Then does what the error advises; that nothing acknowledged is lost is judged all the same."""
    done = run("up", "--dir", box.folder, "--json")
    if done.returncode != 0 and "salvage" in done.stderr:
        print("salvage:", done.stderr)
        conf = box.folder / "conf" / "salvage.ini"
        conf.write_text((box.folder / "conf" / "meta.ini").read_text().replace("[store]\n", "[store]\nsalvage = true\n"))
        box("meta", "check", "--config", conf, cwd=box.folder)
        done = run("up", "--dir", box.folder, "--json")
    assert done.returncode == 0, done.stderr


def wrong_after(box, drive, cut, folder):
    """Starts the cluster on what the drive has after a cut. Returns the violations of what clients were told."""
    for old in (box.folder / "run").glob("*"):
        old.unlink()
    start(box)
    try:
        out = folder / "out"
        fetch_all(box, out)
        histories = {path.stem: History(path) for path in drive.histories_at(cut, folder)}
        wrong = []
        for name, history in histories.items():
            files = {f"/{p.relative_to(out)}": p.read_bytes() for p in (out / name).rglob("*") if p.is_file()}
            wrong += history.judge(files)
        shared = out / SHARED[1:]
        return wrong + judge_shared(SHARED, histories, shared.read_bytes() if shared.exists() else None)
    finally:
        for name in box.pids():
            box.kill(name)


@needs_drive
@pytest.mark.parametrize("shape", [
    ("--racks", 3, "--disks", 2),
    ("--racks", 3, "--pools", "2+1"),
], ids=["disks", "pools"])
def test_what_was_acknowledged_survives_a_loss_of_power(tmp_path, shape):
    print(replay_line())
    chance = random.Random(SEED)
    histories = tmp_path / "histories"
    histories.mkdir()
    drive = power.Drive(tmp_path / "drive", [histories / f"{name}.history" for name in CLIENTS])
    with drive.running():
        box = Box(drive.mount / "box", *shape)
        with box:
            work(box, drive)
    acknowledged = 0
    for cut in drive.cuts(chance, CUTS):
        with drive.after(cut):
            wrong = wrong_after(box, drive, cut, tmp_path)
        assert not wrong, "\n".join([str(cut), *wrong])
        acknowledged = cut.history_bytes
    assert min(acknowledged) > power.HISTORY_LEAST

# SPDX-License-Identifier: Apache-2.0
"""What commands write to local files is synced: the bytes of each file, and then the directory that has its name.

A preloaded library (tests/tools/sync_log.c) logs the syncs and renames of the program. Syncs of storage nodes go through
io_uring and are not seen here: unit tests and test_power.py watch those.
"""
import os
from pathlib import Path

from box import BUILD, Box, run

LIBRARY = BUILD / "release" / "tests" / "tools" / "libsync_log.so"


def watched(log):
    return {**os.environ, "LD_PRELOAD": str(LIBRARY), "TERRANE_SYNC_LOG": str(log)}


def lacks(log, path, *, earlier=None):
    """What was not synced of a file; None if nothing is missing. earlier: the file's name before its rename."""
    every = [line.split(" ", 1) for line in log.read_text().splitlines()]
    calls = [call for call in every if call[1] == str(path.parent) or Path(call[1]).parent == path.parent]
    written = ["sync", str(earlier or path)]
    if written not in calls:
        return f"the bytes of {path}"
    named = calls.index(["rename", str(path)]) if earlier else calls.index(written)
    if earlier and calls.index(written) > named:
        return f"the bytes of {path} before the rename"
    # Right after the file: the sync of another file's name is no reason to leave this one out.
    return None if calls[named + 1:named + 2] == [["sync", str(path.parent)]] else f"the name of {path}"


def test_the_files_of_a_box_are_durable_before_it_starts(tmp_path):
    log = tmp_path / "log"
    box = Box(tmp_path / "box", "--racks", 3)
    box.up(*box.shape, env=watched(log))
    try:
        files = [p for folder in ("conf", "keys") for p in (box.folder / folder).iterdir()]
        assert len(files) > 8
        assert not list(filter(None, (lacks(log, path) for path in [*files, box.folder / "cluster.ini"])))
        assert lacks(log, box.folder / "box.ini", earlier=box.folder / "box.ini.part") is None
        named = log.read_text().index(f"rename {box.folder}/box.ini\n")
        assert f"sync {tmp_path}\n" in log.read_text()[named:]
        key = tmp_path / "keys" / "dave.key"
        key.parent.mkdir()
        log = tmp_path / "log2"  # the processes of the box have the other one
        done = run("user", "add", "dave", "--role", "read-only", "--path", "/", "--key", key,
                   env={**box.env, **watched(log)})
        assert done.returncode == 0, done.stderr
        assert lacks(log, key, earlier=key.with_name("dave.key.part")) is None
    finally:
        box.down()


def test_a_trained_model_is_durable(tmp_path):
    log, model = tmp_path / "log", tmp_path / "models" / "model"
    model.parent.mkdir()
    trace = tmp_path / "trace.csv"
    trace.write_text(run("placement", "generate", "--cluster", "1001", "--jobs", "1500").stdout)
    done = run("placement", "train", trace, "-o", model, "--rounds", "3", env=watched(log))
    assert done.returncode == 0, done.stderr
    assert lacks(log, model, earlier=model.with_name("model.new")) is None

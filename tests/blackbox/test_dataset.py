# SPDX-License-Identifier: Apache-2.0
"""terrane dataset: building from a folder, versions, verification, removal, wrong input."""
import hashlib
import json
import random
import signal
import struct

import pytest

from box import KIB, MIB, Box, await_true, some_bytes, write_tree

LABELS = ("cat", "dog", "emu")
EACH = 40


def png(seed, width, height):
    """The beginning of a PNG of this size, followed by bytes that follow from the seed."""
    return (b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) +
            some_bytes(seed, random.Random(seed).randrange(100, 5000)))


@pytest.fixture(scope="module")
def box(tmp_path_factory):
    with Box(tmp_path_factory.mktemp("dataset") / "b") as inner:
        yield inner


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source")
    for label in LABELS:
        (folder / label).mkdir()
        for i in range(EACH):
            (folder / label / f"{i}.png").write_bytes(png(f"{label}{i}", 100 + i, 50))
    return folder


def built(box, source, path, *more, verb="build"):
    return box.json("dataset", verb, source, path, "--block", "64KiB", "--encoding", "rs:4+2", *more)


def test_a_folder_becomes_a_data_set_with_labels_sizes_and_checksums(box, source):
    made = built(box, source, "/one", "--sha256", "--shard", "128KiB")
    files = {str(p.relative_to(source).with_suffix("")): p.read_bytes() for p in source.rglob("*.png")}
    assert (made["version"], made["samples"], made["bytes"]) == (1, len(files), sum(map(len, files.values())))
    assert made["shards"] > 1 and made["reused_shards"] == 0
    shown = box.json("dataset", "show", "/one", "--samples", 1000)
    assert shown["labels"] == sorted(LABELS) and shown["parts"] == ["png"]
    samples = {s["key"]: s for s in shown["first_samples"]}
    assert samples.keys() == files.keys()
    for key, data in files.items():
        got = samples[key]
        assert (got["size"], got["width"], got["height"]) == (len(data), 100 + int(key[4:]), 50)
        assert got["label"] == key[:3] == sorted(LABELS)[got["number"]]
        assert got["sha256"] == hashlib.sha256(data).hexdigest()
        assert got["parts"] == {"png": len(data)}
    order = [s["key"] for s in shown["first_samples"]]
    assert {key[:3] for key in order[:20]} == set(LABELS), "the samples are not shuffled"
    assert "samples, " in box("dataset", "show", "/one").stdout
    checked = box.json("dataset", "verify", "/one")
    assert (checked["samples"], checked["bad_samples"]) == (len(files), 0)


def test_versions_share_shards_and_are_removed_one_by_one(box, source, tmp_path):
    built(box, source, "/versions")
    write_tree(tmp_path, {f"yak/{i}.bin": 700 + i for i in range(30)})
    made = built(box, tmp_path, "/versions", verb="append")
    assert (made["version"], made["samples"], made["total_samples"]) == (2, 30, 30 + 3 * EACH)
    listed = box.json("dataset", "list", "/versions")
    assert [(v["version"], v["parent"], v["samples"]) for v in listed] == [(1, 0, 3 * EACH), (2, 1, 30 + 3 * EACH)]
    # The labels of version 1 keep their numbers in version 2.
    assert box.json("dataset", "show", "/versions")["labels"] == [*sorted(LABELS), "yak"]
    assert box.json("dataset", "show", "/versions", "--version", 1)["labels"] == sorted(LABELS)
    again = box("dataset", "build", source, "/versions", ok=False)
    assert again.returncode == 1 and "use append to add to it" in again.stderr
    box("dataset", "rm", "/versions", "--version", 1)
    assert box.json("dataset", "verify", "/versions")["bad_samples"] == 0
    gone = box("dataset", "show", "/versions", "--version", 1, ok=False)
    assert gone.returncode == 1 and "has no version 1" in gone.stderr
    box("dataset", "rm", "/versions")
    assert box("ls", "/versions", ok=False).returncode == 1
    gone = box("dataset", "rm", "/versions", ok=False)
    assert gone.returncode == 1 and gone.stderr.startswith("terrane: cannot remove")


def test_an_interrupted_build_goes_on_where_it_was(box, tmp_path):
    for i in range(48):
        (tmp_path / f"{i}.bin").write_bytes(some_bytes(i, 2 * MIB))
    words = ("dataset", "build", tmp_path, "/resumed", "--shard", "4MiB", "--block", "1MiB", "--encoding", "rs:4+2")
    process = box.start(*words)

    def shards():
        done = box("ls", "/resumed/data", ok=False)
        return [name for name in done.stdout.split() if name.endswith(".index")]

    await_true("the third shard", lambda: len(shards()) >= 3)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 1 and "interrupted: run it again to go on" in error
    had = len(shards())
    assert had < 24, "the build was finished before it was interrupted"
    empty = box("dataset", "show", "/resumed", ok=False)
    assert empty.returncode == 1 and "has no version" in empty.stderr
    made = box.json(*words)
    assert made["samples"] == 48 and 3 <= had <= made["reused_shards"] + 1 and made["reused_shards"] < made["shards"]
    assert box.json("dataset", "verify", "/resumed")["bad_samples"] == 0


def test_verify_finds_samples_that_are_not_what_was_stored(box, source, tmp_path):
    built(box, source, "/bad")
    names = [name for name in box("ls", "/bad/data").stdout.split() if name.endswith(".samples")]
    copy = tmp_path / names[0]
    box("get", f"/bad/data/{names[0]}", copy)
    data = bytearray(copy.read_bytes())
    shown = box.json("dataset", "show", "/bad", "--samples", 8)["first_samples"]
    for sample in shown[3], shown[7]:
        data[sample["offset"]] ^= 1
    copy.write_bytes(data)
    box("rm", f"/bad/data/{names[0]}")
    box("put", copy, "/bad/data/")
    done = box("dataset", "verify", "/bad", "--json", ok=False)
    assert done.returncode == 1
    assert json.loads(done.stdout)["bad_samples"] == 2
    assert "sample 3: " in done.stderr and "sample 7: " in done.stderr and "does not match the index" in done.stderr


@pytest.mark.parametrize("words, status, text", [
    ((), 2, "needs build, append"),
    (("frobnicate", "/x"), 2, "needs build, append"),
    (("build", "/only-one"), 2, "needs SOURCE PATH"),
    (("show", ""), 2, "a path is empty"),
    (("show", "/none"), 1, "cannot open /none"),
    (("list", "/none"), 1, "cannot list /none"),
    (("append", ".", "/none"), 1, "use build"),
    (("build", "/no/such/folder", "/x"), 1, "cannot list /no/such/folder"),
    (("build", ".", "/x", "--media", "tape"), 2, "must be disk, flash or flash-or-disk"),
    (("build", ".", "/x", "--seed", "-1"), 2, "-1"),
    (("build", ".", "/x", "--threads", "1000"), 2, "1000"),
    (("build", ".", "/x", "--temp", "/no/such/folder"), 1, "set TMPDIR"),
    (("build", ".", "/x", "--encoding", "rs:0+0"), 1, "rs:0+0"),
])
def test_wrong_input_is_refused_with_a_remedy(box, tmp_path, words, status, text):
    (tmp_path / "file").write_bytes(b"1")
    done = box("dataset", *words, ok=False, cwd=tmp_path)
    assert (done.returncode, text in done.stderr) == (status, True), done.stderr


def test_a_folder_without_files_is_refused(box, tmp_path):
    done = box("dataset", "build", tmp_path, "/empty", ok=False)
    assert done.returncode == 1 and "has no samples" in done.stderr


def test_a_sample_larger_than_a_block_is_a_sample_too(box, tmp_path):
    (tmp_path / "big.bin").write_bytes(some_bytes("big", 40 * MIB + 17))
    (tmp_path / "empty.bin").write_bytes(b"")
    (tmp_path / "small").write_bytes(some_bytes("small", 3 * KIB))
    made = built(box, tmp_path, "/big", "--sha256")
    assert made["samples"] == 3
    assert box.json("dataset", "verify", "/big")["bad_samples"] == 0
    samples = {s["key"]: s["size"] for s in box.json("dataset", "show", "/big")["first_samples"]}
    assert samples == {"big": 40 * MIB + 17, "empty": 0, "small": 3 * KIB}

# SPDX-License-Identifier: Apache-2.0
"""terrane dataset: building from all kinds of sources, versions, verification, export, removal, wrong input."""
import hashlib
import io
import json
import random
import signal
import struct
import tarfile

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
    (("build", "/no/such/folder", "/x"), 1, "cannot look at /no/such/folder"),
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


# --- tar files, JSON lines, export

def write_tar(path, members, form=tarfile.USTAR_FORMAT):
    with tarfile.open(path, "w", format=form) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def shown_samples(box, path):
    return {s["key"]: s for s in box.json("dataset", "show", path, "--samples", 10000)["first_samples"]}


def exported(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_tar_files_of_webdataset_become_samples_with_parts(box, tmp_path, form):
    deep = "a/" + "deep" * 20 + "/" + "d" * 60  # a name that needs the extensions of each format
    shards, wanted = tmp_path / "shards", {}
    shards.mkdir()
    for shard in range(2):
        members = []
        for i in range(20):
            key = f"{deep}{shard:02}{i:03}" if i == 7 else f"train/{shard:02}{i:03}"
            parts = {"jpg": some_bytes(f"{form}{key}", 100 + 37 * i), "seg.PNG": b"", "cls": b"%d\n" % (i % 3)}
            wanted.update({f"{key}.{part.lower()}": data for part, data in parts.items()})
            members += [(f"./{key}.{part}", data) for part, data in parts.items()]
        write_tar(shards / f"{shard}.tar", members, form)
    path = f"/tar-{form}"
    made = built(box, shards, path, "--sha256")
    assert made["samples"] == 40
    shown = box.json("dataset", "show", path)
    assert sorted(shown["parts"]) == ["cls", "jpg", "seg.png"] and shown["source"] == "tar"
    samples = shown_samples(box, path)
    assert samples["train/00004"]["number"] == 4 % 3 and samples["train/00004"]["parts"]["jpg"] == 100 + 37 * 4
    assert box.json("dataset", "verify", path)["bad_samples"] == 0
    box("dataset", "export", path, tmp_path / "out")
    assert exported(tmp_path / "out") == wanted
    box("dataset", "export", path, tmp_path / "tars", "--tar", "--shard", "4KiB")
    again = {}
    for file in sorted((tmp_path / "tars").iterdir()):
        with tarfile.open(file) as tar:
            again.update({member.name: tar.extractfile(member).read() for member in tar})
    assert again == wanted and len(list((tmp_path / "tars").iterdir())) > 3
    assert built(box, tmp_path / "tars", f"{path}-again")["samples"] == 40
    assert shown_samples(box, f"{path}-again").keys() == samples.keys()


def test_a_tar_file_alone_is_a_source_and_folders_keep_their_labels(box, source, tmp_path):
    built(box, source, "/folder-set")
    box("dataset", "export", "/folder-set", tmp_path / "tars", "--tar")
    files = list((tmp_path / "tars").iterdir())
    assert len(files) == 1
    built(box, files[0], "/from-tar")
    first, second = shown_samples(box, "/folder-set"), shown_samples(box, "/from-tar")
    assert {key: one["label"] for key, one in first.items()} == {key: one["label"] for key, one in second.items()}


def test_json_lines_become_samples(box, tmp_path):
    lines = [{"id": 10 + i, "label": ["no", "yes"][i % 2], "text": "x" * i} for i in range(50)] + [{"text": "no key"}]
    text = "\n".join(json.dumps(line) for line in lines)
    (tmp_path / "a.jsonl").write_text(text[:500] + text[500:].replace("\n", "\r\n\n"))
    (tmp_path / "b.jsonl").write_text("")
    made = built(box, tmp_path, "/lines")
    assert made["samples"] == 51
    samples = shown_samples(box, "/lines")
    assert samples["13"]["label"] == "yes" and samples["13"]["parts"] == {"json": len(json.dumps(lines[3]))}
    assert [one["label"] for key, one in samples.items() if key.startswith("a.jsonl-")] == ["-"]
    box("dataset", "export", "/lines", tmp_path / "out")
    assert sorted(json.loads(data)["text"] for data in exported(tmp_path / "out").values()) == \
        sorted(line["text"] for line in lines)


def damaged_tars():
    good = io.BytesIO()
    with tarfile.open(fileobj=good, mode="w") as tar:
        info = tarfile.TarInfo("a.jpg")
        info.size = 3000
        tar.addfile(info, io.BytesIO(bytes(3000)))
    good = good.getvalue()
    flipped = bytearray(good)
    flipped[3] ^= 1
    return [good[:300], good[:2000], bytes(flipped), b"no tar file" * 100]


def test_damaged_sources_are_refused_with_their_place(box, tmp_path):
    for i, data in enumerate(damaged_tars()):
        file = tmp_path / f"{i}.tar"
        file.write_bytes(data)
        done = box("dataset", "build", file, "/refused", ok=False)
        assert done.returncode == 1 and "it is no tar file or is damaged" in done.stderr, done.stderr
    write_tar(tmp_path / "twice.tar", [("a.jpg", b"1"), ("a.jpg", b"2")])
    done = box("dataset", "build", tmp_path / "twice.tar", "/refused", ok=False)
    assert done.returncode == 1 and "two members a.jpg" in done.stderr
    (tmp_path / "bad.jsonl").write_text('{"a": 1}\n{"a": \n')
    done = box("dataset", "build", tmp_path / "bad.jsonl", "/refused", ok=False)
    assert done.returncode == 1 and "bad.jsonl, line 2:" in done.stderr
    (tmp_path / "x.zip").write_text("zip")
    done = box("dataset", "build", tmp_path / "x.zip", "/refused", ok=False)
    assert done.returncode == 1 and "neither a folder" in done.stderr
    done = box("dataset", "build", tmp_path, "/refused", "--source", "zip", ok=False)
    assert done.returncode == 1 and "it is folder, tar or jsonl" in done.stderr
    assert box("ls", "/refused", ok=False).returncode == 1


def test_export_writes_nothing_outside_its_folder(box, tmp_path):
    for i, name in enumerate(["../out.jpg", "/abs.jpg", "a//b.jpg"]):
        write_tar(tmp_path / f"{i}.tar", [(name, b"1")])
        built(box, tmp_path / f"{i}.tar", f"/keys-{i}")
        for words in ([], ["--tar"]):
            done = box("dataset", "export", f"/keys-{i}", tmp_path / f"e{i}{len(words)}", *words, ok=False)
            assert done.returncode == 1 and "cannot be the name of a file" in done.stderr
    assert not (tmp_path / "out.jpg").exists()
    done = box("dataset", "export", "/keys-0", tmp_path, ok=False)
    assert done.returncode == 1 and "it is not empty" in done.stderr

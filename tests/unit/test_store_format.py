# SPDX-License-Identifier: Apache-2.0
"""Reads what the store writes with an independent reader of the formats in src/store/README.md."""
import itertools
import os
import shutil
import subprocess

import pytest

import store_reader as reader

SAMPLE = os.environ["STORE_SAMPLE"]


@pytest.fixture(name="sample", scope="module")
def fixture_sample(tmp_path_factory):
    """A folder with a disk and a pool, and the expected contents of their chunks."""
    folder = tmp_path_factory.mktemp("sample")
    done = subprocess.run([SAMPLE, folder], capture_output=True, text=True, timeout=120, check=True)
    chunks = {"disk": [], "pool": []}
    for line in done.stdout.splitlines():
        where, block, index, length, crc, epoch, sealed, label = line.split()
        chunks[where].append({"block": int(block, 16), "index": int(index, 16), "len": int(length),
                              "crc": int(crc, 16), "epoch": int(epoch), "sealed": sealed == "1",
                              "label": bytes.fromhex(label)})
    return folder, chunks


def test_known_values():
    assert reader.crc32c(b"123456789") == 0xe3069283


def test_superblock_has_the_identity_of_the_disk(sample):
    folder, _ = sample
    assert reader.read_super(folder / "disk") == {
        "fan_bits": 3, "cluster": (1, 2), "node": 3, "disk": 4,
        "when": reader.read_super(folder / "disk")["when"]}
    damaged = shutil.copytree(folder / "disk", folder / "damaged")
    raw = bytearray((damaged / "superblock").read_bytes())
    raw[40] ^= 1
    (damaged / "superblock").write_bytes(raw)
    assert reader.read_super(damaged)["disk"] == 4
    raw[4096 + 40] ^= 1
    (damaged / "superblock").write_bytes(raw)
    with pytest.raises(reader.Damaged):
        reader.read_super(damaged)


def read(folder, chunk):
    path = reader.chunk_path(folder / "disk", 3, chunk["block"], chunk["index"])
    return path, reader.read_chunk(path, chunk["block"], chunk["index"], 4)


def test_every_chunk_is_in_the_directory_of_its_hash_and_reads_back(sample):
    folder, chunks = sample
    assert len(chunks["disk"]) == 12
    for chunk in chunks["disk"]:
        _, (slot, data) = read(folder, chunk)
        assert (len(data), reader.crc32c(data)) == (chunk["len"], chunk["crc"])
        assert (slot.epoch, slot.sealed, slot.label) == (
            chunk["epoch"], chunk["sealed"], chunk["label"])
    assert len(list(reader.chunks_of(folder / "disk"))) == 12


def test_a_flipped_bit_anywhere_is_detected_or_meaningless(sample, tmp_path):
    folder, chunks = sample
    chunk = next(c for c in chunks["disk"] if c["len"] == 70000)
    path, (_, good) = read(folder, chunk)
    raw = path.read_bytes()
    for at in [*range(0, len(raw), 2999), 9, 41, 57, 4095, 4096, 8200, 16384, len(raw) - 1]:
        changed = bytearray(raw)
        changed[at] ^= 0x20
        (tmp_path / "chunk").write_bytes(changed)
        try:
            _, data = reader.read_chunk(tmp_path / "chunk", chunk["block"], chunk["index"], 4)
            assert data == good
        except reader.Damaged:
            assert at >= reader.DATA


def test_a_torn_append_leaves_the_previous_state(sample, tmp_path):
    folder, chunks = sample
    chunk = next(c for c in chunks["disk"] if (c["block"], c["index"]) == (50, 1))
    path, (slot, good) = read(folder, chunk)
    assert not slot.sealed and slot.len == 65000 and slot.prev_len == 35000
    raw = bytearray(path.read_bytes())
    # A page of the last append was not written.
    raw[reader.DATA + 40960:reader.DATA + 45056] = bytes(4096)
    (tmp_path / "chunk").write_bytes(raw)
    older, data = reader.read_chunk(tmp_path / "chunk", 50, 1, 4)
    assert (older.seq, older.len) == (slot.seq - 1, 35000) and data == good[:35000]


def test_a_pool_is_read_from_any_k_members(sample):
    folder, chunks = sample
    members = [folder / f"m{i}" for i in range(5)]
    record = reader.read_record(members[2])
    assert (record["k"], record["p"], record["members"], record["place"], record["piece"],
            record["member"], record["pool"], any(record["behind"])) == (3, 2, 5, 0, 8192, 2, 77, False)
    assert len(chunks["pool"]) == 8
    for chunk in chunks["pool"]:
        for some in itertools.combinations(members, 3):
            label, data, epoch, sealed = reader.read_pool_chunk(
                some, chunk["block"], chunk["index"])
            assert (len(data), reader.crc32c(data)) == (chunk["len"], chunk["crc"])
            assert (label, epoch, sealed) == (chunk["label"], chunk["epoch"], chunk["sealed"])

# SPDX-License-Identifier: Apache-2.0
"""A reader of disks and pools, written from src/store/README.md alone: no code of the store is used."""
import functools
import itertools
import math
import struct
from pathlib import Path

PAGE = 4096
SLOT = 2 * PAGE
DATA = 2 * SLOT


class Damaged(Exception):
    """Raised for bytes that a reader must refuse by the README."""


# --- checksums and hashes -------------------------------------------------------------------------

def _crc_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82f63b78 if n & 1 else 0)
        table.append(n)
    return table


CRC_TABLE = _crc_table()


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xff] ^ crc >> 8
    return crc ^ 0xffffffff


MASK = (1 << 64) - 1
# Bytes 24 to 55 of XXH3's default secret, which inputs of 16 bytes use.
XXH3_SECRET = struct.unpack("<4Q", bytes.fromhex(
    "7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248e"))


def xxh3_64_of_16(data):
    low, high = struct.unpack("<2Q", data)
    low ^= XXH3_SECRET[0] ^ XXH3_SECRET[1]
    high ^= XXH3_SECRET[2] ^ XXH3_SECRET[3]
    product = low * high
    acc = (16 + int.from_bytes(low.to_bytes(8, "little"), "big") + high
           + (product & MASK ^ product >> 64)) & MASK
    acc ^= acc >> 37
    acc = acc * 0x165667919e3779f9 & MASK
    return acc ^ acc >> 32


# --- disks ----------------------------------------------------------------------------------------

def read_super(disk):
    raw = (Path(disk) / "superblock").read_bytes()
    for copy in (raw[:PAGE], raw[PAGE:2 * PAGE]):
        if copy[:8] == b"TRNSUPER" and struct.unpack_from("<I", copy, 4092)[0] == crc32c(copy[:4092]):
            version, fan_bits, cluster0, cluster1, node, disk_id, when = struct.unpack_from(
                "<II5Q", copy, 8)
            if version != 1 or fan_bits > 12:
                raise Damaged("superblock")
            return {"fan_bits": fan_bits, "cluster": (cluster0, cluster1), "node": node,
                    "disk": disk_id, "when": when}
    raise Damaged("superblock")


def chunk_path(disk, fan_bits, block, index):
    fan = xxh3_64_of_16(struct.pack("<2Q", block, index)) & (1 << fan_bits) - 1
    return Path(disk) / "chunks" / f"{fan:03x}" / f"{block:016x}.{index:08x}"


class Slot:
    """Decodes a head and its tail. Raises Damaged if they are not valid."""

    def __init__(self, raw, block, index, disk):
        head, tail = raw[:PAGE], raw[PAGE:]
        if head[:8] != b"TRNCHUNK" or struct.unpack_from("<I", head, 4092)[0] != crc32c(head[:4092]):
            raise Damaged("head")
        (version, unit_log2, flags, own_index, own_block, own_disk, self.seq, self.epoch, self.len,
         self.prev_len, self.capacity, self.crc, tail_crc) = struct.unpack_from("<4I7Q2I", head, 8)
        self.label = head[88:120]
        self.sealed = flags == 1
        self.unit = 1 << unit_log2
        if (version != 1 or not 14 <= unit_log2 <= 19 or flags > 1 or self.len > self.capacity
                or self.capacity > min(991 * self.unit, 256 << 20)
                or (own_block, own_index, own_disk) != (block, index, disk)):
            raise Damaged("head")
        self.tail = tail[:self.len % PAGE]
        if crc32c(self.tail) != tail_crc:
            raise Damaged("tail")
        units = -(-self.len // self.unit)
        self.units = struct.unpack_from(f"<{units}I", head, 128)
        self.head = head

    def range(self, data, start, end):
        """Returns bytes [start, end), after verifying every unit that they overlap."""
        out = b""
        for number in range(start // self.unit, -(-end // self.unit)):
            at, to = number * self.unit, min((number + 1) * self.unit, self.len)
            paged = min(to, self.len // PAGE * PAGE)
            unit = data[at:max(paged, at)] + self.tail[:to - max(paged, at)]
            if len(unit) != to - at or crc32c(unit) != self.units[number]:
                raise Damaged(f"unit {number}")
            out += unit[max(start - at, 0):end - at]
        return out


def read_chunk(path, block, index, disk):
    """Returns the current slot and the bytes of the chunk, by the steps of "Reading a chunk"."""
    raw = Path(path).read_bytes()
    data, slots = raw[DATA:], []
    for at in (0, SLOT):
        try:
            slots.append(Slot(raw[at:at + SLOT], block, index, disk))
        except (Damaged, struct.error):
            pass
    if not slots:
        raise Damaged("both slots")
    if len(slots) == 2 and slots[0].seq == slots[1].seq and slots[0].head != slots[1].head:
        raise Damaged("slots differ")
    slots.sort(key=lambda s: -s.seq)
    newest = slots[0]
    settled = len(slots) == 2 and slots[0].seq == slots[1].seq
    if not settled and len(slots) == 2:
        older = slots[1]
        try:
            newest.range(data, min(newest.prev_len, newest.len), newest.len)
        except Damaged:
            if older.seq == newest.seq - 1 and older.len == newest.prev_len:
                newest = older
    whole = newest.range(data, 0, newest.len)
    if crc32c(whole) != newest.crc:
        raise Damaged("chunk")
    return newest, whole


@functools.cache
def chunks_of(disk):
    """Returns the ids of all chunks of a disk."""
    return list(_chunks_of(disk))


def _chunks_of(disk):
    for path in sorted((Path(disk) / "chunks").glob("*/*")):
        block, index = path.name.split(".")
        yield int(block, 16), int(index, 16), path


# --- pools ----------------------------------------------------------------------------------------

def gf_mul(a, b):
    product = 0
    while b:
        product ^= a if b & 1 else 0
        a = a << 1 ^ (0x11d if a & 0x80 else 0)
        b >>= 1
    return product


GF_INV = [0] + [next(b for b in range(1, 256) if gf_mul(a, b) == 1) for a in range(1, 256)]
GF_TABLE = [bytes(gf_mul(a, b) for b in range(256)) for a in range(256)]


def matrix_row(k, row):
    """Returns the row of the matrix of rs:k+p that computes this row from the data rows."""
    if row < k:
        return [int(j == row) for j in range(k)]
    return [gf_mul(k ^ j, GF_INV[row ^ j]) for j in range(k)]


def scaled(factor, row):
    return row.translate(GF_TABLE[factor])


def added(a, b):
    return (int.from_bytes(a, "little") ^ int.from_bytes(b, "little")).to_bytes(len(a), "little")


def solve(k, rows):
    """Computes the data rows from any k rows, by elimination."""
    system = [(matrix_row(k, number), rows[number]) for number in sorted(rows)[:k]]
    for col in range(k):
        pivot = next(i for i in range(col, k) if system[i][0][col])
        system[col], system[pivot] = system[pivot], system[col]
        factor = GF_INV[system[col][0][col]]
        system[col] = ([gf_mul(factor, c) for c in system[col][0]], scaled(factor, system[col][1]))
        for i in range(k):
            factor = system[i][0][col]
            if i != col and factor:
                system[i] = ([c ^ gf_mul(factor, d) for c, d in zip(system[i][0], system[col][0])],
                             added(system[i][1], scaled(factor, system[col][1])))
    return [bytes_ for _, bytes_ in system]


@functools.cache
def read_record(disk):
    """Returns the newer pool record of this member."""
    best = None
    for index in (0, 1):
        info = read_super(disk)
        path = chunk_path(disk, info["fan_bits"], MASK, index)
        if not path.exists():
            continue
        raw = read_chunk(path, MASK, index, info["disk"])[1]
        if raw[:8] != b"TRNPOOL1" or struct.unpack_from("<I", raw, 4092)[0] != crc32c(raw[:4092]):
            raise Damaged("record")
        k, p, members, place, piece, member, pool, generation, settled, events = struct.unpack_from(
            "<6I2Q2I", raw, 8)
        record = {"k": k, "p": p, "members": members, "place": place, "piece": piece,
                  "member": member, "pool": pool, "generation": generation, "settled": settled,
                  "events": struct.unpack_from(f"<{events}H", raw, 56),
                  "behind": struct.unpack_from(f"<{members}H", raw, 2056)}
        if best is None or generation > best["generation"]:
            best = record
    return best


def read_label(raw):
    magic, copy, row, k, p, was_open, zero, piece, crc, length, pool = struct.unpack("<2s6B2I2Q", raw)
    if magic != b"P\x01" or copy > 1 or was_open > 1 or zero:
        raise Damaged("label")
    return {"copy": copy, "row": row, "k": k, "p": p, "piece": piece, "crc": crc, "len": length,
            "pool": pool}


def join_rows(k, piece, length, data_rows):
    """Joins the data rows of a chunk."""
    out = b""
    for stripe in itertools.count():
        rest = length - stripe * k * piece
        if rest <= 0:
            return out
        share = piece if rest >= k * piece else min(piece, -(-(-(-rest // k)) // PAGE) * PAGE)
        whole = b"".join(row[stripe * piece:stripe * piece + share] for row in data_rows)
        out += whole[:min(rest, k * piece)]


@functools.cache
def pieces_of(disk, block, index):
    """Returns the rows and copies of a chunk that a member has."""
    own = read_super(disk)["disk"]
    return [read_chunk(path, own_block, own_index, own)
            for own_block, own_index, path in chunks_of(disk)
            if own_block == block and own_index >> 8 == index]


def read_pool_chunk(members, block, index):
    """Reads a chunk from these members: (caller's label, bytes, epoch, sealed)."""
    records = [read_record(disk) for disk in members]
    behind = max(records, key=lambda r: r["generation"])["behind"]
    rows, copies = {}, []
    for disk, record in zip(members, records):
        for slot, raw in pieces_of(disk, block, index):
            label = read_label(slot.label)
            if not label["copy"]:
                rows.setdefault((label["len"], label["crc"], label["piece"], slot.epoch, label["k"]),
                                {})[label["row"]] = raw
            else:
                copies.append((behind[record["member"]] or math.inf, slot.sealed, slot.len, slot.epoch,
                               raw))
    for (length, crc, piece, epoch, k), found in rows.items():
        if len(found) < k:
            continue
        upper = next(iter(found.values()))[-32:]
        data = solve(k, {number: row[:-32] for number, row in found.items()}) if length else []
        out = join_rows(k, piece, length, data)
        if crc32c(out) != crc:
            raise Damaged("chunk of the pool")
        return upper, out, epoch, True
    if not copies:
        raise Damaged("too little")
    trust = max(copy[0] for copy in copies)
    _, sealed, _, epoch, raw = max((c for c in copies if c[0] == trust), key=lambda c: c[:4])
    return raw[:32], raw[PAGE:], epoch, sealed

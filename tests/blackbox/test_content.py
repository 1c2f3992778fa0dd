# SPDX-License-Identifier: Apache-2.0
"""Data sets with digests: two tenants that share have one copy of equal samples in the cache, in whatever order they packed."""
import pytest

from box import KIB, Box, await_true, run, some_bytes

SAMPLES, SIZE = 24, 180 * KIB
SHAPE = ("--nodes", 3, "--disks", 1, "--encoding", "r2", "--cache-nodes", 1, "--cache-flash", "64MiB", "--procs")
TENANTS = ("default", "other")


@pytest.fixture()
def box(tmp_path):
    with Box(tmp_path / "box", *SHAPE) as inner:
        path = inner.folder / "cluster.ini"
        path.write_text(path.read_text() + "[cache]\ntimeout = 20s\npause = 1s\n")  # whatever else the machine does
        inner("tenant", "create", "other")
        yield inner


@pytest.fixture()
def source(tmp_path):
    (tmp_path / "source" / "cat").mkdir(parents=True)
    for i in range(SAMPLES):
        (tmp_path / "source" / "cat" / f"{i}.bin").write_bytes(some_bytes(i, SIZE + i))
    return tmp_path / "source"


def content(box):
    """What the cache node tells of gets by content, and how many segments it holds."""
    node, = box.json("cache", "status")
    return node["content"] | {"segments": node["segments"]}


def read(box, tenant, tmp_path):
    """Reads a tenant's data set; all samples must be right."""
    box("dataset", "export", "/set", tmp_path / "out", "-t", tenant, "-q")
    found = {p.stem: p.read_bytes() for p in (tmp_path / "out").rglob("*.bin")}
    assert found == {str(i): some_bytes(i, SIZE + i) for i in range(SAMPLES)}
    for p in sorted((tmp_path / "out").rglob("*"), reverse=True):
        p.rmdir() if p.is_dir() else p.unlink()
    (tmp_path / "out").rmdir()


def order(box, tenant):
    return [s["key"] for s in box.json("dataset", "show", "/set", "-t", tenant, "--samples", SAMPLES)["first_samples"]]


def build(box, source, share):
    """Builds the data set of each tenant, in an order of its own."""
    for seed, tenant in enumerate(TENANTS):
        box("dataset", "build", source, "/set", "-t", tenant, "--sha256", "--seed", seed, "-q", "--block", "4MiB")
        if share:
            box("tenant", "share", tenant, "on")
    assert order(box, "default") != order(box, "other")


def until_all_hit(box, tenant, tmp_path):
    """Reads until a read was served from entries alone. The first one may have found the node, or a setting, too early."""
    def attempt():
        before = content(box)
        read(box, tenant, tmp_path)
        now = content(box)
        return now["hits"] - before["hits"] == SAMPLES and now["read_bytes"] == before["read_bytes"]
    await_true(f"a read of {tenant} from entries", attempt)


def test_equal_samples_of_tenants_that_share_are_cached_once_and_read_from_disk_once_by_each(box, source, tmp_path):
    build(box, source, share=True)
    assert all(t["shares_content"] for t in box.json("tenant", "list"))
    until_all_hit(box, "default", tmp_path)
    one = content(box)
    assert one["filed"] == one["claims"] == SAMPLES
    until_all_hit(box, "other", tmp_path)
    both = content(box)
    # Nothing was filed for the second tenant, of which the cache has the index alone.
    assert both["filed"] == SAMPLES and both["segments"] - one["segments"] < SAMPLES / 2
    assert both["claims"] == 2 * SAMPLES and both["false_claims"] == 0
    assert both["read_bytes"] == 2 * sum(SIZE + i for i in range(SAMPLES))  # each tenant's own copy, once
    assert "served from 24 entries" in box("cache", "status").stdout


def test_tenants_do_not_share_unless_they_switched_it_on(box, source, tmp_path):
    build(box, source, share=False)
    read(box, "default", tmp_path)
    read(box, "other", tmp_path)
    assert content(box)["gets"] == 0
    box("tenant", "share", "default", "on")
    until_all_hit(box, "default", tmp_path)
    read(box, "other", tmp_path)
    assert content(box)["claims"] == SAMPLES  # of one tenant
    box("tenant", "share", "default", "off")
    gets = content(box)["gets"]
    read(box, "default", tmp_path)  # a new client asks by block
    assert content(box)["gets"] == gets
    assert not any(t["shares_content"] for t in box.json("tenant", "list"))


def test_only_an_administrator_of_the_tenant_switches_sharing(box, tmp_path):
    key = tmp_path / "bob.key"
    box("user", "add", "bob", "--role", "read-write", "--tenant", "other", "--key", key)
    bob = {**box.env, "TERRANE_KEY_FILE": str(key)}
    for tenant in TENANTS:
        done = run("tenant", "share", tenant, "on", env=bob)
        assert done.returncode == 1 and "denied" in done.stderr, done.stderr
    assert not any(t["shares_content"] for t in box.json("tenant", "list"))
    assert box("tenant", "share", "other", "perhaps", ok=False).returncode == 2
    assert box("tenant", "share", "nobody", "on", ok=False).returncode == 1

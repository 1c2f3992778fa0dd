# SPDX-License-Identifier: Apache-2.0
"""terrane.build: data sets from files and from samples that a program makes."""
import os
import signal
import tarfile

import child
import pytest
import terrane
from box import some_bytes
from conftest import ROOT  # noqa: F401 (the paths of the package)

pytest.importorskip("numpy")
OPTIONS = {"block_bytes": 1 << 16, "encoding": "rs:4+2"}


def samples_of(count):
    return ({"__key__": f"dir/{i:05}", "bin": some_bytes(i, 10 + i), "json": b'{"i": %d}' % i, "cls": ("a", "b", "c")[i % 3]}
            for i in range(count))


def test_an_iterable_becomes_a_data_set_with_parts_and_labels(cluster, folder, tmp_path):
    made = terrane.build(samples_of(300), f"{folder}/set", cluster=cluster, sha256=True, temp=tmp_path, **OPTIONS)
    assert (made["version"], made["samples"]) == (1, 300) and os.listdir(tmp_path) == []
    data = terrane.Dataset(f"{folder}/set", cluster=cluster)
    assert data.labels == ["a", "b", "c"] and sorted(data.parts) == ["bin", "cls", "json"]
    batch = data.read(range(300))
    order = []
    for key, parts, sample in zip(data.keys(range(300)), batch.parts(), batch, strict=True):
        i = int(key.removeprefix("dir/"))
        assert bytes(parts["bin"]) == some_bytes(i, 10 + i) and bytes(parts["json"]) == b'{"i": %d}' % i
        assert data.labels[sample.label] == "abc"[i % 3] == bytes(parts["cls"]).decode()
        order.append(i)
    assert order != sorted(order)
    again = terrane.build([{"bin": b"x", "cls": "new"}], f"{folder}/set", cluster=cluster, append=True, **OPTIONS)
    assert (again["version"], again["total_samples"]) == (2, 301)


def test_files_are_built_like_the_command_does(cluster, folder, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.txt").write_text("one")
    made = terrane.build(tmp_path, f"{folder}/set", cluster=cluster)
    assert made["samples"] == 1 and terrane.Dataset(f"{folder}/set", cluster=cluster).labels == ["a"]
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        tar.add(tmp_path / "a" / "1.txt", "7.txt")
    terrane.build(str(tmp_path / "x.tar"), f"{folder}/tar", cluster=cluster)
    assert terrane.Dataset(f"{folder}/tar", cluster=cluster).keys([0]) == ["7"]


@pytest.mark.parametrize("sample, error, text", [
    (5, TypeError, "must be a dict"),
    ({"__key__": "a.b", "bin": b""}, ValueError, "without a dot"),
    ({"__key__": 7, "bin": b""}, ValueError, "__key__"),
    ({"__key__": "a"}, ValueError, "no parts"),
    ({"bin": "text"}, TypeError, "must be bytes"),
    ({"a/b": b""}, ValueError, "not a name"),
])
def test_wrong_samples_are_refused_and_leave_nothing(cluster, folder, tmp_path, sample, error, text):
    with pytest.raises(error, match=text):
        terrane.build([{"bin": b"1"}, sample], f"{folder}/set", cluster=cluster, temp=tmp_path)
    assert not cluster.exists(f"{folder}/set") and os.listdir(tmp_path) == []


def test_wrong_builds_are_refused(cluster, folder, tmp_path):
    same = {"__key__": "k", "bin": b"1"}
    for source, options, error, text in [
            ([same, same], {}, ValueError, "two samples in a row"), ([], {}, OSError, "no samples"),
            ([same], {"kind": "tar"}, ValueError, "kind is for"), ("/no/such", {}, FileNotFoundError, "cannot look"),
            (tmp_path, {"kind": "zip"}, OSError, "folder, tar or jsonl"), ([same], {"color": 1}, TypeError, "color"),
            ([same], {"append": True}, FileNotFoundError, "use build"),
            ([same], {"temp": "/no/such"}, FileNotFoundError, "no/such")]:
        with pytest.raises(error, match=text):
            terrane.build(source, f"{folder}/set", cluster=cluster, **options)
    with pytest.raises(TypeError, match="terrane.Cluster"):
        terrane.build([same], f"{folder}/set", cluster=5)


INTERRUPTED = """
import terrane
print("ready", flush=True)
try:
    terrane.build({source!r}, {path!r}, block_bytes=1 << 20, encoding="rs:4+2", shard_bytes=4 << 20)
    print("built")
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_ends_a_build_and_the_next_one_goes_on(cluster, folder, tmp_path):
    for i in range(64):
        (tmp_path / f"{i}.bin").write_bytes(some_bytes(i, 2 << 20))
    process = child.start(INTERRUPTED.format(source=str(tmp_path), path=f"{folder}/set"))
    assert process.stdout.readline() == "ready\n"
    from box import await_true
    await_true("a shard", lambda: cluster.exists(f"{folder}/set/data") and
               any(name.endswith(".index") for name in cluster.listdir(f"{folder}/set/data")))
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=60)
    assert out in ("interrupted\n", "built\n"), error
    if out == "interrupted\n":
        made = terrane.build(tmp_path, f"{folder}/set", cluster=cluster, block_bytes=1 << 20, encoding="rs:4+2",
                             shard_bytes=4 << 20)
        assert made["reused_shards"] >= 1 and made["samples"] == 64

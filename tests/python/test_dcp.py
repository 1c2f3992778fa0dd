# SPDX-License-Identifier: Apache-2.0
"""terrane.dcp with torch.distributed.checkpoint: states come back, also on other ranks, and are there completely or not."""
import pickle

import child
import pytest
import terrane
from conftest import PACKAGE, ROOT

torch = pytest.importorskip("torch")
pytest.importorskip("old_torch")
dcp = pytest.importorskip("terrane.dcp")
library = dcp._dcp


def save(state, path, **options):
    library.save_state_dict(state, dcp.StorageWriter(path, **options), no_dist=True)


def load(state, path, **options):
    library.load_state_dict(state, dcp.StorageReader(path, **options), no_dist=True)


def state_of(seed):
    chance = torch.Generator().manual_seed(seed)
    return {"a": torch.randn(30, 20, generator=chance), "turned": torch.randn(6, 5, generator=chance).t(),
            "half": torch.randn(7, generator=chance).to(torch.bfloat16), "flags": torch.rand(9, generator=chance) > 0.5,
            "one": torch.tensor(seed), "none": torch.empty(0, 4), "text": f"seed {seed}", "list": [seed, 2.5]}


def same(a, b):
    return all(torch.equal(a[key], b[key]) if isinstance(a[key], torch.Tensor) else a[key] == b[key] for key in a)


def test_a_distributed_state_comes_back_as_it_was(cluster, folder):
    save(state_of(1), f"{folder}/run/step-1", cluster=cluster)
    assert cluster.listdir(f"{folder}/run") == ["step-1"]
    state = state_of(2)
    load(state, f"{folder}/run/step-1", cluster=cluster)
    assert same(state, state_of(1))
    with pytest.raises(BaseException, match="there is a checkpoint"):
        save(state, f"{folder}/run/step-1", cluster=cluster)


RANK = """
import old_torch, torch, terrane, torch.distributed as distributed
from torch.distributed._shard import sharded_tensor
from torch.distributed._shard.sharding_spec import ChunkShardingSpec
from terrane import dcp
distributed.init_process_group("gloo", init_method="file://{file}", rank={rank}, world_size=2)

def sharded(dim):
    spec = ChunkShardingSpec(dim=dim, placements=["rank:0/cpu", "rank:1/cpu"])
    return sharded_tensor.zeros(spec, 10, 6)

def fill(tensor):
    for shard in tensor.local_shards():
        rows, columns = shard.metadata.shard_offsets
        for i in range(shard.tensor.shape[0]):
            for j in range(shard.tensor.shape[1]):
                shard.tensor[i, j] = (rows + i) * 100 + columns + j


state = {{"w": sharded(0), "n": torch.arange(3)}}
fill(state["w"])
dcp._dcp.save_state_dict(state, dcp.StorageWriter("{path}"))
other = {{"w": sharded(1), "n": torch.zeros(3, dtype=torch.int64)}}
dcp._dcp.load_state_dict(other, dcp.StorageReader("{path}"))
want = sharded(1)
fill(want)
assert all(torch.equal(a.tensor, b.tensor) for a, b in zip(other["w"].local_shards(), want.local_shards()))
assert other["n"].tolist() == [0, 1, 2]
print("same")
"""


@pytest.mark.skipif(not torch.distributed.is_available(), reason="needs torch.distributed")
def test_ranks_save_their_shards_and_load_other_ones(cluster, folder, tmp_path):
    path = f"{folder}/run"
    ranks = [child.start(RANK.format(file=tmp_path / "meet", rank=rank, path=path),
                         PYTHONPATH=f"{PACKAGE}:{ROOT / 'tests' / 'python'}") for rank in range(2)]
    for rank in ranks:
        out, error = rank.communicate(timeout=120)
        assert rank.returncode == 0 and out == "same\n", error
    assert sorted(cluster.listdir(path)) == ["metadata", "rank-00000", "rank-00001"]
    whole = {"w": torch.zeros(10, 6), "n": torch.zeros(3, dtype=torch.int64)}
    load(whole, path, cluster=cluster)
    assert torch.equal(whole["w"], torch.arange(10.).reshape(10, 1) * 100 + torch.arange(6.))


def test_only_the_rows_that_are_needed_are_read(cluster, folder):
    save({"w": torch.randn(1 << 12, 1 << 8)}, f"{folder}/run", cluster=cluster)
    reader = dcp.StorageReader(f"{folder}/run", cluster=cluster)
    place, = reader.read_metadata().storage_data.values()

    class Item:
        type = dcp._planner.LoadItemType.TENSOR
        storage_offsets, lengths = torch.Size([100, 0]), torch.Size([5, 1 << 8])

    class Planner:
        @staticmethod
        def resolve_tensor(item):
            return torch.zeros(5, 1 << 8)

    wanted = dcp._Wanted(Item, place, Planner)
    assert len(wanted.room) == 5 * 1024 and wanted.offset == 100 * 1024


def test_a_save_that_fails_leaves_nothing_visible(cluster, folder, monkeypatch):
    def fails(self, metadata, results):
        raise OSError("crash")
    monkeypatch.setattr(dcp.StorageWriter, "finish", fails)
    with pytest.raises(BaseException, match="crash"):
        save(state_of(1), f"{folder}/run", cluster=cluster)
    monkeypatch.undo()
    assert not cluster.exists(f"{folder}/run")
    save(state_of(3), f"{folder}/run", cluster=cluster)
    state = state_of(2)
    load(state, f"{folder}/run", cluster=cluster)
    assert same(state, state_of(3))


class Evil:
    def __reduce__(self):
        return print, ("executed",)


def test_descriptions_that_execute_code_or_are_damaged_are_refused(cluster, folder, capsys):
    save(state_of(1), f"{folder}/run", cluster=cluster)
    good = cluster.read(f"{folder}/run/metadata")
    for bad in (pickle.dumps(Evil()), good[:100], b"", b"text"):
        cluster.write(f"{folder}/run/metadata", bad)
        with pytest.raises(terrane.Error, match="load another one"):
            dcp.StorageReader(f"{folder}/run", cluster=cluster).read_metadata()
    assert "executed" not in capsys.readouterr().out
    cluster.write(f"{folder}/run/metadata", good)
    cluster.write(f"{folder}/run/rank-00000", b"short")
    with pytest.raises(BaseException, match="too short"):
        load(state_of(1), f"{folder}/run", cluster=cluster)
    with pytest.raises(BaseException):
        load(state_of(1), f"{folder}/none", cluster=cluster)
    with pytest.raises(ValueError, match="needs a path"):
        dcp.StorageReader(cluster=cluster).read_metadata()

# SPDX-License-Identifier: Apache-2.0
"""terrane.checkpoint: states come back as they were, crashes leave the last one, damaged files are refused."""
import collections
import random
import signal

import child
import pytest
import terrane
from box import await_true

torch = pytest.importorskip("torch")
checkpoint = pytest.importorskip("terrane.checkpoint")

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.int32,
          torch.int64, torch.bool, torch.complex64]


def same(a, b):
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and a.shape == b.shape and bool(
            torch.all((a == b) | (a != a)))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return a == b and type(a) is type(b)


def state_of(step):
    chance = torch.Generator().manual_seed(step)
    return {"model": collections.OrderedDict((f"layer.{i}", torch.randn(50, 30 + i, generator=chance)) for i in range(5)),
            "optimizer": {"state": {0: {"step": torch.tensor(step), "exp": torch.randn(7, generator=chance)}},
                          "groups": [{"lr": 0.1, "betas": (0.9, 0.999), "amsgrad": False, "name": None}]},
            "step": step, "big": 1 << 80, "small": 5e-324, "text": "ü\n"}


def test_a_state_comes_back_as_it_was(cluster, folder):
    checkpoint.save(state_of(3), f"{folder}/run", 3, cluster=cluster)
    assert same(checkpoint.load(f"{folder}/run", cluster=cluster), state_of(3))


def test_tensors_of_all_kinds_come_back(cluster, folder):
    state = {str(dtype): (torch.randn(3, 5) * 10).to(dtype) for dtype in DTYPES}
    state.update(scalar=torch.tensor(2.5), none=torch.empty(0, 3), turned=torch.arange(12.).reshape(3, 4).t(),
                 part=torch.arange(100)[10:90:7], grad=torch.ones(2, requires_grad=True))
    checkpoint.save(state, f"{folder}/run", 1, cluster=cluster)
    loaded = checkpoint.load(f"{folder}/run", cluster=cluster)
    assert same({**state, "grad": state["grad"].detach()}, loaded)


def test_tied_weights_stay_tied_and_are_stored_once(cluster, folder):
    weights = torch.randn(1000, 100)
    checkpoint.save({"in": weights, "out": weights, "other": weights.t()}, f"{folder}/run", 1, cluster=cluster)
    loaded = checkpoint.load(f"{folder}/run", cluster=cluster)
    assert loaded["in"] is loaded["out"] and same(loaded["in"], weights) and same(loaded["other"], weights.t())
    size = cluster.stat(f"{folder}/run/step-0000000001/rank-00000-of-00001").size
    assert size < 2 * 4 * weights.numel() + 2000


def test_only_the_chosen_tensors_are_read(cluster, folder):
    checkpoint.save({"a": torch.randn(1 << 20), "b": {"c": torch.ones(3), "d": 1}}, f"{folder}/run", 1, cluster=cluster)
    before = cluster.stats()["read_bytes"]
    loaded = checkpoint.load(f"{folder}/run", cluster=cluster, only=lambda name: name == "/b/c")
    assert same(loaded, {"b": {"c": torch.ones(3), "d": 1}})
    assert cluster.stats()["read_bytes"] - before < 1 << 20


def test_steps_are_listed_and_the_last_ones_kept(cluster, folder):
    run = f"{folder}/run"
    assert checkpoint.list(run, cluster=cluster) == [] and checkpoint.latest(run, cluster=cluster) is None
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        checkpoint.load(run, cluster=cluster)
    for step in (5, 1, 12, 7):
        checkpoint.save({"step": step}, run, step, cluster=cluster)
    assert checkpoint.list(run, cluster=cluster) == [1, 5, 7, 12]
    assert checkpoint.load(run, cluster=cluster) == {"step": 12}
    assert checkpoint.load(run, 5, cluster=cluster) == {"step": 5}
    with pytest.raises(FileExistsError, match="has a checkpoint"):
        checkpoint.save({}, run, 7, cluster=cluster)
    assert checkpoint.keep(run, 2, cluster=cluster) == [1, 5]
    assert checkpoint.keep(run, 2, cluster=cluster) == []
    assert checkpoint.list(run, cluster=cluster) == [7, 12]
    assert sorted(cluster.listdir(run)) == ["step-0000000007", "step-0000000012"]


def test_a_checkpoint_of_many_ranks_is_visible_when_all_have_saved(cluster, folder):
    run = f"{folder}/run"
    checkpoint.save({"rank": 9}, run, 4, cluster=cluster, rank=6, world=7)  # of an attempt with more ranks
    for rank in (0, 2):
        checkpoint.save({"rank": rank}, run, 4, cluster=cluster, rank=rank, world=3)
        with pytest.raises(FileNotFoundError, match="not saved, such as rank-00001-of-00003"):
            checkpoint.commit(run, 4, 3, cluster=cluster)
    checkpoint.save({"rank": 1}, run, 4, cluster=cluster, rank=1, world=3)
    assert checkpoint.list(run, cluster=cluster) == []
    checkpoint.commit(run, 4, 3, cluster=cluster)
    assert [checkpoint.load(run, cluster=cluster, rank=rank, world=3)["rank"] for rank in range(3)] == [0, 1, 2]
    assert len(cluster.listdir(f"{run}/step-0000000004")) == 3


RANK = """
import torch, terrane, torch.distributed as distributed
from terrane import checkpoint
distributed.init_process_group("gloo", init_method="file://{file}", rank={rank}, world_size=2)
run = "{run}"
checkpoint.save({{"rank": distributed.get_rank(), "weights": torch.full((1000,), float({rank}))}}, run, 8)
assert checkpoint.list(run) == [8]
state = checkpoint.load(run)
assert state["rank"] == {rank} and float(state["weights"].sum()) == 1000 * {rank}
checkpoint.save({{"rank": {rank}}}, run, 9, wait=False).result()
assert checkpoint.list(run) == [8, 9]
try:
    checkpoint.save({{"bad": object() if {rank} else 1}}, run, 10)
except (TypeError, terrane.Error) as error:
    assert "/bad is of <class 'object'>" in str(error)
    assert checkpoint.list(run) == [8, 9]
    print("refused")
"""


@pytest.mark.skipif(not torch.distributed.is_available(), reason="needs torch.distributed")
def test_ranks_of_torch_distributed_save_together(cluster, folder, tmp_path):
    ranks = [child.start(RANK.format(file=tmp_path / "meet", rank=rank, run=f"{folder}/run")) for rank in range(2)]
    for rank in ranks:
        out, error = rank.communicate(timeout=120)
        assert rank.returncode == 0 and out == "refused\n", error


def test_a_save_in_the_background_has_the_state_of_its_call(cluster, folder):
    weights = torch.zeros(1 << 20)
    future = checkpoint.save({"weights": weights}, f"{folder}/run", 1, cluster=cluster, wait=False)
    weights += 1
    assert future.result(timeout=120) is None
    assert float(checkpoint.load(f"{folder}/run", cluster=cluster)["weights"].sum()) == 0
    future = checkpoint.save({}, f"{folder}/run", 1, cluster=cluster, wait=False)
    with pytest.raises(FileExistsError):
        future.result(timeout=120)


CRASHES = """
import torch, terrane
from terrane import checkpoint
checkpoint.save({{"step": 1}}, "{run}", 1)
print("saved", flush=True)
state = {{str(i): torch.randn(1 << 20) for i in range(64)}}
for step in range(2, 1000):
    checkpoint.save(state, "{run}", step)
    checkpoint.keep("{run}", 1)
"""


def test_a_crash_leaves_the_last_checkpoint_as_the_latest(cluster, folder):
    run = f"{folder}/run"
    process = child.start(CRASHES.format(run=run))
    assert process.stdout.readline() == "saved\n"
    await_true("a save in progress", lambda: any(name.startswith("partial-") for name in cluster.listdir(run)))
    process.send_signal(signal.SIGKILL)
    process.wait()
    last = checkpoint.latest(run, cluster=cluster)
    state = checkpoint.load(run, cluster=cluster)
    assert state == {"step": 1} if last == 1 else len(state) == 64
    checkpoint.save({"step": last + 1}, run, last + 1, cluster=cluster)  # also where the other one left its files
    assert checkpoint.load(run, cluster=cluster) == {"step": last + 1}
    checkpoint.keep(run, 1, cluster=cluster)
    assert cluster.listdir(run) == [f"step-{last + 1:010}"]


def test_damaged_files_are_refused(cluster, folder):
    run = f"{folder}/run"
    checkpoint.save(state_of(1), run, 1, cluster=cluster)
    file = f"{run}/step-0000000001/rank-00000-of-00001"
    good = cluster.read(file)
    header = len(good) - 32 - int.from_bytes(good[-16:-8], "little")
    chance = random.Random(3)
    for i in range(60):
        bad = bytearray(good)
        if i % 3 == 0:
            bad = bad[:chance.randrange(len(bad))]
        else:
            bad[chance.randrange(header, len(bad) - 4)] ^= 1 << chance.randrange(8)
        cluster.write(file, bad)
        with pytest.raises(terrane.Error, match="load another step"):
            checkpoint.load(run, cluster=cluster)


@pytest.mark.parametrize("state, text", [
    ({"a": [1, {"b": object()}]}, "/a/1/b is of <class 'object'>"),
    ({"a": torch.eye(3).to_sparse()}, "/a is a sparse"),
    ({"a": b"bytes"}, "/a is of <class 'bytes'>"),
])
def test_states_that_cannot_be_stored_are_refused_and_leave_nothing(cluster, folder, state, text):
    with pytest.raises(TypeError, match=text):
        checkpoint.save(state, f"{folder}/run", 1, cluster=cluster)
    assert checkpoint.list(f"{folder}/run", cluster=cluster) == []


def test_wrong_steps_and_ranks_are_refused(cluster, folder):
    for step in (-1, 10 ** 10, "5", 1.5):
        with pytest.raises(ValueError, match="step"):
            checkpoint.save({}, folder, step, cluster=cluster)
    with pytest.raises(ValueError, match="rank"):
        checkpoint.save({}, folder, 1, cluster=cluster, rank=2, world=2)
    with pytest.raises(ValueError, match="at least one"):
        checkpoint.keep(folder, 0, cluster=cluster)

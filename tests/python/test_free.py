# SPDX-License-Identifier: Apache-2.0
"""The order free: what a cache has comes first, each sample once, states of ranks, logs of decisions."""
import itertools
import os
import random

import numpy
import pytest
import terrane

TOTAL = 1500


@pytest.fixture(scope="module")
def data(cluster):
    path = f"/sets/free-{os.getpid()}"
    terrane.build(({"__key__": f"{i:05}", "txt": b"x%d" % i} for i in range(TOTAL)), path, cluster=cluster)
    return terrane.Dataset(path, cluster=cluster)


def loader(data, batch=50, **options):
    return terrane.Loader(data, batch, order="free", **options)


def flat(batches):
    return [number for batch in batches for number in batch.samples.tolist()]


def test_what_the_cache_has_comes_first_and_each_sample_once(data):
    def cached(numbers):
        return numbers % 5 == 0
    one = loader(data, seed=1, cached=cached, prefetch=1)
    for epoch in range(2):
        batches = [batch.samples for batch in one]
        assert len(batches) == 30 and sorted(numpy.concatenate(batches).tolist()) == list(range(TOTAL))
        assert all((batch % 5 == 0).all() for batch in batches[:3])  # of 500 candidates 100 are there
        assert one.epoch == epoch + 1
    plain = flat(loader(data, seed=1))
    assert plain == flat(loader(data, seed=1)) != flat(loader(data, seed=2))


@pytest.mark.parametrize("world", [2, 5])
def test_ranks_read_the_epoch_once_together_and_resume_in_another_number(data, world):
    chance = random.Random(world)
    seen, state = [], None
    for ranks in (world, 3, 1):
        states = []
        for rank in range(ranks):
            one = loader(data, 40, seed=4, rank=rank, world=ranks, prefetch=2,
                         cached=lambda numbers: numpy.array([chance.random() < 0.3 for _ in numbers], bool))
            if state is not None:
                one.load_state_dict(state)
            batches = one if ranks == 1 else itertools.islice(one, 4)
            seen += flat(batches)
            states.append(one.state_dict())
        state = terrane.merge_states(states)
        assert state["position"] == len(seen) == len(set(seen))
    assert sorted(seen) == list(range(TOTAL))
    after = loader(data)
    after.load_state_dict(state)  # of a complete epoch: the next one begins
    assert after.epoch == 1 and len(after) == 30 and sorted(flat(after)) == list(range(TOTAL))


def test_a_log_of_decisions_repeats_a_run(data):
    log = []
    chance = random.Random(3)
    first = loader(data, seed=9, decisions=log,
                   cached=lambda numbers: numpy.array([chance.random() < 0.2 for _ in numbers], bool))
    seen = [flat(first), flat(first)]
    assert [epoch for epoch, _ in log] == [0] * 30 + [1] * 30 and seen[0] == sum((n for _, n in log[:30]), [])
    again = loader(data, seed=9, replay=log)
    assert [flat(again), flat(again)] == seen
    for wrong in (log[30:], [(0, [1, 2, 3])], []):
        with pytest.raises(ValueError, match="log"):
            flat(loader(data, seed=9, replay=wrong))


def test_a_selection_in_free_order(data):
    some = data.select(range(3, TOTAL, 7))
    one = loader(some, 20, seed=2, cached=lambda numbers: numbers < 700)
    seen = flat(itertools.islice(one, 4))
    assert all(number < 700 for number in seen)
    rest = loader(some, 33)
    rest.load_state_dict(one.state_dict())
    assert sorted(seen + flat(rest)) == some.samples.tolist()
    rest.set_epoch(5)
    assert rest.epoch == 5 and sorted(flat(rest)) == some.samples.tolist()


def test_states_and_options_that_cannot_be_are_refused(data):
    one = loader(data)
    good = one.state_dict()
    for wrong in ({"used": b""}, {"used": "x"}, {"used": b"\xff" * len(good["used"])}, {"position": 3}, {"order": 2}):
        with pytest.raises(ValueError, match="state"):
            one.load_state_dict({**good, **wrong})
    with pytest.raises(ValueError, match="state"):
        one.load_state_dict({key: value for key, value in good.items() if key != "used"})
    with pytest.raises(ValueError, match="state"):
        terrane.Loader(data, 50).load_state_dict(good)
    for states in ([], [{}], [good, {**good, "epoch": 4}], [good, {**good, "used": b"1"}]):
        with pytest.raises(ValueError, match="states"):
            terrane.merge_states(states)
    for options in ({"bucket": 100}, {"drop_last": True}, {"window": 1024}):
        with pytest.raises(ValueError, match="free"):
            loader(data, **options)
    with pytest.raises(ValueError, match="free"):
        loader(terrane.Mix([data, data]))
    with pytest.raises(ValueError, match="free"):
        terrane.Loader(data, 50, replay=[])
    with pytest.raises(TypeError, match="array of bool"):
        flat(loader(data, cached=lambda numbers: numbers))

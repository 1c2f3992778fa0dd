# SPDX-License-Identifier: Apache-2.0
"""Windows that jobs share: Loader(order="window")."""
import itertools
import os

import numpy
import pytest
import terrane
from terrane import _together

TOTAL = 6500  # seven stripes of 1,024 samples, the last one shorter
SHARE = 0.2   # four windows


@pytest.fixture(scope="module")
def data(cluster):
    path = f"/sets/windows-{os.getpid()}"
    terrane.build(({"__key__": f"{i:05}", "txt": b"x%d" % i} for i in range(TOTAL)), path, cluster=cluster)
    return terrane.Dataset(path, cluster=cluster)


def loader(data, batch=100, **options):
    return terrane.Loader(data, batch, **{"window_share": SHARE, **options})


def flat(batches):
    return list(itertools.chain.from_iterable(numbers.tolist() for numbers in batches))


def windows_of(data, numbers, count):
    """The windows of samples, in the order in which they are read."""
    windows = numpy.array(numbers) // 1024 % count
    return [window for window, _ in itertools.groupby(windows.tolist())]


def test_jobs_read_the_same_windows_in_their_own_order(data):
    one, two = loader(data, seed=1), loader(data, seed=2)
    count = one.window[1]
    assert one.window == (0, count) and count == 4
    first, second = flat(one.samples_of(0)), flat(two.samples_of(0))
    assert sorted(first) == sorted(second) == list(range(TOTAL)) and first != second
    assert windows_of(data, first, count) == windows_of(data, second, count) == list(range(count))
    again = flat(one.samples_of(1))
    assert again != first and windows_of(data, again, count) == list(range(count))
    assert flat(loader(data, seed=1).samples_of(0)) == first


def test_a_job_that_joins_others_goes_round_with_them(data):
    late = loader(data, seed=3, first_window=2)
    numbers = flat(late.samples_of(0))
    assert late.window == (2, 4)
    assert sorted(numbers) == list(range(TOTAL)) and windows_of(data, numbers, 4) == [2, 3, 0, 1]
    batches = iter(late)
    seen = [late.window[0] for _ in batches]
    assert [window for window, _ in itertools.groupby(seen)] == [2, 3, 0, 1, 2]  # the last: the next epoch
    state = loader(data, seed=3, first_window=2).state_dict()
    assert state["first_window"] == 2 and all(isinstance(value, int) for value in state.values())
    other = loader(data, 77, window_share=0.5)  # the state has the windows
    other.load_state_dict(state)
    assert other.window == (2, 4) and sorted(flat(other.samples_of(0))) == list(range(TOTAL))


@pytest.mark.parametrize("worlds", [(1, 4), (3, 2), (5, 1)])
def test_a_job_resumes_within_a_window_with_another_world(data, worlds):
    before, after = worlds
    ranks = [loader(data, 70, seed=9, rank=rank, world=before, first_window=3) for rank in range(before)]
    seen = []
    for rank in ranks:
        for batch in itertools.islice(rank, 9):
            seen += batch.samples.tolist()
    states = [rank.state_dict() for rank in ranks]
    assert all(state == states[0] for state in states) and states[0]["position"] == 9 * 70 * before
    for rank in range(after):
        rest = loader(data, 33, rank=rank, world=after)
        rest.load_state_dict(states[0])
        seen += [number for batch in rest for number in batch.samples.tolist()]
    assert sorted(seen) == list(range(TOTAL))


def test_a_job_that_began_before_there_were_shared_windows_goes_on(data):
    """States of the order that "window" was: they have its number, and no windows."""
    old = terrane.Loader(data, 100, seed=4, order="local")
    state = {key: value for key, value in old.state_dict().items() if key not in ("share", "first_window")}
    assert state["order"] == 1
    state["position"] = 300
    resumed = terrane.Loader(data, 100)
    resumed.load_state_dict(state)
    assert resumed.window is None
    assert flat(resumed.samples_of(0, 300)) == flat(old.samples_of(0, 300))
    assert resumed.state_dict() == {**state, "share": 0, "first_window": 0}
    for other in ("global", "sequential"):
        with pytest.raises(ValueError, match="another order"):
            terrane.Loader(data, 100, order=other).load_state_dict(state)
    with pytest.raises(ValueError, match="another order"):
        old.load_state_dict(terrane.Loader(data, 100).state_dict())


def test_windows_that_do_not_exist_are_refused(data):
    for options in ({"window_share": 0}, {"window_share": 1.5}, {"first_window": 4}, {"first_window": -1}):
        with pytest.raises(ValueError):
            loader(data, **options)
    good = loader(data).state_dict()
    for wrong in ({"first_window": 4}, {"first_window": 1 << 70}, {"share": 0}, {"share": 2_000_000}, {"order": 0}):
        with pytest.raises(ValueError, match="state"):
            loader(data).load_state_dict({**good, **wrong})
    with pytest.raises(ValueError, match="Mix"):
        loader(terrane.Mix([data, data]), first_window=1)


def test_a_selection_and_a_mix_have_windows_too(data):
    some = data.select(range(0, TOTAL, 2))
    assert sorted(flat(loader(some, first_window=1).samples_of(0))) == list(range(0, TOTAL, 2))
    mix = loader(terrane.Mix([data, some]), seed=5)
    assert mix.window is None
    numbers = flat(mix.samples_of(0))
    assert len(set(number for number in numbers if number < TOTAL)) == TOTAL


# --- jobs that stay together: the registry says where epochs begin


@pytest.fixture(autouse=True)
def ask_for_each_window(monkeypatch):
    """Also for windows that are read in no time, as those of these tests are."""
    monkeypatch.setattr(_together, "SHORT_S", 0)


def begun(data, job, steps, **options):
    """A loader that has returned so many batches, and its iterator."""
    one = loader(data, job=job, window_share=0.01, **options)  # seven windows
    batches = iter(one)
    seen = [number for batch in itertools.islice(batches, steps) for number in batch.samples.tolist()]
    return one, batches, seen


def test_a_job_joins_the_current_window_and_its_epoch_is_complete(data):
    first, _, _ = begun(data, 7001, 35, seed=1)  # 3,500 of 6,500 samples: the fourth window
    assert first.window == (3, 7)
    late, batches, seen = begun(data, 7002, 5, seed=2)
    assert late.window == (3, 7) and windows_of(data, seen, 7) == [3]
    state = late.state_dict()
    assert state["first_window"] == 3 and all(isinstance(value, int) for value in state.values())
    rest = [number for batch in batches for number in batch.samples.tolist()]
    assert sorted(seen + rest) == list(range(TOTAL)) and windows_of(data, seen + rest, 7) == [3, 4, 5, 6, 0, 1, 2]
    resumed = loader(data, seed=0, window_share=0.5, first_window=0)  # the order follows from the state alone
    resumed.load_state_dict(state)
    assert [number for batch in resumed for number in batch.samples.tolist()] == rest
    for one in (first, late):
        one.close()
    alone, _, _ = begun(data, 7003, 1, seed=2)
    assert alone.window == (0, 7)  # the others have ended
    alone.close()


def test_all_ranks_of_a_job_join_in_the_same_window(data):
    first, batches, _ = begun(data, 7011, 35, seed=1)
    ranks = [loader(data, batch=50, seed=3, rank=rank, world=3, job=7012, window_share=0.01) for rank in range(3)]
    epochs = [iter(rank) for rank in ranks]
    seen = [next(epochs[0]).samples.tolist()]
    for _ in batches:  # meanwhile the first job goes on to its last window
        pass
    assert first.window == (0, 7)
    seen += [next(epoch).samples.tolist() for epoch in epochs[1:]]
    assert {rank.window for rank in ranks} == {(3, 7)}
    seen += [batch.samples.tolist() for epoch in epochs for batch in epoch]
    assert sorted(number for numbers in seen for number in numbers) == list(range(TOTAL))
    assert len({tuple(rank.state_dict().items()) for rank in ranks}) == 1
    for one in (first, ranks[0]):
        one.close()


def test_a_job_waits_a_little_for_another_and_then_goes_on(data, monkeypatch):
    waits = []
    wait = _together.Together.wait
    monkeypatch.setattr(_together.Together, "wait", lambda self, stopping: (waits.append(self._at), wait(self, stopping)))
    slow, _, _ = begun(data, 7021, 1, seed=1)
    fast, batches, seen = begun(data, 7022, 1, seed=2, prefetch=1)
    assert slow.window == fast.window == (0, 7)
    seen += [number for batch in batches for number in batch.samples.tolist()]
    assert sorted(seen) == list(range(TOTAL))
    assert set(waits) == {(0, 1)}  # in window 1, before it entered the one that is two ahead of the slow job
    for one in (slow, fast):
        one.close()


def test_ranks_that_cannot_agree_say_so_and_what_to_do(data, box):
    box("job", "add", 7031, data.path, "--lease", "1h")  # another job has the number
    ranks = loader(data, world=2, job=7031, patience=0.0)
    with pytest.raises(RuntimeError, match="7031 cannot agree .* first_window"):
        next(iter(ranks))
    box("job", "rm", 7031)

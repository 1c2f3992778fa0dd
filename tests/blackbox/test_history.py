# SPDX-License-Identifier: Apache-2.0
"""The checker of histories finds what it is there to find: each rule of history.py broken once, and kept once."""
import pytest

from history import History, Recorder, content, load, mark

A, B = ("a", 5000), ("b", 70000)


@pytest.fixture
def recorder(tmp_path):
    record = Recorder(tmp_path / "h")
    record.path = tmp_path / "h"
    return record


def did(record, op, ok=True, answer=None, **fields):
    n = record.intent(op, **fields)
    record.outcome(n, **({"error": "ETIME"} if not ok else answer or {}))


def wrote(record, path, what, ok=True):
    did(record, "write", ok, path=path, seed=what[0], size=what[1])


def judged(record, tree):
    return History(record.path).judge({p: content(*v) if isinstance(v, tuple) else v for p, v in tree.items()})


def test_what_was_acknowledged_must_be_there_and_right(recorder):
    wrote(recorder, "/c/f", A)
    assert judged(recorder, {"/c/f": A}) == []
    assert judged(recorder, {}) and judged(recorder, {"/c/f": B})
    assert judged(recorder, {"/c/f": content(*A)[:-1]})
    flipped = bytearray(content(*A))
    flipped[4321] ^= 4
    assert judged(recorder, {"/c/f": bytes(flipped)})


def test_what_was_not_acknowledged_is_whole_or_not_there(recorder):
    wrote(recorder, "/c/f", A, ok=False)
    recorder.intent("write", path="/c/g", seed="b", size=70000)  # killed: no outcome at all
    assert judged(recorder, {}) == [] and judged(recorder, {"/c/f": A, "/c/g": B}) == []
    assert judged(recorder, {"/c/f": content(*A)[:4096]}) and judged(recorder, {"/c/g": b""})


def test_a_replacement_is_the_old_or_the_new(recorder):
    wrote(recorder, "/c/f", A)
    wrote(recorder, "/c/f", B, ok=False)
    assert judged(recorder, {"/c/f": A}) == [] and judged(recorder, {"/c/f": B}) == []
    assert judged(recorder, {}) and judged(recorder, {"/c/f": content(*A) + content(*B)})


def test_what_was_deleted_stays_deleted_and_nothing_comes_from_nowhere(recorder):
    wrote(recorder, "/c/f", A)
    did(recorder, "remove", path="/c/f")
    assert judged(recorder, {}) == []
    assert judged(recorder, {"/c/f": A}) and judged(recorder, {"/c/x": B})


@pytest.mark.parametrize("ok", [True, False])
def test_a_rename_neither_loses_nor_doubles(recorder, ok):
    wrote(recorder, "/c/f", A)
    did(recorder, "rename", ok, path="/c/f", to="/c/g")
    assert judged(recorder, {"/c/g": A}) == []
    assert (judged(recorder, {"/c/f": A}) == []) != ok
    assert judged(recorder, {}) and judged(recorder, {"/c/f": A, "/c/g": A})


def test_a_log_has_its_records_in_order_and_what_a_taker_found_stays(recorder):
    did(recorder, "log", path="/c/l")
    for what, ok in ((A, True), (B, False)):
        did(recorder, "append", ok, path="/c/l", seed=what[0], size=what[1])
    both = content(*A) + content(*B)
    assert judged(recorder, {"/c/l": A}) == [] and judged(recorder, {"/c/l": both}) == []
    assert judged(recorder, {"/c/l": B}) and judged(recorder, {"/c/l": both[:6000]}) and judged(recorder, {})
    did(recorder, "take", path="/c/l", answer={"size": A[1]})
    assert judged(recorder, {"/c/l": A}) == [] and judged(recorder, {"/c/l": both})
    did(recorder, "take", path="/c/l", answer={"size": 17})
    assert judged(recorder, {"/c/l": A})


def test_an_append_without_the_token_is_found(recorder):
    did(recorder, "log", path="/c/l")
    did(recorder, "fenced", False, path="/c/l")
    assert judged(recorder, {"/c/l": b""}) == []
    did(recorder, "fenced", True, path="/c/l")
    assert judged(recorder, {"/c/l": b""})


def test_answers_on_the_way_are_held_against_it(recorder):
    wrote(recorder, "/c/f", A)
    did(recorder, "read", path="/c/f", answer={"mark": mark(content(*A))})
    did(recorder, "read", False, path="/c/f")  # refused: no answer is no wrong answer
    did(recorder, "list", folder="/c", answer={"names": ["f"]})
    assert judged(recorder, {"/c/f": A}) == []
    for answer in ({"mark": [5000, 1]}, {"error": "ENOENT"}):
        did(recorder, "read", path="/c/f", answer=answer)
    did(recorder, "list", folder="/c", answer={"names": []})
    did(recorder, "list", folder="/c", answer={"names": ["f", "ghost"]})
    assert len(judged(recorder, {"/c/f": A})) == 4


def test_files_of_a_pack_are_judged_one_by_one(recorder):
    files = {"f": list(A), "g": list(B)}
    did(recorder, "pack", folder="/c", files=files, answer={"results": {"f": None, "g": "ETIME"}})
    assert judged(recorder, {"/c/f": A}) == [] and judged(recorder, {"/c/f": A, "/c/g": B}) == []
    assert judged(recorder, {"/c/g": B})


def test_a_torn_last_line_is_borne_and_a_damaged_one_is_not(recorder):
    wrote(recorder, "/c/f", A)
    whole = recorder.path.read_bytes()
    recorder.path.write_bytes(whole + b"deadbeef {\"n\": 2, \"op")
    assert len(load(recorder.path)) == 1
    recorder.path.write_bytes(whole.replace(b"5000", b"5001"))
    with pytest.raises(AssertionError):
        load(recorder.path)

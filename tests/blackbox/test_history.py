# SPDX-License-Identifier: Apache-2.0
"""The checker of histories: each rule of history.py is broken once, and kept once."""
import pytest

from history import History, Recorder, content, load, mark
from shared import judge_shared, record

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


def test_an_acknowledged_file_must_exist_with_its_bytes(recorder):
    wrote(recorder, "/c/f", A)
    assert judged(recorder, {"/c/f": A}) == []
    assert judged(recorder, {}) and judged(recorder, {"/c/f": B})
    assert judged(recorder, {"/c/f": content(*A)[:-1]})
    flipped = bytearray(content(*A))
    flipped[4321] ^= 4
    assert judged(recorder, {"/c/f": bytes(flipped)})


def test_a_file_that_was_not_acknowledged_is_complete_or_absent(recorder):
    wrote(recorder, "/c/f", A, ok=False)
    recorder.intent("write", path="/c/g", seed="b", size=70000)  # killed: there is no outcome
    assert judged(recorder, {}) == [] and judged(recorder, {"/c/f": A, "/c/g": B}) == []
    assert judged(recorder, {"/c/f": content(*A)[:4096]}) and judged(recorder, {"/c/g": b""})


def test_a_replaced_file_has_the_old_or_the_new_content(recorder):
    wrote(recorder, "/c/f", A)
    wrote(recorder, "/c/f", B, ok=False)
    assert judged(recorder, {"/c/f": A}) == [] and judged(recorder, {"/c/f": B}) == []
    assert judged(recorder, {}) and judged(recorder, {"/c/f": content(*A) + content(*B)})


def test_deleted_files_stay_deleted_and_only_created_names_exist(recorder):
    wrote(recorder, "/c/f", A)
    did(recorder, "remove", path="/c/f")
    assert judged(recorder, {}) == []
    assert judged(recorder, {"/c/f": A}) and judged(recorder, {"/c/x": B})


@pytest.mark.parametrize("ok", [True, False])
def test_a_rename_neither_loses_nor_duplicates(recorder, ok):
    wrote(recorder, "/c/f", A)
    did(recorder, "rename", ok, path="/c/f", to="/c/g")
    assert judged(recorder, {"/c/g": A}) == []
    assert (judged(recorder, {"/c/f": A}) == []) != ok
    assert judged(recorder, {}) and judged(recorder, {"/c/f": A, "/c/g": A})


def test_a_log_keeps_its_records_in_order_and_what_a_new_writer_found(recorder):
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


def test_answers_of_reads_and_lists_are_checked(recorder):
    wrote(recorder, "/c/f", A)
    did(recorder, "read", path="/c/f", answer={"mark": mark(content(*A))})
    did(recorder, "read", False, path="/c/f")  # a refused read is no wrong answer
    did(recorder, "list", folder="/c", answer={"names": ["f"]})
    assert judged(recorder, {"/c/f": A}) == []
    for answer in ({"mark": [5000, 1]}, {"error": "ENOENT"}):
        did(recorder, "read", path="/c/f", answer=answer)
    did(recorder, "list", folder="/c", answer={"names": []})
    did(recorder, "list", folder="/c", answer={"names": ["f", "ghost"]})
    assert len(judged(recorder, {"/c/f": A})) == 4


def test_each_file_of_a_pack_is_checked_alone(recorder):
    files = {"f": list(A), "g": list(B)}
    did(recorder, "pack", folder="/c", files=files, answer={"results": {"f": None, "g": "ETIME"}})
    assert judged(recorder, {"/c/f": A}) == [] and judged(recorder, {"/c/f": A, "/c/g": B}) == []
    assert judged(recorder, {"/c/g": B})


class Sharers:
    """Two histories with one clock, of writers a and b that take one log from each other."""

    def __init__(self, folder):
        self.records = {}
        for name in "ab":
            self.records[name] = Recorder(folder / name)
            self.records[name].path = folder / name
        self.now = 0

    def time(self):
        self.now += 1
        return self.now

    def steal(self, name, size):
        did(self.records[name], "steal", path="/s", at=self.time(), answer={"size": size, "at": self.time()})

    def share(self, name, number, ok=True):
        did(self.records[name], "share", ok, path="/s", number=number, size=100, answer={"at": self.time()})

    def judged(self, *there):
        """Violations of a log with these contents: records as (writer, number), or bytes."""
        data = b"".join(r if isinstance(r, bytes) else record(*r, 100) for r in there)
        return judge_shared("/s", {n: History(r.path) for n, r in self.records.items()}, data)


A1, A2, B1, ONE = ("a", 1), ("a", 2), ("b", 1), 132


@pytest.fixture
def sharers(tmp_path):
    return Sharers(tmp_path)


def test_a_shared_log_has_acknowledged_records_once_and_in_order(sharers):
    sharers.steal("a", 0)
    sharers.share("a", 1)
    sharers.share("a", 2)
    sharers.share("a", 3, ok=False)
    assert sharers.judged(A1, A2) == [] and sharers.judged(A1, A2, ("a", 3)) == []
    assert "lost" in sharers.judged(A1)[0]
    assert "twice" in sharers.judged(A1, A2, A2)[0] and "comes after" in sharers.judged(A2, A1)[0]
    assert "no client appended" in sharers.judged(A1, A2, B1)[0]
    assert "not whole" in sharers.judged(A1, A2, record("a", 3, 100)[:-1])[0]
    assert "no record begins" in sharers.judged(A1, A2, b"?" * 40)[0]
    assert judge_shared("/s", {"a": History(sharers.records["a"].path)}, None) == ["/s is lost"]


def test_a_client_that_takes_a_shared_log_finds_all_acknowledged_records(sharers):
    sharers.steal("a", 0)
    sharers.share("a", 1)
    sharers.steal("b", 0)
    sharers.share("b", 1)
    assert any("did not find" in w for w in sharers.judged(A1, B1))
    assert sharers.judged(B1, A1)  # a later place of the record is a violation too


def test_a_writer_without_the_token_adds_nothing_to_a_shared_log(sharers):
    sharers.steal("a", 0)
    sharers.share("a", 1)
    sharers.steal("b", ONE)
    sharers.share("a", 2, ok=False)
    sharers.share("b", 1)
    assert sharers.judged(A1, B1) == []
    for there in ((A1, B1, A2), (A1, A2, B1)):
        assert any("added after b had taken" in w for w in sharers.judged(*there)), there


def test_a_new_writer_finds_whole_records_and_appends_behind_them(sharers):
    sharers.steal("a", 0)
    sharers.share("a", 1)
    sharers.steal("b", ONE + 7)
    assert any("no record begins there" in w for w in sharers.judged(A1))
    sharers.steal("b", 2 * ONE)
    sharers.share("b", 1)
    assert any("before the" in w for w in sharers.judged(A1, B1))


def test_two_clients_that_take_a_shared_log_at_once_hold_it_in_turn(sharers):
    for name, size in (("a", 0), ("b", 0)):
        sharers.records[name].line(n=1, op="steal", path="/s", at=1)
        sharers.records[name].line(n=1, size=size, at=9)
        sharers.records[name].serial = 1
    sharers.now = 9
    sharers.share("a", 1, ok=False)
    sharers.share("b", 1)
    assert sharers.judged(B1) == []
    assert any("both had the token" in w for w in sharers.judged(A1, B1))


def test_an_incomplete_last_line_is_accepted_and_a_damaged_one_is_not(recorder):
    wrote(recorder, "/c/f", A)
    whole = recorder.path.read_bytes()
    recorder.path.write_bytes(whole + b"deadbeef {\"n\": 2, \"op")
    assert len(load(recorder.path)) == 1
    recorder.path.write_bytes(whole.replace(b"5000", b"5001"))
    with pytest.raises(AssertionError):
        load(recorder.path)

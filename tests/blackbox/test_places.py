# SPDX-License-Identifier: Apache-2.0
"""Racks, nodes and disks are named or numbered, in every command."""
import pytest

from box import Box


@pytest.fixture(scope="module", name="box")
def a_box(tmp_path_factory):
    with Box(tmp_path_factory.mktemp("places") / "box", "--racks", 4, "--disks", 2, "--encoding", "r2") as box:
        yield box


def test_racks_nodes_and_disks_by_name_or_number(box):
    nodes = box.json("node", "list")
    for place in (nodes[0]["name"], nodes[0]["node"] if "node" in nodes[0] else nodes[0]["id"]):
        assert box.json("node", "drain", place)["state"] == "draining"
        assert box.json("node", "online", place)["state"] == "online"
    racks = box.json("rack", "list")
    for place in (racks[1]["name"], racks[1]["id"]):
        assert box.json("rack", "drain", place)["nodes"] == 1
        assert box.json("rack", "online", place)["nodes"] == 1
    disks = box.json("disk", "list")
    second = next(d for d in disks if d["name"] == f"{nodes[2]['name']}/2")
    for place in (second["name"], second["id"]):
        assert box.json("disk", "drain", place)["state"] == "draining"
        state = {d["name"]: d["state"] for d in box.json("disk", "list")}
        assert state[second["name"]] == "draining" and list(state.values()).count("draining") == 1
        box("disk", "online", place)
    for words in (["node", "drain", "none"], ["rack", "drain", "none"], ["disk", "drain", "none/1"], ["disk", "drain", f"{nodes[0]['name']}/3"],
                  ["disk", "drain", "0"]):
        done = box(*words, ok=False)
        assert done.returncode == 1 and "lists them" in done.stderr, words

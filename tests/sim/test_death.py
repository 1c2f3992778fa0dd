# SPDX-License-Identifier: Apache-2.0
"""The runner of seeds: seeds whose process dies, and hunts that find nothing or cannot start."""
import os
import re
import subprocess

import pytest

SIM = os.environ["SIM"]


@pytest.mark.parametrize("how", ["abort", "address", "hang"])
@pytest.mark.parametrize("seeds", ["3", "3..4"])
def test_a_seed_whose_process_dies_prints_its_last_events(how, seeds):
    done = subprocess.run([SIM, "--scenario", "meta", "--seeds", seeds, "--jobs", "1", "--die", how],
                          capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 1
    assert f"replay: ./dev sim --seeds 3 --scenario meta --die {how}" in done.stdout
    died = {"abort": "the process died: Aborted", "hang": "hangs"}
    assert re.search(died.get(how, "the process (died: Segmentation fault|exited with)"), done.stdout)
    events = re.findall(r"(?m)^ *\d+\.\d+ .*$", done.stderr)
    assert len(events) >= 20, done.stderr
    assert done.stderr.count("the end of seed") == (0 if seeds == "3" else 2)


def test_a_seed_that_dies_without_the_bug_too_is_no_find():
    done = subprocess.run([SIM, "--scenario", "meta", "--seeds", "3..4", "--jobs", "1", "--die", "abort",
                           "--hunt", "reply-mismatch"], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 1
    assert "bug reply-mismatch NOT found in 2 seeds" in done.stdout


def test_a_hunt_in_a_scenario_without_planted_bugs_is_refused():
    done = subprocess.run([SIM, "--scenario", "over", "--plants"], capture_output=True, text=True, timeout=200,
                          check=False)
    assert done.returncode != 0
    assert "no planted bugs" in done.stderr

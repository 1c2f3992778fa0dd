# SPDX-License-Identifier: Apache-2.0
"""A seed whose process dies in the middle of it shows its last events, as any other that fails."""
import os
import re
import subprocess

import pytest

SIM = os.environ["SIM"]


@pytest.mark.parametrize("how", ["abort", "address", "hang"])
@pytest.mark.parametrize("seeds", ["3", "3..4"])
def test_a_seed_that_dies_shows_its_end(how, seeds):
    done = subprocess.run([SIM, "--scenario", "tally", "--seeds", seeds, "--jobs", "1", "--die", how],
                          capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 1
    assert f"replay: ./dev sim --seeds 3 --scenario tally --die {how}" in done.stdout
    died = {"abort": "the process died: Aborted", "hang": "hangs"}
    assert re.search(died.get(how, "the process (died: Segmentation fault|exited with)"), done.stdout)
    events = re.findall(r"(?m)^ *\d+\.\d+ .*$", done.stderr)
    assert len(events) >= 20, done.stderr
    assert done.stderr.count("the end of seed") == (0 if seeds == "3" else 2)

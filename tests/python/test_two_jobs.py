# SPDX-License-Identifier: Apache-2.0
"""The example that trains two jobs at once on one data set, on a cluster with a cache node."""
import re
import subprocess
import sys

from box import TERRANE, Box
from conftest import PACKAGE, ROOT

import child


def test_two_jobs_at_once_read_each_byte_from_disk_about_once(tmp_path):
    with Box(tmp_path / "b", "--cache-nodes", 1, "--cache-flash", "64MiB") as box:
        path = box.folder / "cluster.ini"
        path.write_text(path.read_text() + "[cache]\ntimeout = 20s\npause = 1s\n")  # whatever else the machine does
        env = {**child.environment(), "TERRANE_CLUSTER": str(path), "PYTHONPATH": str(PACKAGE)}
        done = subprocess.run([sys.executable, "-B", ROOT / "examples" / "train_two.py", "--terrane", TERRANE, "--epochs", "2"],
                              env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False)
    assert done.returncode == 0, done.stdout
    times, = re.findall(r"read from disk ([0-9.]+) times; 2 jobs with 2 epochs each used it 4 times", done.stdout)
    # Once, but for a read that found the cache node busy.
    assert 0.99 <= float(times) < 1.5, done.stdout

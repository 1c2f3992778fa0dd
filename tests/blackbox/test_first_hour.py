# SPDX-License-Identifier: Apache-2.0
"""The first hour of a new user, as a script that knows only the program and an empty folder."""
import os
import subprocess
from pathlib import Path

from box import TERRANE, run


def test_the_first_hour_of_a_new_user(tmp_path):
    env = {k: v for k, v in os.environ.items() if not k.startswith("TERRANE")}
    env["PATH"] = f"{TERRANE.parent}:{env['PATH']}"
    try:
        done = subprocess.run([Path(__file__).with_name("first_hour.sh")], cwd=tmp_path, env=env, capture_output=True, text=True,
                              errors="replace", timeout=300, check=False)
        assert done.returncode == 0 and done.stdout.endswith("== done\n"), done.stdout + done.stderr
    finally:
        if (tmp_path / "box" / "cluster.ini").exists():
            run("down", "--dir", tmp_path / "box")

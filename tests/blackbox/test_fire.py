# SPDX-License-Identifier: Apache-2.0
"""Real processes under fire: nothing acknowledged is lost, nothing else is half there, and all becomes whole again."""
import time

from fire import SECONDS, Fire


def test_kill_9_of_any_process_in_a_loop(tmp_path):
    with Fire(tmp_path) as fire:
        fire.clients(3)
        kills, end = 0, time.monotonic() + SECONDS
        while time.monotonic() < end or kills < 8:
            name = fire.chance.choice(["meta", "janitor", "client"] + [f"node-{n}" for n in range(1, 7)])
            if name == "client":
                fire.kill_client()
            else:
                fire.box.kill(name)
                fire.box.up("--procs")
            fire.progress(5)
            kills += 1
        print(kills, "killed:", fire.judge())

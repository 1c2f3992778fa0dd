# SPDX-License-Identifier: Apache-2.0
"""Python programs that the tests start beside themselves."""
import os
import signal
import subprocess
import sys

from conftest import PACKAGE


def environment(**more):
    return {**os.environ, "PYTHONPATH": str(PACKAGE), "PYTHONDONTWRITEBYTECODE": "1", **more}


def start(code, **more):
    """Starts a program and does not wait for it. It obeys SIGINT also when the tests run in the background of a shell,
    which makes its background jobs ignore it."""
    return subprocess.Popen([sys.executable, "-c", code], env=environment(**more), text=True,
                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def run(code, **more):
    """Runs a program to its end; fails with its output unless it ends with 0. Returns what it printed."""
    process = start(code, **more)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, f"{out}\n{err}"
    return out

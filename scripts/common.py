# SPDX-License-Identifier: Apache-2.0
"""Shared by the scripts behind ./dev: paths, builds, and the environment of sanitized programs."""
import functools
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
CORES = len(os.sched_getaffinity(0))


def call(command, **options):
    """Runs a command in the root of the tree, without stdin; returns its output as text."""
    return subprocess.run([str(c) for c in command], cwd=ROOT, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False, **options)


@functools.lru_cache(maxsize=None)
def build(config):
    """Builds a configuration, once per run. Returns the output if it fails, else None."""
    done = call(["./dev", "build", config])
    return None if done.returncode == 0 else done.stdout


def sanitizer_env():
    env = dict(os.environ)
    # The quarantine keeps 16 MiB of freed memory poisoned. With the default of 256 MiB all allocations are new to the
    # caches and the kernel, and tests of crashes take a fifth longer.
    env["ASAN_OPTIONS"] = "abort_on_error=0:detect_leaks=1:strict_string_checks=1:quarantine_size_mb=16"
    env["UBSAN_OPTIONS"] = "print_stacktrace=1:halt_on_error=1"
    env["TSAN_OPTIONS"] = "halt_on_error=0:second_deadlock_stack=1"
    env["CMOCKA_MESSAGE_OUTPUT"] = "TAP"
    return env


@functools.lru_cache(maxsize=None)
def fixed_addresses():
    """Command prefix: these sanitizers' shadow maps can clash with a wide address randomisation."""
    probe = ["setarch", "-R"]
    try:
        return probe if call(probe + ["true"]).returncode == 0 else []
    except OSError:
        return []

# SPDX-License-Identifier: Apache-2.0
"""Behaviour that all commands of `terrane` share: exit status, help, settings."""
import os
import subprocess
from pathlib import Path

import pytest

TERRANE = Path(__file__).resolve().parents[2] / "build" / "terrane"


def terrane(*args, **kwargs):
    return subprocess.run([TERRANE, *args], stderr=subprocess.PIPE, timeout=120, check=False,
                          **{"stdout": subprocess.PIPE, **kwargs})


@pytest.mark.parametrize("args", [
    [], ["nonsense"], ["help", "nonsense"], ["config"], ["config", "show"], ["config", "show", "nonsense"],
    ["node"], ["node", "nonsense"], ["meta", "nonsense", "--config", "x"], ["janitor", "nonsense", "--config", "x"],
    ["chunk"], ["chunk", "nonsense"], ["chunk", "get", "1:1", "--nonsense"], ["chunk", "get", "x", "--disk", "1"],
])
def test_wrong_usage_exits_with_2_and_says_why(args):
    done = terrane(*args)
    assert done.returncode == 2
    assert done.stderr and not done.stdout


@pytest.mark.parametrize("args", [["help"], ["--help"], ["help", "node"], ["node", "--help"], ["node", "-h"],
                                  ["config", "--help"], ["code", "--help"], ["version"]])
def test_help_goes_to_standard_output(args):
    done = terrane(*args)
    assert done.returncode == 0
    assert done.stdout and not done.stderr


def test_output_that_cannot_be_written_is_a_failure():
    with open("/dev/full", "wb") as full:
        assert terrane("help", stdout=full).returncode == 1


@pytest.mark.parametrize("role, text, complaint", [
    ("node", "[node]\nlisten = 127.0.0.1:1\nlistne = x\n", b":3: "),
    ("node", "[node]\nconnections = many\n", b":2: "),
    ("meta", "[meta]\nconnections = 0\n", b":2: "),
    ("janitor", "[nonsense]\nx = 1\n", b"nonsense"),
])
def test_bad_settings_are_refused_with_file_and_line(tmp_path, role, text, complaint):
    conf = tmp_path / "conf.ini"
    conf.write_text(text)
    for args in ([role, "--config", conf], ["config", "show", role, "--config", conf]):
        done = terrane(*args)
        assert done.returncode == 1
        assert os.fsencode(conf) in done.stderr and complaint in done.stderr, done.stderr


@pytest.mark.parametrize("role", ["meta", "janitor"])  # a node has settings without a default: test_node.py
def test_config_show_prints_a_file_that_it_accepts(tmp_path, role):
    shown = terrane("config", "show", role)
    assert shown.returncode == 0 and shown.stdout
    conf = tmp_path / "conf.ini"
    conf.write_bytes(shown.stdout)
    again = terrane("config", "show", role, "--config", conf)
    assert again.returncode == 0 and again.stdout == shown.stdout

# SPDX-License-Identifier: Apache-2.0
"""Completion in bash, zsh and fish: commands, options, and paths of the cluster."""
import os
import shutil
import subprocess
import tempfile

import pytest

from box import TERRANE, Box, run, write_tree


@pytest.fixture(scope="module", name="box")
def a_box(tmp_path_factory):
    folder = tmp_path_factory.mktemp("completion")
    write_tree(folder / "in", {"one.jpg": 1, "one two.jpg": 1, "other/deep/f": 1, "three": 1})
    with Box(folder / "box", "--racks", 3, "--disks", 1, "--encoding", "r2") as box:
        box("put", "-q", folder / "in", "/d")
        yield box


def offered(shell, box, *words):
    """What the shell offers for the last word, which begins with it."""
    env = {**(box.env if box else os.environ), "PATH": f"{TERRANE.parent}:{os.environ['PATH']}"}
    script = run("completion", shell).stdout
    if shell == "fish":
        line = " ".join(["terrane", *words])
        probe = f"complete -C '{line}'"
        command = ["fish", "--no-config", "-c", script + "\n" + probe]
    else:
        typed = " ".join(f"'{word}'" for word in ("terrane", *words))
        probe = f"COMP_WORDS=({typed}); COMP_CWORD={len(words)}; "
        if shell == "bash":
            command = ["bash", "-c", script + "\n" + probe + "_terrane; printf '%s\\n' \"${COMPREPLY[@]}\""]
        else:  # compgen of bashcompinit runs the function as zsh does for a key
            command = ["zsh", "-f", "-c", script + "\n" + probe + f"compgen -F _terrane -- '{words[-1]}'"]
    with tempfile.TemporaryDirectory() as home:  # where shells write their caches
        done = subprocess.run(command, env={**env, "HOME": home}, capture_output=True, text=True, timeout=300,
                              check=False)
    lines = [line.split("\t")[0] for line in done.stdout.splitlines() if line]
    # zsh itself leaves out what does not begin with the word.
    return sorted(line for line in lines if shell != "zsh" or line.startswith(words[-1]))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands_options_and_paths_of_the_cluster(box, shell):
    if not shutil.which(shell):
        pytest.skip(f"no {shell} here")
    assert offered(shell, None, "pu") == ["put"]
    assert offered(shell, None, "put", "--enc") == ["--encoding"]
    assert offered(shell, None, "disk", "repl") == ["replace"]
    assert offered(shell, box, "ls", "/d/o") == ["/d/one two.jpg", "/d/one.jpg", "/d/other/"]
    assert offered(shell, box, "ls", "/d/other/") == ["/d/other/deep/"]
    assert offered(shell, box, "cat", "/d/t") == ["/d/three"]
    assert "/d/" in offered(shell, box, "get", "/")
    assert "/d/three" in offered(shell, box, "attr", "list", "/d/th")


def test_an_unreachable_cluster_offers_nothing_and_prints_nothing(tmp_path):
    (tmp_path / "cluster.ini").write_text("[cluster]\nid = " + "1" * 32 + "\nmetadata = 127.0.0.1:1\n")
    done = run("completion", "paths", "--cluster", tmp_path / "cluster.ini", "--", "/x")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert run("completion", "tcsh").returncode == 2 and "fish" in run("completion", "--help").stdout

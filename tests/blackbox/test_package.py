# SPDX-License-Identifier: Apache-2.0
"""Debian packages of the release build: installed, run, removed and purged on a copy of this machine's files (an overlay,
so that the machine stays as it is); and the archive for other machines. `./dev package --check` does the same in a bare
Debian 12."""
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from box import BUILD, await_true

ROOT = BUILD.parent
NEEDED = ("dpkg-deb", "dpkg-shlibdeps", "strip")


def call(*words, check=True, **options):
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0 or not check, f"{words}\n{done.stdout}{done.stderr}"
    return done


@pytest.fixture(scope="module", name="made")
def packages(tmp_path_factory):
    missing = [tool for tool in NEEDED if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}: ./dev deps package")
    out = tmp_path_factory.mktemp("packages")
    call(sys.executable, "-B", ROOT / "scripts/package.py", "--out", out, timeout=600)
    return out


def test_each_package_has_its_part_and_names_what_it_needs(made):
    names = {p.name.split("_")[0]: p for p in made.glob("*.deb")}
    assert set(names) == {"terrane", "libterrane0", "libterrane-dev", "python3-terrane", "terrane-doc"}
    fields = {name: call("dpkg-deb", "-f", path).stdout for name, path in names.items()}
    for library in ("librocksdb", "liburing2", "libisal2", "libssl3", "adduser"):
        assert library in fields["terrane"], fields["terrane"]
    assert "libterrane0 (=" in fields["libterrane-dev"] and "librocksdb" not in fields["libterrane0"]
    assert "python3" in fields["python3-terrane"]
    files = {name: call("dpkg-deb", "-c", path).stdout for name, path in names.items()}
    for unit in ("meta", "node@", "janitor", "cache", "backup"):
        assert f"systemd/system/terrane-{unit}.service" in files["terrane"]
    assert "terrane-put.1.gz" in files["terrane"] and "terrane.rules.yml" in files["terrane"]
    assert "terrane.h" in files["libterrane-dev"] and "operations.md" in files["terrane-doc"]
    every = "".join(files.values())
    assert "bench_" not in every and "test_" not in every and "/usr/local" not in every


def overlay(folder):
    """Mounts a copy of / that keeps its changes in the folder; None if this machine cannot."""
    root = folder / "root"
    for name in ("root", "upper", "work", "scratch"):
        (folder / name).mkdir()
    if os.geteuid() != 0:
        return None
    # An overlay cannot keep its changes on another overlay, so these are in memory.
    if call("mount", "-t", "tmpfs", "tmpfs", folder / "scratch", check=False).returncode != 0:
        return None
    for name in ("upper", "work"):
        (folder / "scratch" / name).mkdir()
    options = f"lowerdir=/,upperdir={folder}/scratch/upper,workdir={folder}/scratch/work"
    if call("mount", "-t", "overlay", "overlay", "-o", options, root, check=False).returncode != 0:
        call("umount", folder / "scratch")
        return None
    return root


@pytest.fixture(name="machine")
def a_machine(tmp_path):
    root = overlay(tmp_path)
    if root is None:
        pytest.skip("this process may not mount an overlay over /")
    mounted = call("mount", "-t", "proc", "proc", root / "proc", check=False).returncode == 0
    try:
        yield root
    finally:
        if mounted:
            call("umount", root / "proc")
        call("umount", root)
        call("umount", tmp_path / "scratch")


def test_packages_install_run_and_are_purged_without_a_trace(made, machine):
    def inside(*words, check=True):
        return call("chroot", machine, *words, check=check, env={**os.environ, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})

    def traces():
        found = inside("find", "/etc", "/usr", "/var", "-xdev", "-name", "*terrane*", "-not", "-path",
                       "/var/log/apt/*").stdout.split()
        return set(found)

    before = traces()
    (machine / "packages").mkdir()
    for path in made.glob("*.deb"):
        shutil.copy(path, machine / "packages")
    # Dependencies are those of a build machine; --check tries a bare one.
    inside("sh", "-c", "dpkg -i /packages/*.deb")
    assert inside("/usr/bin/terrane", "version").stdout.startswith("terrane ")
    assert "--config" in inside("/usr/bin/terrane", "meta", "--help").stdout  # finds terraned beside itself
    assert inside("getent", "passwd", "terrane").stdout.split(":")[5] == "/var/lib/terrane"
    assert inside("stat", "-c", "%U %G %a", "/etc/terrane", "/var/lib/terrane", "/var/backups/terrane").stdout == \
        "root terrane 750\nterrane terrane 750\nterrane terrane 700\n"
    code = "import sys; sys.path.insert(0, '/usr/lib/python3/dist-packages'); import terrane; print(terrane.__file__)"
    assert "/usr/lib/python3/dist-packages/terrane/" in inside("python3", "-c", code).stdout
    (machine / "x.c").write_text('#include <terrane/terrane.h>\nint main(void) { return terrane_version()[0] == 0; }\n')
    inside("sh", "-c", "cd / && gcc x.c $(pkg-config --cflags --libs libterrane) -o x && ./x")
    if shutil.which("systemd-analyze"):
        done = inside("systemd-analyze", "verify", "/usr/lib/systemd/system/terrane-meta.service",
                      "/usr/lib/systemd/system/terrane-node@.service", check=False)
        assert not re.search(r"terrane-\S+:\d+:", done.stderr), done.stderr
    inside("dpkg", "-i", "/packages/" + next(made.glob("terrane_*.deb")).name)  # an upgrade to itself
    (machine / "etc/terrane/meta.ini").write_text("[meta]\n")
    (machine / "var/lib/terrane/meta").mkdir()
    inside("dpkg", "-r", "terrane")
    assert (machine / "etc/terrane/meta.ini").exists()
    done = inside("dpkg", "-P", "terrane", "libterrane-dev", "libterrane0", "python3-terrane", "terrane-doc")
    assert "/var/lib/terrane has data, and stays" in done.stdout + done.stderr
    assert not (machine / "etc/terrane").exists()
    (machine / "var/lib/terrane/meta").rmdir()
    (machine / "var/lib/terrane").rmdir()
    assert traces() - before == set()


def test_the_archive_runs_a_cluster_from_any_folder(made, tmp_path):
    file = next(made.glob("*.tar.gz"))
    with tarfile.open(file) as tar:
        tar.extractall(tmp_path)
    top = tmp_path / file.name.removesuffix(".tar.gz")
    moved = tmp_path / "some where"
    top.rename(moved)
    terrane = moved / "bin/terrane"
    libraries = {p.name.split(".so")[0] for p in (moved / "lib").iterdir()}
    assert {"librocksdb", "liburing", "libisal", "libssl", "libterrane"} <= libraries
    assert not {"libc", "libm", "ld-linux-x86-64"} & libraries
    box = tmp_path / "box"
    call(terrane, "up", "--dir", box, "--racks", 3, "--disks", 1, timeout=120)
    try:
        env = {**os.environ, "TERRANE_CLUSTER": str(box / "cluster.ini")}
        call(terrane, "put", "-q", file, "/archive", env=env)
        pid = int(next((box / "run").glob("*.pid")).read_text())
        used = Path(f"/proc/{pid}/maps").read_text()
        assert f"{moved}/lib/librocksdb".replace(" ", "\\040") in used or f"{moved}/lib/librocksdb" in used
        call(terrane, "get", "-q", "/archive", tmp_path / "back", env=env)
        assert (tmp_path / "back").read_bytes() == file.read_bytes()
    finally:
        call(terrane, "down", "--dir", box)
    await_true("no pid", lambda: not list((box / "run").glob("*.pid")))

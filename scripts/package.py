# SPDX-License-Identifier: Apache-2.0
"""./dev package [--out FOLDER] [--check]: Debian packages, and an archive for other machines, from the release build.

    terrane            programs, units, manual pages, completion, alert rules
    libterrane0        the client library            libterrane-dev   its header
    python3-terrane    the Python package            terrane-doc      documents
    terrane-VERSION-linux-MACHINE.tar.gz             programs with their libraries, for any folder

`meson install` puts everything into a tree; each package gets its part of it. Dependencies are those that dpkg-shlibdeps
finds. --check installs the packages in a bare Debian 12, which debootstrap makes, runs them, and removes them."""
import argparse
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from common import BUILD, ROOT

RELEASE = BUILD / "release"
MAINTAINER = "Terrane maintainers <maintainers@terrane.invalid>"
# Libraries that every Linux has, or that belong to the loader: an archive must use those of its machine.
OF_THE_MACHINE = re.compile(r"^(ld-linux|linux-vdso|libc|libm|libdl|librt|libpthread|libresolv|libnss_)[-.\w]*\.so")
DESCRIPTIONS = {
    "terrane": ("storage fabric for machine-learning training", """
 Programs of Terrane: storage nodes, metadata servers, janitors and cache nodes,
 and the commands of users and operators."""),
    "libterrane0": ("client library of Terrane", """
 Reads and writes files and data sets of a Terrane cluster."""),
    "libterrane-dev": ("client library of Terrane, header", """
 The header of libterrane, and its file for pkg-config."""),
    "python3-terrane": ("Terrane for Python", """
 Files, data sets, loaders and checkpoints on a Terrane cluster."""),
    "terrane-doc": ("documents of Terrane", """
 How to deploy and operate a cluster, and what is promised."""),
}


def say(text):
    print(f"package: {text}", flush=True)


def call(*words, **options):
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"package: {' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
    return done.stdout


def version():
    return call(RELEASE / "src/cli/terrane", "version").split()[1]


# --- the tree -------------------------------------------------------------------------------------

def install_tree(tree):
    """Installs the release build below the folder as if / were there, with the paths of Debian."""
    raw = tree.parent / "raw"
    call("meson", "install", "-C", RELEASE, "--no-rebuild", "--destdir", raw)
    modules = tree / "usr/lib/python3/dist-packages"
    for name in ("dist-packages", "site-packages"):  # which of them depends on how Python was built
        for path in raw.rglob(name):
            shutil.copytree(path, modules, dirs_exist_ok=True)
            shutil.rmtree(path)
    shutil.copytree(raw / "usr/local", tree / "usr", symlinks=True, dirs_exist_ok=True)
    if not (modules / "terrane/__init__.py").is_file():
        sys.exit("package: the release build has no Python package")
    for pc in (tree / "usr").rglob("*.pc"):
        pc.write_text(re.sub(r"(?m)^prefix=.*$", "prefix=/usr", pc.read_text()))
    for path in tree.rglob("__pycache__"):
        shutil.rmtree(path)
    for path in [*(tree / "usr/bin").iterdir(), *tree.rglob("*.so*")]:
        if path.is_file() and not path.is_symlink():
            call("strip", "--strip-unneeded", path)


def extras(tree):
    """What meson does not install: units, manual pages, completion, rules, documents."""
    lib = tree / "usr/lib/systemd/system"
    shutil.copytree(ROOT / "deploy/systemd", lib)
    shutil.copytree(ROOT / "deploy/prometheus", tree / "usr/share/terrane/prometheus")
    shutil.copytree(ROOT / "deploy/grafana", tree / "usr/share/terrane/grafana")
    pages = tree / "usr/share/man/man1"
    pages.mkdir(parents=True)
    call(sys.executable, "-B", ROOT / "scripts/man.py", pages)
    for page in pages.glob("*.1"):
        page.with_suffix(".1.gz").write_bytes(gzip.compress(page.read_bytes(), mtime=0))
        page.unlink()
    completion = tree / "usr/share/bash-completion/completions"
    completion.mkdir(parents=True)
    (completion / "terrane").write_text(call(tree / "usr/bin/terrane", "completion", "bash"))
    shutil.copytree(ROOT / "docs", tree / "usr/share/doc/terrane-doc",
                    ignore=shutil.ignore_patterns("*.svg", "*.png"))
    shutil.copytree(ROOT / "examples", tree / "usr/share/doc/terrane-doc/examples",
                    ignore=shutil.ignore_patterns("meson.build"))


def package_of(path):
    """The package of a file of the tree."""
    text = str(path)
    if "dist-packages" in text:
        return "python3-terrane"
    if "/doc/terrane-doc/" in "/" + text:
        return "terrane-doc"
    if re.search(r"libterrane\.so\.", text):
        return "libterrane0"
    if re.search(r"libterrane\.so$|\.h$|\.pc$", text):
        return "libterrane-dev"
    return "terrane"


# --- packages -------------------------------------------------------------------------------------

def depends(folder):
    """What the programs and libraries of a package need, by dpkg-shlibdeps."""
    elf = [p for p in folder.rglob("*") if p.is_file() and not p.is_symlink() and p.read_bytes()[:4] == b"\x7fELF"]
    if not elf:
        return ""
    with tempfile.TemporaryDirectory() as work:
        (Path(work) / "debian").mkdir()
        (Path(work) / "debian/control").write_text("Source: terrane\n\nPackage: terrane\nArchitecture: any\n")
        # A program of the packages themselves is not looked for: nothing but programs outside links libterrane.
        out = call("dpkg-shlibdeps", "-O", "--ignore-missing-info", f"-l{RELEASE}/src/client",
                   *(f"-e{p}" for p in elf), cwd=work)
    return out.strip().partition("shlibs:Depends=")[2]


def relations(name, found, version_):
    exact = f"(= {version_})"
    needs = {"terrane": [found, "adduser"], "libterrane0": [found], "libterrane-dev": [f"libterrane0 {exact}"],
             "python3-terrane": [found, "python3 (>= 3.11)"], "terrane-doc": []}[name]
    lines = [f"Depends: {', '.join(n for n in needs if n)}"] if any(needs) else []
    if name == "terrane":
        lines += ["Recommends: chrony | systemd-timesyncd | time-daemon", "Suggests: terrane-doc, prometheus"]
    if name == "python3-terrane":
        lines += ["Recommends: python3-numpy", "Suggests: python3-torch, python3-fsspec"]
    return "\n".join(lines)


def control(name, folder, version_, arch, found):
    size = sum(p.lstat().st_size for p in folder.rglob("*") if p.is_file()) // 1024 + 1
    summary, text = DESCRIPTIONS[name]
    section = {"libterrane-dev": "libdevel", "libterrane0": "libs", "python3-terrane": "python",
               "terrane-doc": "doc"}.get(name, "admin")
    fields = [f"Package: {name}", "Source: terrane", f"Version: {version_}", f"Section: {section}",
              "Priority: optional", f"Architecture: {'all' if name == 'terrane-doc' else arch}",
              f"Installed-Size: {size}", f"Maintainer: {MAINTAINER}", relations(name, found, version_),
              f"Description: {summary}{text}"]
    return "\n".join(f for f in fields if f) + "\n"


def finish(name, folder):
    """Licence, maintainer scripts and checksums of a package."""
    doc = folder / "usr/share/doc" / name
    doc.mkdir(parents=True, exist_ok=True)
    (doc / "copyright").write_text("Terrane is licensed under the Apache License, Version 2.0:\n"
                                   "/usr/share/common-licenses/Apache-2.0\n")
    debian = folder / "DEBIAN"
    debian.mkdir()
    if name == "terrane":
        for script in ("postinst", "prerm", "postrm"):
            shutil.copy(ROOT / "deploy/debian" / script, debian / script)
            (debian / script).chmod(0o755)
    if name == "libterrane0":
        (debian / "triggers").write_text("activate-noawait ldconfig\n")
    sums = [f"{hashlib.md5(p.read_bytes()).hexdigest()}  {p.relative_to(folder)}" for p in sorted(folder.rglob("*"))
            if p.is_file() and not p.is_symlink() and debian not in p.parents]
    (debian / "md5sums").write_text("\n".join(sums) + "\n")


def make_packages(tree, out, version_):
    arch = call("dpkg", "--print-architecture").strip()
    made = []
    parts = tree.parent / "parts"
    for path in sorted(tree.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            continue
        to = parts / package_of(path.relative_to(tree)) / path.relative_to(tree)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, to, follow_symlinks=False)
    for folder in sorted(parts.iterdir()):
        name = folder.name
        found = depends(folder)
        finish(name, folder)
        (folder / "DEBIAN/control").write_text(control(name, folder, version_, arch, found))
        for path in folder.rglob("*"):
            if not path.is_symlink():
                executable = path.is_dir() or path.parent.name in ("bin", "DEBIAN") and os.access(path, os.X_OK)
                path.chmod(0o755 if executable else 0o644)
        folder.chmod(0o755)
        file = out / f"{name}_{version_}_{'all' if name == 'terrane-doc' else arch}.deb"
        call("dpkg-deb", "--root-owner-group", "-Zgzip", "-z6", "--build", folder, file)
        made.append(file)
    return made


# --- the archive for other machines ------------------------------------------------------------------

WRAPPER = """#!/bin/sh
# Runs the program with the libraries beside it, wherever this folder is.
here=$(CDPATH='' cd -- "$(dirname -- "$(readlink -f -- "$0")")/.." && pwd)
LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
exec "$here/libexec/terrane" "$@"
"""


def libraries(program):
    """{name: path} of the shared libraries of a program, without those that every machine has."""
    found = re.findall(r"^\s*(\S+) => (/\S+)", call("ldd", program), re.M)
    return {name: path for name, path in found if not OF_THE_MACHINE.match(name)}


def make_archive(tree, out, version_):
    name = f"terrane-{version_}-linux-{os.uname().machine}"
    top = tree.parent / name
    for folder in ("bin", "lib", "libexec"):
        (top / folder).mkdir(parents=True)
    for program in ("terrane", "terraned"):
        shutil.copy2(tree / "usr/bin" / program, top / "libexec" / program)
        for library, path in libraries(tree / "usr/bin" / program).items():
            shutil.copy2(path, top / "lib" / library)
    for library in tree.rglob("libterrane.so*"):
        shutil.copy2(library, top / "lib" / library.name, follow_symlinks=False)
    (top / "bin/terrane").write_text(WRAPPER)
    (top / "bin/terrane").chmod(0o755)
    shutil.copytree(tree / "usr/include", top / "include")
    shutil.copytree(ROOT / "deploy", top / "share/deploy")
    shutil.copytree(tree / "usr/share/doc/terrane-doc", top / "share/doc")
    (top / "share/terrane").parent.mkdir(exist_ok=True)
    shutil.copytree(tree / "usr/share/terrane", top / "share/terrane")
    shutil.copy(ROOT / "LICENSE", top / "LICENSE")
    file = out / f"{name}.tar.gz"
    with tarfile.open(file, "w:gz", compresslevel=6) as archive:
        archive.add(top, name)
    return file


# --- a bare Debian ----------------------------------------------------------------------------------

CHECK = """set -e
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
apt-get -qq install --no-install-recommends /packages/*.deb >/dev/null
terrane version
terrane help >/dev/null
getent passwd terrane >/dev/null
test "$(stat -c %U:%a /var/lib/terrane)" = terrane:750
terraned meta --help >/dev/null
python3 -c 'import terrane; print(terrane.__file__)'
apt-get -qq remove terrane >/dev/null
test -d /etc/terrane
apt-get -qq purge terrane libterrane0 libterrane-dev python3-terrane terrane-doc >/dev/null
! getent passwd terrane >/dev/null
left=$(find / -xdev -name '*terrane*' -not -path '/proc/*' -not -path '/packages*' -not -path '/var/log/*' \
    -not -path '/var/lib/apt/*' -not -path '/var/cache/*')
test -z "$left" || { echo "left behind: $left"; exit 1; }
echo "installed, run and purged on Debian $(cat /etc/debian_version)"
"""


def check_bare(packages):
    if shutil.which("debootstrap") is None:
        sys.exit("package: --check needs debootstrap: apt-get install debootstrap")
    with tempfile.TemporaryDirectory(prefix="terrane-bare-") as work:
        root = Path(work) / "root"
        say("making a bare Debian 12")
        call("debootstrap", "--variant=minbase", "bookworm", root)
        (root / "packages").mkdir()
        for file in packages:
            shutil.copy(file, root / "packages")
        if Path("/etc/resolv.conf").exists():
            shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
        call("mount", "-t", "proc", "proc", root / "proc")
        try:
            print(call("chroot", root, "sh", "-c", CHECK), end="")
        finally:
            call("umount", root / "proc")


def main():
    parser = argparse.ArgumentParser(prog="./dev package", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=BUILD / "packages", help="folder of the packages")
    parser.add_argument("--check", action="store_true", help="install them in a bare Debian 12 (needs root, network)")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for old in [*options.out.glob("*.deb"), *options.out.glob("terrane-*.tar.gz")]:
        old.unlink()
    number = version()
    with tempfile.TemporaryDirectory(prefix="terrane-package-") as work:
        tree = Path(work) / "tree"
        install_tree(tree)
        extras(tree)
        packages = make_packages(tree, options.out, number)
        archive = make_archive(tree, options.out, number)
    for file in [*packages, archive]:
        say(f"{file.relative_to(ROOT) if file.is_relative_to(ROOT) else file}  {file.stat().st_size >> 10} KiB")
    if options.check:
        check_bare(packages)


if __name__ == "__main__":
    main()

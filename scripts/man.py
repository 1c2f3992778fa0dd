# SPDX-License-Identifier: Apache-2.0
"""./dev man [FOLDER]: writes a manual page for each command, from what `terrane help COMMAND` prints, so that both say
the same. `man -l build/man/terrane-put.1` shows one."""
import subprocess
import sys
from pathlib import Path

from common import BUILD

TERRANE = BUILD / "terrane"


def help_of(*words):
    return subprocess.run([TERRANE, "help", *words], capture_output=True, text=True, check=True).stdout


def commands():
    """[(title of the group, [(name, summary)])], as `terrane help` lists them."""
    groups = []
    for line in help_of().splitlines()[3:]:
        if line.startswith("  ") and groups:
            name, _, summary = line.strip().partition(" ")
            groups[-1][1].append((name, summary.strip()))
        elif line and not line.startswith('"'):
            groups.append((line, []))
    return groups


def quoted(text):
    """Text as roff: nothing in it is a request or an escape."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").splitlines()
    return "\n".join("\\&" + line if line[:1] in (".", "'") else line for line in lines)


def as_typed(text):
    return f".nf\n{quoted(text)}\n.fi\n"


def page(title, summary, version, sections):
    text = f'.TH {title.upper()} 1 "" "terrane {version}" "Terrane"\n.SH NAME\n{quoted(title)} \\- {quoted(summary)}\n'
    return text + "".join(f".SH {name}\n{body}" for name, body in sections)


def split_help(text):
    """The lines of usage, and the rest."""
    usage, _, rest = text.partition("\n\n")
    return "\n".join(line[len("usage: "):] for line in usage.splitlines()), rest.rstrip("\n")


def write_all(folder):
    folder.mkdir(parents=True, exist_ok=True)
    version = subprocess.run([TERRANE, "version"], capture_output=True, text=True, check=True).stdout.split()[1]
    groups = commands()
    listed = "".join(f".SS {quoted(title)}\n" + "".join(f".TP\n.BR terrane\\-{name} (1)\n{quoted(summary)}\n"
                                                       for name, summary in names) for title, names in groups)
    overview = [("SYNOPSIS", ".B terrane\n.I COMMAND\n[arguments]\n"),
                ("DESCRIPTION", quoted(help_of().splitlines()[2]) + "\n"), ("COMMANDS", listed)]
    (folder / "terrane.1").write_text(page("terrane", "a composite storage fabric for machine-learning training",
                                           version, overview))
    count = 1
    for _, names in groups:
        for name, summary in names:
            usage, rest = split_help(help_of(name))
            sections = [("SYNOPSIS", as_typed(usage.strip("\n"))), ("DESCRIPTION", as_typed(rest)),
                        ("SEE ALSO", ".BR terrane (1)\n")]
            (folder / f"terrane-{name}.1").write_text(page(f"terrane-{name}", summary, version, sections))
            count += 1
    return count


if __name__ == "__main__":
    FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else BUILD / "man"
    print(f"man: {write_all(FOLDER)} pages in {FOLDER}")

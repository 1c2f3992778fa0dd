# SPDX-License-Identifier: Apache-2.0
"""Which paths a glob has, and where copies of files and folders go, as fsspec documents it ("Copying files and
directories"). fsspec has this itself since 2023; here it is the same with every version.

A tree is a file system: `entries(path)` yields (path, whether it is a directory) of what is directly below, `isdir` and
`exists` ask for one path.
"""
import os
import re

_MAGIC = re.compile("[*?[]")


class Local:
    """The files of this machine."""
    isdir = staticmethod(os.path.isdir)
    exists = staticmethod(os.path.lexists)

    @staticmethod
    def entries(path):
        with os.scandir(path) as found:
            return [(entry.path, entry.is_dir()) for entry in found]

    @staticmethod
    def strip(path):
        path = os.fspath(path)
        if path.startswith("file://"):
            path = path[len("file://"):]
        return os.path.abspath(os.path.expanduser(path))


def has_magic(path):
    return _MAGIC.search(path) is not None


def ends_in_slash(path):
    return path.endswith("/")


def below(tree, path, maxdepth=None):
    """Yields (path, whether it is a directory) of all that is below a directory, at most maxdepth levels."""
    if maxdepth is not None and maxdepth < 1:
        return
    for one, directory in tree.entries(path):
        yield one, directory
        if directory:
            yield from below(tree, one, None if maxdepth is None else maxdepth - 1)


# --- globs

def _component(text):
    """The regular expression of one component of a pattern: *, ?, and classes in brackets."""
    out, i = "", 0
    while i < len(text):
        char, i = text[i], i + 1
        end = text.find("]", i + (text[i:i + 1] in ("!", "^")) + 1) if char == "[" else -1
        if char == "*":
            out += "[^/]*"
        elif char == "?":
            out += "[^/]"
        elif end > 0:
            inside = text[i:end].replace("\\", "\\\\").replace("[", "\\[")
            out += "[" + ("^" + inside[1:] if inside[0] in "!^" else inside) + "]"
            i = end + 1
        else:
            out += re.escape(char)
    return out


def _expression(pattern):
    """The regular expression of a pattern: ** stands for any number of components."""
    parts, out = pattern.split("/"), ""
    for i, part in enumerate(parts):
        last = i == len(parts) - 1
        if part == "**":
            out += ".*" if last else "(?:.+/)?"
            continue
        if "**" in part:
            raise ValueError(f"{pattern}: ** can only be a whole component of a path")
        out += "[^/]+" if part == "*" else _component(part)
        if not last:
            out += "/"
    return re.compile(out + r"\Z", re.DOTALL)


def glob(tree, path, maxdepth=None):
    """The paths that match, sorted; a slash at the end of the pattern matches directories only. path is stripped but for
    that slash."""
    if maxdepth is not None and maxdepth < 1:
        raise ValueError("maxdepth must be at least 1")
    slash, path = ends_in_slash(path) and path != "/", path.rstrip("/") or "/"
    if not has_magic(path):
        return [path] if tree.exists(path) else []
    root = path[:path[:_MAGIC.search(path).start()].rindex("/")] or "/"
    rest = path[len(root):].strip("/").split("/")
    depth = len(rest)
    if "**" in rest:
        depth = None if maxdepth is None else rest.index("**") + maxdepth
    if not tree.isdir(root):
        return []
    names_folders = slash or rest[-1] == "**"
    wanted = _expression(path + ("/" if slash else ""))
    found = [(root, True), *below(tree, root, depth)]
    return sorted(one for one, directory in found if wanted.match(one + ("/" if names_folders and directory else "")))


def expand(tree, paths, recursive=False, maxdepth=None):
    """All paths that paths and globs stand for; with recursive also what is below the directories among them."""
    if maxdepth is not None and maxdepth < 1:
        raise ValueError("maxdepth must be at least 1")
    out = set()
    for path in paths:
        if has_magic(path):
            found = glob(tree, path, maxdepth)
            out.update(found)
            if recursive and found and (maxdepth is None or maxdepth > 1):
                out.update(expand(tree, found, True, None if maxdepth is None else maxdepth - 1))
            continue
        plain = path.rstrip("/") or "/"
        if recursive and tree.isdir(plain):
            out.update(one for one, _ in below(tree, plain, maxdepth))
        if not recursive or tree.exists(plain):
            out.add(plain)
    if not out:
        raise FileNotFoundError(", ".join(paths))
    return sorted(out)


# --- copies

def _common(paths):
    """The longest path that all paths are or are below."""
    parts = [path.split("/") for path in paths]
    same = 0
    while all(len(one) > same and one[same] == parts[0][same] for one in parts):
        same += 1
    return "/".join(parts[0][:same])


def plan(tree, source, target_tree, target, strip, target_strip, recursive=False, maxdepth=None):
    """The pairs (from, to) of a copy. source and target are as the caller gave them: a path or a list, with the slashes at
    their ends that say "what is in this directory" and "into this directory"."""
    if not isinstance(source, (str, os.PathLike)):
        paths = [strip(one) for one in source]
        if not isinstance(target, (str, os.PathLike)):
            if len(target) != len(paths):
                raise ValueError("the lists of sources and targets must have the same length")
            return [(one, target_strip(other)) for one, other in zip(paths, target)]
        paths = expand(tree, paths, recursive, maxdepth)
        into = target_strip(target).rstrip("/")
        return [(one, f"{into}/{one.rsplit('/', 1)[-1]}") for one in paths]
    text, into = os.fspath(source), os.fspath(target)
    path = strip(text)
    magic, contents = has_magic(path), ends_in_slash(text)
    paths = expand(tree, [path + "/" if magic and contents else path], recursive, maxdepth)
    if not recursive or maxdepth is not None:
        paths = [one for one in paths if not tree.isdir(one)]  # without recursive, directories are not copied
    if not paths:
        return []
    plain = target_strip(into)
    directory = ends_in_slash(into) or target_tree.isdir(plain)
    if magic:
        base, inside = _common(paths), len(paths) == 1
    else:
        base, inside = path, directory and not contents
    if inside:
        base = base.rsplit("/", 1)[0]
    return [(one, (plain if plain != "/" else "") + one[len(base if base != "/" else ""):]) for one in paths]

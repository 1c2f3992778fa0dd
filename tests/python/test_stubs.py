# SPDX-License-Identifier: Apache-2.0
"""The type stubs name what the package has, with the same parameters."""
import ast
import inspect
import types
from pathlib import Path

import pytest
import terrane
from conftest import ROOT

pytest.importorskip("numpy")
FOLDER = ROOT / "python" / "terrane"


def parsed(name):
    return ast.parse(Path(FOLDER / name).read_text(encoding="utf-8"))


def functions(body):
    return {node.name: node for node in body if isinstance(node, ast.FunctionDef)}


IN_C = (types.MethodDescriptorType, types.WrapperDescriptorType)  # do not tell their parameters


def names_of(node):
    a = node.args
    return [arg.arg for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs)]


def names_in(function):
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [name for name, one in inspect.signature(function).parameters.items() if one.kind not in kinds]


def test_the_stub_of_the_package_has_its_names_and_parameters():
    tree = parsed("__init__.pyi")
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    known = {*classes, *functions(tree.body)}
    assert {*terrane.__all__, *terrane._LAZY} <= known and known <= {*terrane.__all__, *terrane._LAZY}
    for name, node in classes.items():
        real = getattr(terrane, name)
        for method, stub in functions(node.body).items():
            there = inspect.getattr_static(real, method)
            if not isinstance(there, (property, *IN_C)):
                assert names_of(stub) == names_in(there), f"{name}.{method}"
        if name in ("Cluster", "Dataset", "Loader", "Mix", "Subset", "Batch"):
            public = {one for one, value in vars(real).items() if not one.startswith("_") and callable(value)}
            assert public <= {*functions(node.body)}, name
    for name in ("connect", "build"):
        assert names_of(functions(tree.body)[name]) == names_in(getattr(terrane, name)), name


def test_the_stub_of_the_extension_has_its_names():
    from terrane import _terrane
    tree = parsed("_terrane.pyi")
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            missing = [name for name in functions(node.body) if not hasattr(getattr(_terrane, node.name), name)]
            assert not missing, node.name
    stubbed = {*functions(tree.body), *(node.name for node in tree.body if isinstance(node, ast.ClassDef))}
    assert {name for name in vars(_terrane) if not name.startswith("_")} == stubbed

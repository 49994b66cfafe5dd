"""The tree of folders: each room imports only from the rooms before it, and no module imports one that imports it."""

from __future__ import annotations

import ast
import re
import runpy
import sys
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

import svmatlas

ROOMS = [
    "version", "proof", "support", "engine", "data", "models", "store", "atlas", "paths", "choose", "estimators", "show",
    "cli",
]  # fmt: skip
"""In the order in which data walk through them. (``plot`` and ``scoring`` are public names of modules in these.)"""

STANDARD = sys.stdlib_module_names
SOURCE = Path(svmatlas.__file__).parent


def is_for_types(node):
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def imports_of(path):
    """Modules of the package that a module imports, at any depth; not those that only annotations name."""
    tree, found = ast.parse(path.read_text()), set()
    for_types = {id(inner) for node in ast.walk(tree) if is_for_types(node) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("svmatlas."):
            found.add(node.module)
        elif isinstance(node, ast.ImportFrom) and node.module == "svmatlas":
            found |= {f"svmatlas.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("svmatlas.")}
    return found


def name_of(path):
    return ".".join(["svmatlas", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(".__init__")


GRAPH = {name_of(path): imports_of(path) for path in SOURCE.rglob("*.py")}
INNER = sorted(name for name in GRAPH if name.count(".") == 2)


def room_of(module):
    return ROOMS.index(module.split(".")[1])


@pytest.mark.parametrize("module", INNER)
def test_rooms_import_only_from_rooms_before_them(module):
    assert [name for name in GRAPH[module] if room_of(name) > room_of(module)] == []


def test_there_are_no_cycles():
    order = list(TopologicalSorter(GRAPH).static_order())
    assert set(INNER) <= set(order)


def test_each_room_is_listed():
    assert {name.split(".")[1] for name in INNER} == set(ROOMS) - {"version"}


@pytest.mark.parametrize("module", INNER)
def test_no_private_name_is_imported(module):
    path = SOURCE.joinpath(*module.split(".")[1:]).with_suffix(".py")
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    assert [
        a.name for n in nodes if (n.module or "").startswith("svmatlas") for a in n.names if a.name[0] == "_" != a.name[1]
    ] == []


def test_the_architecture_shows_the_true_imports():
    """``python docs/import_graph.py`` writes them anew."""
    path = SOURCE.parents[1] / "docs" / "import_graph.py"
    script = runpy.run_path(str(path))
    page = script["PAGE"].read_text()
    assert script["with_graph"](page) == page
    shown = [line.split()[0] for line in page.split(script["BEGIN"])[1].splitlines() if line.startswith("  ")]
    assert len(shown) == len(INNER)


def test_files_named_in_the_docs_exist():
    docs = SOURCE.parents[1]
    for page in ("docs/facet.md", "docs/architecture.md", "CONTRIBUTING.md"):
        named = re.findall(r"`((?:[a-z_]+/)?[a-z_]+/[a-z_]+\.py)`", (docs / page).read_text())
        assert [name for name in named if not (SOURCE / name).exists() and not (docs / name).exists()] == []


def test_names_in_the_glossary_exist():
    """Modules, what is in them, and fields."""
    named = re.findall(r"`([a-z]+\.[a-z_]+(?:\.\w+)*)`", (SOURCE.parents[1] / "docs" / "glossary.md").read_text())
    assert len(named) >= 40
    for name in named:
        module, *rest = [f"svmatlas.{'.'.join(name.split('.')[:2])}", *name.split(".")[2:]]
        thing = import_module(module)
        for part in rest:
            assert hasattr(thing, part) or part in getattr(thing, "__annotations__", {}), name
            thing = getattr(thing, part, None)


MOST_LINES, MOST_IN_A_FUNCTION, MOST_NAMES = 700, 50, 25
"""Of a file; of a function below its docstring; of one import."""


@pytest.mark.parametrize("module", INNER)
def test_files_functions_and_imports_are_small(module):
    path = SOURCE.joinpath(*module.split(".")[1:]).with_suffix(".py")
    text = path.read_text()
    assert text.count("\n") <= (150 if module == "svmatlas.engine.internals" else MOST_LINES)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            first = node.body[1] if ast.get_docstring(node) is not None and len(node.body) > 1 else node.body[0]
            assert node.end_lineno - first.lineno < MOST_IN_A_FUNCTION, node.name
        if isinstance(node, ast.ImportFrom):
            assert len(node.names) <= MOST_NAMES, node.module


BY_NAME = {"svmatlas.atlas.views", "svmatlas.choose.select", "svmatlas.engine.ahead", "svmatlas.engine.compiled"}
"""Modules that load others by their names: what shows a result is built on it; compiled kernels have names."""


@pytest.mark.parametrize("module", INNER)
def test_no_late_import_hides_a_cycle(module):
    text = SOURCE.joinpath(*module.split(".")[1:]).with_suffix(".py").read_text()
    assert module in BY_NAME or not re.search(r"\b(import_module|__import__)\(", text)


def test_functions_named_in_a_facets_life_exist():
    """They are where the page says."""
    page = (SOURCE.parents[1] / "docs" / "facet.md").read_text()
    named = re.findall(r"`(\w+)`(?: and `\w+`)? \(`([a-z_/]+\.py)`\)", page) + re.findall(r"`(\w+)`, `([a-z_/]+\.py)`", page)
    assert len(named) >= 10
    assert [pair for pair in named if not re.search(rf"^(def|class) {pair[0]}\b", (SOURCE / pair[1]).read_text(), re.M)] == []


@pytest.mark.parametrize("module", [name for name in INNER if name.startswith("svmatlas.proof.")])
def test_the_checker_shares_nothing_with_what_it_checks(module):
    path = SOURCE.joinpath(*module.split(".")[1:]).with_suffix(".py")
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = [a.name for node in nodes if isinstance(node, ast.Import) for a in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
    foreign = [
        name for name in names if not name.startswith("svmatlas.proof.") and name.split(".")[0] not in {"numpy", *STANDARD}
    ]
    assert foreign == []

"""The import graph of the package, as docs/architecture.md shows it: ``python docs/import_graph.py`` writes it there anew."""

from __future__ import annotations

import ast
from pathlib import Path

DOCS = Path(__file__).parent
SOURCE = DOCS.parent / "src" / "svmatlas"
PAGE = DOCS / "architecture.md"
BEGIN, END = "<!-- imports -->\n", "<!-- end of imports -->\n"
ROOMS = ["proof", "support", "engine", "data", "models", "store", "atlas", "paths", "choose", "estimators", "show", "cli"]


def imports_of(path: Path) -> list[str]:
    """Modules of the package that a file imports when it is loaded or run, as room/module; not those for annotations."""
    tree = ast.parse(path.read_text())
    for_types = [node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    left_out = {id(inner) for node in for_types for inner in ast.walk(node)}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and id(node) not in left_out:
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
            found |= {name for name in names if (SOURCE.parent / (name.replace(".", "/") + ".py")).exists()}
    return sorted("/".join(name.split(".")[1:]) for name in found if name.startswith("svmatlas."))


def lines_of(room: str) -> list[str]:
    """One line for each file of a room: its name, and what it imports; of its own room only the name."""
    lines = []
    for path in sorted((SOURCE / room).glob("*.py")):
        if path.stem != "__init__":
            names = [name.removeprefix(f"{room}/") for name in imports_of(path) if name != "version"]
            lines.append(f"{path.stem:<14} {' '.join(names)}".rstrip())
    return lines


def graph() -> str:
    """All rooms, as the page shows them."""
    rooms = ["\n".join([f"{room}/", *(f"  {line}" for line in lines_of(room))]) for room in ROOMS]
    return "```text\n" + "\n".join(rooms) + "\n```\n"


def with_graph(page: str) -> str:
    """A page with the graph as it is now."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + graph() + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(with_graph(PAGE.read_text()))

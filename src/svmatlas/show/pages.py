"""The page: one HTML file with the map, its data and all that shows them, which opens from the file system.

Its source are plain modules in ``page/``. They are put together here into one script: each becomes a function that returns
what it exports, in the order of their imports.
"""

from __future__ import annotations

import base64
import os
import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from svmatlas.show.contents import Contents, gather, gather_selection
from svmatlas.show.packing import pack
from svmatlas.support.writing import check_goal, replacing

if TYPE_CHECKING:
    from svmatlas.atlas.atlas import Atlas
    from svmatlas.choose.roc import Frontier
    from svmatlas.choose.select import Selection

PathLike = str | os.PathLike[str]

IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./(\w+)\.js";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:class|const|function) (\w+))", re.MULTILINE)


def source(name: str) -> str:
    """A file of the page's source."""
    return files("svmatlas.show").joinpath("page", name).read_text(encoding="utf-8")


@cache
def bundle(first: str) -> str:
    """A module and all that it imports as one script, in which its exports are those of ``modules.first``."""
    parts: dict[str, str] = {}

    def visit(name: str) -> None:
        text = source(f"{name}.js")
        for _, other in IMPORT.findall(text):
            if other not in parts:
                visit(other)
        exported = ", ".join(EXPORT.findall(text))
        body = EXPORT.sub("", IMPORT.sub(r"const \1 = modules.\2;", text))
        parts[name] = f"modules.{name} = (() => {{\n{body}\nreturn {{ {exported} }};\n}})();"

    visit(first)
    return "\n\n".join(["const modules = {};", *parts.values()])


def html(contents: Contents) -> str:
    """The page of some contents. Texts of the user are in the compressed data only."""
    data = base64.b64encode(pack(*contents)).decode()
    parts = {"style": source("style.css"), "script": bundle("page"), "data": data}
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], source("page.html"))


def write_page(
    atlas: Atlas,
    path: PathLike,
    *,
    selection: Selection | None = None,
    frontier: Frontier | None = None,
    X_test: Any = None,
    y_test: Any = None,
    region: Any = None,
    title: str | None = None,
) -> None:
    """Write the page of an atlas; see :meth:`svmatlas.Atlas.page`."""
    check_goal(path)
    _write(path, gather(atlas, selection, frontier, X_test, y_test, region, title))


def write_selection(selection: Selection, path: PathLike, frontier: Frontier | None = None, title: str | None = None) -> None:
    """Write the page of a selection without an atlas; see :meth:`svmatlas.Selection.page`."""
    check_goal(path)
    _write(path, gather_selection(selection, frontier, title))


def _write(path: PathLike, contents: Contents) -> None:
    text = html(contents)
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8")

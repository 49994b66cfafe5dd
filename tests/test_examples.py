"""The notebook in ``examples/`` runs from a raw table to a model, as it is written; and what the source archive holds."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_notebook_runs(capsys):
    notebook = json.loads((ROOT / "examples" / "first_model.ipynb").read_text(encoding="utf-8"))
    assert len(notebook["cells"]) <= 12
    names: dict[str, object] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), "first_model.ipynb", "exec"), names)
    assert names["best"].certified
    assert names["model"].pos_label_ == "sick"
    assert names["model"].duality_gap_ < 1e-9
    assert "support vectors" in capsys.readouterr().out


def test_the_source_archive_holds_all_that_is_here():
    """Whatever the tests, the docs and the make targets read is named in MANIFEST.in, or belongs to every archive."""
    always = {"LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "src", "PKG-INFO", "setup.cfg"}
    made = {"build", "demo", "dist"}
    here = {path.name for path in ROOT.iterdir() if not path.name.startswith((".", "__"))}
    named = (ROOT / "MANIFEST.in").read_text(encoding="utf-8").split()
    assert {"bench", "docs", "examples", "study", "tests", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile"} <= here
    assert here - always - made <= set(named)

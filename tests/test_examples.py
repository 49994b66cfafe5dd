"""The notebook in ``examples/`` runs from a raw table to a model, as it is written; and what the source archive holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("name", ["Makefile", "CHANGELOG.md", "docs/guide.md", "examples/first_model.ipynb", "bench/bench.py"])
def test_the_source_archive_holds_what_the_tests_read(name):
    """Everything beside ``src`` that is in the archive is named in MANIFEST.in."""
    assert (ROOT / name).exists()
    named = (ROOT / "MANIFEST.in").read_text(encoding="utf-8").split()
    assert name in named or name.split("/")[0] in named

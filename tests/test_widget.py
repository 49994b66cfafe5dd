"""The widget's side in Python, and a notebook from start to end."""

from __future__ import annotations

from pathlib import Path

import pytest
import traitlets

import svmatlas

NOTEBOOK = Path(__file__).parent.parent / "examples" / "widget.ipynb"


@pytest.fixture
def widget(small):
    return small[2].widget()


def test_costs_and_facet_go_together(small, widget):
    _, _, atlas = small
    seen = []
    widget.observe(lambda change: seen.append(change["new"]), names="facet")
    for costs in ((0.2, 0.7), (1e-4, 1e-3), (3.0, 0.1)):
        widget.costs = costs
        assert widget.facet == atlas.locate(*costs)
    assert seen[-1] == widget.facet


def test_it_begins_at_the_best_costs_or_in_the_middle(small, widget):
    X, y, atlas = small
    assert widget.facet == atlas.locate(*widget.costs)
    best = svmatlas.select(X, y, cv=3)
    assert atlas.widget(selection=best).costs == (best.C_pos, best.C_neg)


def test_costs_outside_the_region_are_refused(widget):
    widget.costs = (0.5, 0.5)
    with pytest.raises(ValueError, match="not a cost in the region"):
        widget.costs = (-1.0, 0.5)
    with pytest.raises(traitlets.TraitError):
        widget.costs = (1.0,)
    assert widget.costs == (0.5, 0.5)


def test_the_script_needs_no_network(widget):
    assert "http://" not in widget._esm.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in widget._esm
    assert widget._esm.count("export default") == 1


def test_the_data_are_those_of_the_page(small, widget, tmp_path):
    import base64

    small[2].page(tmp_path / "map.html")
    assert base64.b64encode(widget.data).decode() in (tmp_path / "map.html").read_text()


def test_without_anywidget_it_says_what_to_install(small, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "anywidget", None)
    with pytest.raises(ImportError, match=r"svmatlas\[widget\]"):
        small[2].widget()


def test_the_notebook_runs():
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("facet" in output.get("text", "") for output in outputs)
    assert any("application/vnd.jupyter.widget-view+json" in output.get("data", {}) for output in outputs)

"""The widget in a real JupyterLab: it shows, and costs go both ways between browser and kernel."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from importlib.util import find_spec

import nbformat
import numpy as np
import pytest

import svmatlas
from tests import cases
from tests.browser import HOW, MISSING, browser

pytestmark = [
    pytest.mark.skipif(MISSING, reason=HOW),
    pytest.mark.skipif(find_spec("jupyterlab") is None, reason="needs JupyterLab: pip install jupyterlab"),
]

CELL = """import svmatlas
from tests import cases

atlas = svmatlas.explore(*cases.gaussian(20, 20, 3, 0.5))
widget = atlas.widget()


def tell(change):
    with open("seen.txt", "a") as file:
        print([*widget.costs, widget.facet], file=file)


widget.observe(tell, names=["costs", "facet"])
widget.costs = (0.05, 0.2)
widget"""

PATIENCE = 60
"""Seconds for the kernel to start and the widget to show."""


ADDRESS = re.compile(r"(http://(?:localhost|127\.0\.0\.1):\d+)/lab")


@pytest.fixture
def lab(tmp_path):
    """The address of a JupyterLab in a folder with one notebook."""
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)], metadata=kernel), tmp_path / "map.ipynb")
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--IdentityProvider.token=", "--port=0"]
    command += ["--ServerApp.port_retries=0", "--LabApp.expose_app_in_browser=True"]
    places = {name: str(tmp_path / name) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")}
    environment = os.environ | places | {"PYTHONPATH": os.getcwd()}
    log = tmp_path / "log.txt"
    with log.open("w") as lines, subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=lines) as server:
        try:
            wait_for(lambda: ADDRESS.search(log.read_text()))
            yield ADDRESS.search(log.read_text())[1]
        finally:
            server.terminate()


def seen(folder):
    path = folder / "seen.txt"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def wait_for(true):
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_the_widget_shows_and_costs_go_both_ways(lab, tmp_path):
    atlas = svmatlas.explore(*cases.gaussian(20, 20, 3, 0.5))
    with browser() as tab:
        page = tab.page
        page.goto(f"{lab}/lab/tree/map.ipynb", timeout=1000 * PATIENCE)
        page.get_by_text("| Idle").wait_for(timeout=1000 * PATIENCE)  # before that it asks for a kernel
        page.evaluate("void window.jupyterapp.commands.execute('notebook:run-all-cells')")
        page.locator(".svmatlas .card h2").first.wait_for(timeout=1000 * PATIENCE)
        wait_for(lambda: "C+ = 0.05, C− = 0.2" in page.locator(".svmatlas .card h2").first.inner_text())
        window = page.locator(".svmatlas .window")
        window.scroll_into_view_if_needed()
        box, before = window.bounding_box(), len(seen(tmp_path))
        for step in range(8):
            page.mouse.move(box["x"] + 80 + 25 * step, box["y"] + 60 + 10 * step)
            page.wait_for_timeout(50)
        wait_for(lambda: len(seen(tmp_path)) > before)
        shown = page.locator(".svmatlas .card h2").first.inner_text()
        page.mouse.down()
        page.mouse.up()
        page.locator(".svmatlas .card").nth(1).wait_for()
        page.keyboard.press("x")  # removes the pin, and does not cut the cell
        wait_for(lambda: page.locator(".svmatlas .card").count() == 1)
        assert page.locator(".jp-Notebook-cell").count() == 1
        *costs, facet = seen(tmp_path)[-1]
        assert facet == atlas.locate(*costs)
        np.testing.assert_allclose([float(text) for text in re.findall(r"= ([\d.e+-]+)", shown)], costs, rtol=1e-3)

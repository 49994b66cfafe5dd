"""The examples of the README and of the guide run as written."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from svmatlas.cli.main import main
from tests import cases

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(("name", "least"), [("README.md", 20), ("docs/guide.md", 20)])
def test_examples(name, least):
    result = doctest.testfile(str(ROOT / name), module_relative=False)
    assert result.attempted >= least
    assert result.failed == 0


def test_shell_lines(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X, y = cases.gaussian(10, 20, 2, 1.0)
    np.savetxt("data.csv", np.column_stack([X, y]), delimiter=",", header="a,b,sick", comments="", fmt="%.6f")
    np.savetxt("new.csv", X[:4], delimiter=",", header="a,b", comments="", fmt="%.6f")
    block = re.search(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL).group(1)
    lines = [shlex.split(line) for line in block.splitlines()]
    assert len(lines) == 5
    for program, *argv in lines:
        assert program == "svmatlas"
        assert main(argv) == 0
    assert "valid, complete" in capsys.readouterr().out


@pytest.mark.parametrize("path", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.name)
def test_formulas_have_braces_where_their_reader_needs_them(path):
    r"""``\frac12`` becomes a fraction of 12 and what follows, the index of ``\hat x_i`` an underscript."""
    assert re.findall(r"\\(?:[td]?frac|hat|bar|tilde)(?!\{)", path.read_text(encoding="utf-8")) == []

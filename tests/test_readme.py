"""The examples of the README run as written."""

from __future__ import annotations

import doctest
from pathlib import Path


def test_examples():
    result = doctest.testfile(str(Path(__file__).parents[1] / "README.md"), module_relative=False)
    assert result.attempted >= 8
    assert result.failed == 0

"""How values of the user are shown in messages."""

from __future__ import annotations

from typing import Any

import numpy as np


def shown(value: Any) -> str:
    """The value as Python writes it: numbers of numpy look like other numbers, also in lists and tuples."""
    if isinstance(value, np.generic | np.ndarray):
        return repr(value.tolist())
    if type(value) in (list, tuple):
        inner = ", ".join(map(shown, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(value) == 1 else ''})"
    return repr(value)


def positive_of(classes: Any) -> str:
    """Which of two labels is positive, for the text of a result."""
    return f"positive: {shown(classes[1])}"

"""Progress bars, with tqdm where it is installed."""

from __future__ import annotations

from typing import Any


def make_bar(unit: str, total: int | None = None) -> Any:
    """A tqdm bar; ImportError with the name of the extra where there is no tqdm."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise ImportError("progress=True needs tqdm: pip install 'svmatlas[progress]'") from None
    return tqdm(unit=unit, total=total)


def show(bar: Any, text: str) -> None:
    """One more step, and what it says; nothing without a bar."""
    if bar is not None:
        bar.set_postfix_str(text, refresh=False)
        bar.update(1)

"""Progress bars, with tqdm where it is installed."""

from __future__ import annotations

from typing import Any


def make_bar(unit: str, total: float | None = None) -> Any:
    """A tqdm bar; ImportError with the name of the extra where there is no tqdm."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise ImportError("progress=True needs tqdm: pip install 'svmatlas[progress]'") from None
    return tqdm(unit=unit, total=total)


def move_to(bar: Any, done: float, total: float) -> None:
    """So much is done of what is known to be in all, which may change: the bar has its share and the time left."""
    bar.total = total
    bar.update(done - bar.n)


def finish(bar: Any) -> None:
    """All is done, be it sooner than expected."""
    bar.update(bar.total - bar.n)
    bar.close()


def show(bar: Any, text: str) -> None:
    """One more step, and what it says; nothing without a bar."""
    if bar is not None:
        bar.set_postfix_str(text, refresh=False)
        bar.update(1)

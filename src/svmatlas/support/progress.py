"""Progress bars, with tqdm where it is installed."""

from __future__ import annotations

from typing import Any

WHOLE = 100.0
"""Of a bar that shows a share."""


def make_bar(unit: str, total: float | None = None, form: str | None = None) -> Any:
    """A tqdm bar; ImportError with the name of the extra where there is no tqdm."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise ImportError("progress=True needs tqdm: pip install 'svmatlas[progress]'") from None
    return tqdm(unit=unit, total=total, bar_format=form)


def make_share_bar() -> Any:
    """A bar for ``show``: the share that is done, the time left, and a text."""
    return make_bar(" %", WHOLE, "{percentage:3.0f}%|{bar}| [{elapsed}<{remaining}{postfix}]")


def move_to(bar: Any, done: float, total: float) -> None:
    """So much is done of what is known to be in all, which may change: the bar has its share and the time left."""
    bar.total = total
    bar.update(done - bar.n)


def finish(bar: Any) -> None:
    """All is done, be it sooner than expected; nothing without a bar."""
    if bar is not None:
        bar.update(bar.total - bar.n)
        bar.close()


def show(bar: Any, text: str, share: float) -> None:
    """What a step says, and the share of all that is done, which is never shown to fall; nothing without a bar."""
    if bar is not None:
        bar.set_postfix_str(text, refresh=False)
        bar.update(max(0.0, WHOLE * min(share, 1.0) - bar.n))


def scores(best: float, bound: float) -> str:
    """The best score and the bound so far, as far as they are known."""
    known = [f"{name} {value:.4f}" for name, value in (("best", best), ("bound", bound)) if abs(value) < float("inf")]
    return ", ".join(known)

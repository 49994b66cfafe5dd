"""The page as a widget for notebooks (extra ``widget``): the same view, in Jupyter, VS Code and Colab, without network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from svmatlas.show.contents import Contents, gather
from svmatlas.show.packing import pack
from svmatlas.show.pages import bundle, source

if TYPE_CHECKING:
    from svmatlas.atlas.atlas import Atlas


def make_widget(atlas: Atlas, **shown: Any) -> Any:
    """A widget of an atlas; see :meth:`svmatlas.Atlas.widget`."""
    try:
        import anywidget
        import traitlets
    except ImportError:
        raise ImportError("the widget needs anywidget: pip install 'svmatlas[widget]'") from None

    class AtlasWidget(anywidget.AnyWidget):
        """The map of an atlas in a notebook.

        Attributes
        ----------
        costs : tuple of two floats
            The costs (C+, C-) under the cursor; set them to move it. At first those of the selection, or in the middle.
        facet : int
            The facet there, -1 for none.

        """

        _esm = bundle("notebook") + "\nexport default modules.notebook.widget;\n"
        _css = source("style.css")
        data = traitlets.Bytes().tag(sync=True)
        costs = traitlets.Tuple(traitlets.Float(), traitlets.Float(), default_value=(1.0, 1.0)).tag(sync=True)
        facet = traitlets.Int(-1).tag(sync=True)

        @traitlets.validate("costs")
        def _check_costs(self, proposal: Any) -> Any:
            atlas._check_costs(*proposal["value"])
            return proposal["value"]

        @traitlets.observe("costs")
        def _locate(self, change: Any) -> None:
            self.facet = int(atlas.locate(*change["new"]))

    contents = gather(atlas, **shown)
    return AtlasWidget(data=pack(*contents), costs=_first_costs(contents))


def _first_costs(contents: Contents) -> tuple[float, float]:
    """The best costs, if they are finite, or those in the middle of the map as it is first seen."""
    best = contents.header.get("selection", {}).get("costs", (np.inf, np.inf))
    if np.all(np.isfinite(best)):
        return float(best[0]), float(best[1])
    left, right, low, high = contents.header["home"]
    return float(np.sqrt(left) * np.sqrt(right)), float(np.sqrt(low) * np.sqrt(high))

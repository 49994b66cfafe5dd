"""The page as a widget for notebooks (extra ``widget``): the same view, in Jupyter, VS Code and Colab, without network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from svmatlas.show.contents import gather
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
            The costs (C+, C-) under the cursor; set them to move it.
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

    return AtlasWidget(data=pack(*gather(atlas, **shown)))

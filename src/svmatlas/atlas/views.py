"""How an atlas is shown.

What shows an atlas is built on it, and comes after it: nothing here imports it. It is loaded by its name when it is asked for,
as a plug-in is. These are the only two places that do so (a test looks for others).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Views:
    """The methods of an atlas that show it."""

    def page(
        self,
        path: Any,
        selection: Any = None,
        frontier: Any = None,
        X_test: Any = None,
        y_test: Any = None,
        *,
        region: Any = None,
        title: str | None = None,
    ) -> None:
        """Write the map to look at: one HTML file that opens from the file system, without network or server.

        The plane of costs with all facets, to zoom and to click; the exact model under the cursor, computed in the browser,
        with its coefficients, duality gap and confusion matrix; two models side by side.

        Parameters
        ----------
        path : str or path-like
            The file to write.
        selection : Selection, optional
            Best costs, made by :func:`svmatlas.select`: the score in its cells, the best ones outlined.
        frontier : Frontier, optional
            Made by :func:`svmatlas.roc_frontier`: a point lights up its cells; costs of errors choose the point.
        X_test, y_test : array-like of shape (k, n_features) and (k,), optional
            Held-out rows for confusion matrices and scores. Default: the rows of the atlas.
        region : ((lo, hi), (lo, hi)), optional
            The page holds the facets that meet this part of the plane. Default: all. Of an atlas of more than 2,000,000
            facets it then holds none but a picture of them, and says so.
        title : str, optional
            What the page is called.

        """
        import_module("svmatlas.show.pages").write_page(
            self, path, selection=selection, frontier=frontier, X_test=X_test, y_test=y_test, region=region, title=title
        )

    def widget(
        self, selection: Any = None, frontier: Any = None, X_test: Any = None, y_test: Any = None, *, region: Any = None
    ) -> Any:
        """Make the page of the atlas as a widget for notebooks (extra ``widget``).

        Parameters
        ----------
        selection, frontier, X_test, y_test, region
            As in :meth:`page`.

        Returns
        -------
        AtlasWidget
            A widget with the traits ``costs``, a pair that follows the cursor and can be set, and ``facet``, the number of
            the facet there (-1: none); ``observe`` tells of changes.

        """
        return import_module("svmatlas.show.widget").make_widget(
            self, selection=selection, frontier=frontier, X_test=X_test, y_test=y_test, region=region
        )

"""The atlas: the immutable map of all facets, edges and vertices, and exact solutions at any costs."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from svmatlas.atlas.checker import certify_map
from svmatlas.atlas.facets import Facet, Partition
from svmatlas.atlas.files import export, read, save
from svmatlas.atlas.solver import Solver
from svmatlas.atlas.validate import Report, validate
from svmatlas.atlas.views import Views
from svmatlas.data.columns import Columns
from svmatlas.data.features import decision_values
from svmatlas.data.problem import DROPPED, ZERO, Bounds, Problem, check_rows, make_region
from svmatlas.engine.canonical import Canonical
from svmatlas.engine.locate import Locator
from svmatlas.engine.mesh import Mesh
from svmatlas.engine.workspace import INSIDE, MARGIN, OUTSIDE, P, Q, Region
from svmatlas.models.gap import user_gaps, warn_if_inaccurate
from svmatlas.models.solve import Solution, solution_maps
from svmatlas.models.svc import AsymmetricSVC, make_classifier
from svmatlas.support.messages import positive_of, shown

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Array = TypeVar("Array", bound=npt.NDArray[Any])


class Atlas(Views):
    """The map of all asymmetric-cost linear SVMs of one data set; made by :func:`svmatlas.explore`
    or opened by :func:`svmatlas.load`.

    Homogeneous costs (p, q, l) stand for C+ = p/l and C- = q/l; l = 0 is infinity.

    Attributes
    ----------
    n_facets, n_edges, n_vertices, n_layers : int
        Sizes of the map. They are facts about the data: a facet is all costs with the same rows on the margin, inside and
        outside it, however many of them there are.
    n_pieces : int
        Number of facets that were explored: where data are tied a facet is explored in pieces, with others between them that
        have no area. It is what the exploration costs, and depends on ``random_state``.
    complete : bool
        False if the exploration was stopped.
    classes_ : ndarray of shape (2,)
        Labels; ``classes_[1]`` is the positive class, with cost C+.
    vertices : ndarray of shape (V, 3)
        Homogeneous costs of the vertices.
    edge_at : ndarray of shape (E + 1,)
        Edge e has the events ``edge_events[edge_at[e]:edge_at[e + 1]]``: where the data are tied, several happen at once.
    edge_events : ndarray of shape (n, 2)
        (row, type) of the events: that row (the first of equal rows) moves between margin and outside (type 0) or between
        margin and inside (type 1); one that moves from inside to outside at once has both. (-1, k) for side k of the region.
    edge_facets : ndarray of shape (E, 2)
        The facets on both sides; -1: none, a side of the region; -2: a facet that was not explored.
    edge_vertices : ndarray of shape (E, 2)
        The two ends, so that the first facet lies on the left.
    facet_layer, facet_parent : ndarrays of shape (F,)
        Layer of each facet, and the facet of the layer before from which it was reached (-1: the first): over an edge, or
        across a vertex at which four facets meet.
    facet_at : ndarray of shape (F + 1,)
        Facet f owns the places ``facet_at[f]:facet_at[f + 1]`` of the next two arrays.
    facet_edges, facet_vertices : ndarrays
        Edges of the facets in order (counter-clockwise in (C+, C-)), and the vertex at the end of each.
    columns : Columns
        Names of the features, and how they were standardised. Queries use them: they take and give the units of X.
    notes : dict
        Empty; for what should be saved with the map, as JSON knows it. It has no effect on anything.
    n_refined, n_zero, n_exact : int
        Predicates that doubles could not decide, by what did: double-double, zeros modulo a prime, exact integers.

    """

    def __init__(self, problem: Problem, bounds: Bounds, canonical: Canonical, complete: bool, counts: dict[str, int]) -> None:
        self._problem = problem
        self._canonical = canonical
        self.region = bounds
        self.complete = complete
        self.notes: dict[str, Any] = {}
        self.classes_ = problem.classes
        self.n_refined = counts["n_refined"]
        self.n_zero = counts["n_zero"]
        self.n_exact = counts["n_exact"]

    # Sizes and arrays

    @property
    def columns(self) -> Columns:
        """Names and scaling of the features."""
        return self._problem.columns

    @property
    def _mesh(self) -> Mesh:
        return self._canonical.mesh

    @property
    def n_facets(self) -> int:
        """Number of facets."""
        return int(self._mesh.facet_layer.size)

    @property
    def n_pieces(self) -> int:
        """Number of facets of the data with split ties."""
        return int(self._canonical.split.kind.size)

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return int(self._mesh.edge_code.size)

    @property
    def n_vertices(self) -> int:
        """Number of vertices."""
        return int(self._mesh.vertices.shape[0])

    @property
    def n_layers(self) -> int:
        """Number of layers."""
        return int(self._mesh.facet_layer[-1]) + 1

    @cached_property
    def vertices(self) -> Floats:
        """Homogeneous costs of the vertices."""
        return _fixed(self._problem.to_user(self._mesh.vertices))

    @cached_property
    def _events(self) -> tuple[Ints, npt.NDArray[np.int32]]:
        return self._canonical.events()

    @property
    def edge_at(self) -> Ints:
        """Start of each edge's events in ``edge_events``."""
        return _fixed(self._events[0])

    @cached_property
    def edge_events(self) -> npt.NDArray[np.int32]:
        """Events (row, type) of the edges, (-1, side) on the sides of the region."""
        code = self._events[1]
        first = self._problem.first_rows
        row = np.full(code.size, -1)
        row[code >= 0] = first[code[code >= 0] >> 1]
        return _fixed(np.column_stack([row, np.where(code >= 0, code & 1, -1 - code)]).astype(np.int32))

    @property
    def edge_facets(self) -> npt.NDArray[np.int32]:
        """Facets on both sides of each edge."""
        return _fixed(self._mesh.edge_facets)

    @property
    def edge_vertices(self) -> npt.NDArray[np.int32]:
        """Ends of each edge."""
        return _fixed(self._mesh.edge_vertices)

    @property
    def facet_layer(self) -> npt.NDArray[np.int32]:
        """Layer of each facet."""
        return _fixed(self._mesh.facet_layer)

    @property
    def facet_parent(self) -> npt.NDArray[np.int32]:
        """Parent of each facet."""
        return _fixed(self._mesh.facet_parent)

    @property
    def facet_at(self) -> Ints:
        """Start of each facet's places in ``facet_edges`` and ``facet_vertices``."""
        return _fixed(self._mesh.facet_at)

    @property
    def facet_edges(self) -> npt.NDArray[np.int32]:
        """Edges of the facets, in order."""
        return _fixed(self._mesh.facet_edges)

    @property
    def facet_vertices(self) -> npt.NDArray[np.int32]:
        """The vertex at the end of each of ``facet_edges``."""
        return _fixed(self._mesh.facet_vertices)

    def __repr__(self) -> str:
        state = "complete" if self.complete else "partial"
        return (
            f"Atlas({state}: {self.n_facets} facets, {self.n_edges} edges, {self.n_vertices} vertices, "
            f"{self.n_layers} layers; {positive_of(self.classes_)})"
        )

    # Facets

    def partition(self, facet: int) -> Partition:
        """Row numbers on the margin, inside and outside it, in a facet. Rows of weight zero are in none."""
        state = self._states(np.array([self._check_facet(facet)]))[0]
        point = self._problem.point
        row = np.where(
            point == DROPPED, -1, np.where(point == ZERO, INSIDE, state[np.maximum(point, 0)] if state.size else -1)
        )
        return Partition(*(np.flatnonzero(row == s) for s in (MARGIN, INSIDE, OUTSIDE)))

    def polygon(self, facet: int) -> Floats:
        """Corners of a facet in order, homogeneous costs (n, 3)."""
        f = self._check_facet(facet)
        at = self._mesh.facet_at
        return self._problem.to_user(self._mesh.vertices[self._mesh.facet_vertices[at[f] : at[f + 1]]])

    def _check_facet(self, facet: int) -> int:
        n = self._mesh.facet_layer.size
        if not 0 <= facet < n:
            raise ValueError(f"facet {facet} does not exist: the atlas has facets 0 to {n - 1}")
        return int(facet)

    def _states(self, facets: Ints) -> npt.NDArray[np.int8]:
        """Partitions of some facets: M is all points on the margin."""
        return self._canonical.states(facets)

    def _split_states(self, pieces: npt.NDArray[np.signedinteger]) -> npt.NDArray[np.int8]:
        """Partitions of some pieces, whose maps are those of their facets; M is independent."""
        return self._canonical.split.states(pieces)

    def facet(self, facet: int) -> Facet:
        """Everything about one facet; see :class:`Facet`."""
        f = self._check_facet(facet)
        mesh, problem = self._mesh, self._problem
        place = slice(mesh.facet_at[f], mesh.facet_at[f + 1])
        edges = mesh.facet_edges[place]
        beside = mesh.edge_facets[edges]
        alpha, beta = solution_maps(problem.data, self._region, self._split_states(self._canonical.piece[[f]])[0])
        unit = np.ldexp(1.0, [[problem.cost_exponent], [problem.cost_exponent], [0]])
        coef, intercept = None, None
        if problem.features.linear:
            coef, intercept = self.columns.user_weights(*problem.features.weights(unit * beta))
        return Facet(
            number=f,
            layer=int(mesh.facet_layer[f]),
            partition=self.partition(f),
            polygon=self.polygon(f),
            events=[self.edge_events[self.edge_at[e] : self.edge_at[e + 1]] for e in edges],
            neighbours=np.where(beside[:, 0] == f, beside[:, 1], beside[:, 0]),
            alpha=None if self._canonical.is_cut[f] else problem.row_alpha(unit * alpha, np.eye(3)[P], np.eye(3)[Q]),
            coef=coef,
            intercept=problem.features.intercept(problem.features.expand(unit * beta)) if intercept is None else intercept,
        )

    # Solutions

    def locate(self, C_pos: Any, C_neg: Any) -> Any:
        """Number of the facet at some costs: an int for a pair of scalars, an array for arrays.

        Of several facets that meet at these costs, on an edge or a vertex, it is the one with the lowest number. At infinite
        costs it is the facet where the way there ends: see :meth:`coef`.

        Parameters
        ----------
        C_pos, C_neg : float or array-like of shape (n,)
            Costs in the region.

        Returns
        -------
        int or ndarray of shape (n,)

        """
        (p, q), scalar = self._check_costs(C_pos, C_neg)
        finite = np.isfinite(p) & np.isfinite(q)
        facets = np.empty(p.size, dtype=np.intp)
        facets[finite] = self._solver.locate(self._problem.homogeneous(p[finite], q[finite]))
        for k in np.flatnonzero(~finite):
            facets[k] = self._locator.facet_of(self._solver.limit(p[k], q[k]).facet)
        return int(facets[0]) if scalar else facets

    def alpha(self, C_pos: Any, C_neg: Any) -> Floats:
        """Dual variables of the user's rows.

        Where rows on the margin depend on each other they are not unique. Then they are the limit of the dual variables of
        data whose ties are split by a small jitter, which are unique: a valid choice everywhere, continuous and piecewise
        affine in the costs inside a facet; which one depends on ``random_state``.

        A row of weight zero has 0. At infinite costs (see :meth:`coef`) a dual variable that grows without bound is infinite.

        Parameters
        ----------
        C_pos, C_neg : float or array-like of shape (n,)
            Costs in the region.

        Returns
        -------
        ndarray of shape (n_rows,) or (n, n_rows)

        """
        (p, q), scalar = self._check_costs(C_pos, C_neg)
        finite = np.isfinite(p) & np.isfinite(q)
        alpha = np.empty((p.size, self._problem.point.size))
        c = self._problem.homogeneous(p[finite], q[finite])
        solution = self._solver.at(c)
        warn_if_inaccurate(user_gaps(self._problem, solution, c), p[finite], q[finite], self._problem.features.linear)
        alpha[finite] = self._problem.spread_alpha(solution.share, p[finite], q[finite])
        for k in np.flatnonzero(~finite):
            alpha[k] = self._problem.row_alpha(self._solver.limit(p[k], q[k]).alpha[None], p[k : k + 1], q[k : k + 1])[0]
        return alpha[0] if scalar else alpha

    def coef(self, C_pos: Any, C_neg: Any) -> Floats:
        """Weights of the features, for a linear kernel, in the units of X.

        They are unique at all costs, also on edges and vertices, and continuous in the costs. A cost of 0 means that errors
        on that class are free. Infinite costs stand for a limit, which is attained at costs that are large enough:

        - ``(inf, C_neg)``: C_neg stays as it is and C+ grows; no error on positive rows, if that is possible at all.
        - ``(inf, inf)``: both grow as C+ = C-. If the classes can be separated (with the bias appended to the rows) it is
          the hard margin, whatever the ratio; if not, the least total loss, which depends on it.

        Parameters
        ----------
        C_pos, C_neg : float or array-like of shape (n,)
            Costs in the region.

        Returns
        -------
        ndarray of shape (n_features,) or (n, n_features)

        """
        weights, scalar = self._weights(C_pos, C_neg)
        coef, _ = self.columns.user_weights(*weights)
        return coef[0] if scalar else coef

    def intercept(self, C_pos: Any, C_neg: Any) -> Any:
        """Intercept: what the bias constant adds to decision values.

        Parameters
        ----------
        C_pos, C_neg : float or array-like of shape (n,)
            Costs in the region; infinite ones as in :meth:`coef`.

        Returns
        -------
        float or ndarray of shape (n,)
            ``X @ coef + intercept`` is the decision value of a linear kernel.

        """
        if self._problem.features.linear:
            weights, scalar = self._weights(C_pos, C_neg)
            _, intercept = self.columns.user_weights(*weights)
        else:
            (z,), scalar = self._models(C_pos, C_neg)
            intercept = self._problem.features.intercept(z)
        return float(intercept[0]) if scalar else intercept

    def decision_function(self, X: Any, C_pos: Any, C_neg: Any) -> Floats:
        """Decision values of rows, positive for ``classes_[1]``.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (k, n_features)
            Rows in the units of the data; with ``kernel="precomputed"`` their kernels with all rows of the data, (k, n_rows).
            If the atlas was made of named columns, those of a data frame are matched by name: their order does not matter
            and others are ignored.
        C_pos, C_neg : float or array-like of shape (n,)
            Costs in the region; infinite ones as in :meth:`coef`.

        Returns
        -------
        ndarray of shape (k,) or (n, k)

        """
        features = self._problem.features
        X = self._check_rows(X)
        if features.linear:
            (coef, intercept), scalar = self._weights(C_pos, C_neg)
            values = decision_values(X, coef.T, intercept).T
        else:
            (z,), scalar = self._models(C_pos, C_neg)
            values = features.decide(X, z)
        return values[0] if scalar else values

    def _check_rows(self, X: Any) -> Any:
        """The user's rows, checked, their columns in order and standardised."""
        X = check_rows(self.columns.in_order(X))
        n_features = self._problem.features.n_features
        if X.shape[1] != n_features:
            raise ValueError(f"X has {X.shape[1]} features, but the atlas was made with {n_features}")
        return self.columns.standardized(X)

    def estimator(self, C_pos: float, C_neg: float) -> AsymmetricSVC | Pipeline:
        """Make a fitted classifier for a pair of finite costs.

        Parameters
        ----------
        C_pos, C_neg : float
            Costs in the region.

        Returns
        -------
        AsymmetricSVC or Pipeline
            As if fitted to the data of the atlas, with nothing solved again. If the atlas was standardised: a pipeline of a
            ``StandardScaler`` and an ``AsymmetricSVC``.

        """
        solution = self._solution(C_pos, C_neg)
        model = make_classifier(self._problem, solution, float(C_pos), float(C_neg))._checked()
        return self.columns.before(model)

    def _solution(self, C_pos: float, C_neg: float) -> Solution:
        """The solution at a pair of finite costs."""
        (p, q), scalar = self._check_costs(C_pos, C_neg)
        if not (scalar and np.isfinite(p[0]) and np.isfinite(q[0])):
            raise ValueError(f"a classifier needs two finite costs, got {shown(C_pos)} and {shown(C_neg)}")
        return self._solver.at(self._problem.homogeneous(p, q))

    def _weights(self, C_pos: Any, C_neg: Any) -> tuple[tuple[Floats, Floats], bool]:
        """Coefficients and intercepts of a linear kernel for standardised rows, and whether the costs are scalars."""
        if not self._problem.features.linear:
            raise ValueError("there are coefficients for the linear kernel only: use decision_function or alpha")
        (coef, intercept), scalar = self._models(C_pos, C_neg)
        return (coef, intercept), scalar

    def _models(self, C_pos: Any, C_neg: Any) -> tuple[tuple[Floats, ...], bool]:
        """What is reported (see ``Problem.report``), and whether the costs are scalars."""
        (p, q), scalar = self._check_costs(C_pos, C_neg)
        finite = np.isfinite(p) & np.isfinite(q)
        weights = self._report(p[finite], q[finite])
        if finite.all():
            return weights, scalar
        models = tuple(np.empty((p.size, *array.shape[1:])) for array in weights)
        for model, array in zip(models, weights, strict=True):
            model[finite] = array
        for k in np.flatnonzero(~finite):
            far = self._solver.limit(p[k], q[k])
            for model, array in zip(models, self._problem.report(far.beta[None], far.lossless[None]), strict=True):
                model[k] = array[0]
        return models, scalar

    def _report(self, p: Floats, q: Floats) -> tuple[Floats, ...]:
        """What is reported of the solutions at finite costs; with a warning where that is inaccurate."""
        c = self._problem.homogeneous(p, q)
        solution = self._solver.at(c)
        weights = self._problem.report(solution.beta, solution.lossless)
        warn_if_inaccurate(user_gaps(self._problem, solution, c, weights), p, q, self._problem.features.linear)
        return weights

    @cached_property
    def _region(self) -> Region:
        return make_region(self.region, self._problem.cost_exponent)

    @cached_property
    def _solver(self) -> Solver:
        return Solver(self._problem, self._canonical, self._region, self.complete)

    @property
    def _locator(self) -> Locator:
        return self._solver.locator

    def _check_costs(self, C_pos: Any, C_neg: Any) -> tuple[tuple[Floats, Floats], bool]:
        return check_costs(self.region, C_pos, C_neg)

    # Files

    def save(self, path: Any) -> None:
        """Write the atlas to one file, for :func:`svmatlas.load`.

        An older file of that name stays whole until the new one is. An atlas with a callable as kernel cannot be saved.

        Parameters
        ----------
        path : str or path-like
            The file.

        """
        save(self, path)

    def export(self, folder: Any, format: str = "parquet") -> None:
        """Write tables of the vertices, edges and facets for other programs.

        Parameters
        ----------
        folder : str or path-like
            Where ``vertices``, ``edges`` and ``facets`` are put; it is made if need be.
        format : {"parquet", "csv", "geojson"}, default="parquet"
            Format of the tables; "parquet" needs pyarrow. Lists of a facet's edges and vertices are written with
            spaces between them in "csv". "geojson" is one file of polygons, ``facets.geojson``, with coordinates
            (C+, C-) / (1 + C+ + C-): the whole quadrant is a triangle, infinity included, and edges are straight.

        """
        export(self, folder, format)

    def validate(
        self, n_costs: int = 1000, random_state: Any = 0, progress: bool = False, n_jobs: int | None = None
    ) -> Report:
        """Check the whole map: topology, geometry, KKT conditions at all corners, and duality gaps at random costs.

        Parameters
        ----------
        n_costs : int, default=1000
            Number of random costs, log-uniform in [1e-6, 1e6] (within the region), at which the duality gap is measured.
        random_state : int, RandomState or None, default=0
            Seed of these costs.
        progress : bool, default=False
            Show a progress bar (needs tqdm).
        n_jobs : int, optional
            Number of threads; -1 for all cores. Default: 1.

        """
        return validate(self, n_costs, random_state, progress, n_jobs)

    certify = certify_map


def check_costs(region: Bounds, C_pos: Any, C_neg: Any) -> tuple[tuple[Floats, Floats], bool]:
    """The user's costs as arrays (n,), and whether they are scalars; ValueError if they are not costs in a region."""
    p, q = np.asarray(C_pos, dtype=float), np.asarray(C_neg, dtype=float)
    scalar = p.ndim == 0 and q.ndim == 0
    if p.ndim > 1 or q.ndim > 1:
        raise ValueError("costs must be scalars or one-dimensional arrays")
    try:
        p, q = np.broadcast_arrays(np.atleast_1d(p), np.atleast_1d(q))
    except ValueError:
        raise ValueError(f"C_pos and C_neg must have the same length, got {p.size} and {q.size}") from None
    for name, values, (lo, hi) in (("C_pos", p, region[0]), ("C_neg", q, region[1])):
        wrong = ~((values >= lo) & (values <= hi))
        if np.any(wrong):
            raise ValueError(f"{name} = {values[np.argmax(wrong)]} is not a cost in the region [{lo}, {hi}]")
    return (p, q), scalar


def _fixed(array: Array) -> Array:
    """A view that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def load(path: str | os.PathLike[str]) -> Atlas:
    """Open an atlas that was saved by :meth:`Atlas.save`.

    The file is checked in full; then its arrays are mapped into memory and read when they are needed, so the file must
    stay in place (another save to the same name is fine).

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    Atlas

    Raises
    ------
    FileError
        If the file is not an atlas, not whole, or was altered.

    """
    stored = read(path)
    atlas = Atlas(stored.problem, stored.bounds, stored.canonical, stored.complete, stored.counts)
    atlas.notes.update(stored.notes)
    return atlas

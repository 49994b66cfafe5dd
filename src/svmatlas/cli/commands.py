"""What the commands do."""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse

import svmatlas
from svmatlas.cli.tables import DataError, Table, Wanted, read_table
from svmatlas.data.columns import match_names, standardize_columns
from svmatlas.support.progress import make_bar
from svmatlas.support.writing import check_goal, replacing

if TYPE_CHECKING:
    Map = svmatlas.Atlas | svmatlas.AtlasStore

OK, NO = 0, 1
"""Exit codes: done; done, but the answer is no (not valid, not complete, not certified)."""

MOST_JOINED = 2_000_000
"""Pieces up to which a store is joined for its picture, so that it has layers and edges: some seconds."""


def _explore(arguments: argparse.Namespace) -> int:
    if arguments.resume is not None:
        return _resume(arguments)
    if arguments.data is None:
        raise DataError("explore needs DATA, or --resume and a folder")
    if arguments.output is not None:
        check_goal(arguments.output)
    table = _read(arguments)
    begin = time.perf_counter()
    with _about(arguments.data):
        atlas = svmatlas.explore(
            table.X, table.y, standardize=arguments.standardize, feature_names=table.names, **_model(arguments, table),
            region=_pairs(arguments.region), start=arguments.start, store=arguments.store, **_limits(arguments),
        )  # fmt: skip
    if arguments.output is not None:
        atlas.save(arguments.output)
    return _explored(arguments, atlas, arguments.output or arguments.store, time.perf_counter() - begin)


def _resume(arguments: argparse.Namespace) -> int:
    if arguments.data is not None:
        raise DataError("--resume takes no DATA: they are in the store")
    begin = time.perf_counter()
    store = svmatlas.resume(arguments.resume, **_limits(arguments))
    return _explored(arguments, store, arguments.resume, time.perf_counter() - begin)


def _limits(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "max_facets": arguments.max_facets, "time_budget": arguments.time_budget, "n_jobs": arguments.jobs,
        "progress": _progress(arguments),
    }  # fmt: skip


def _explored(arguments: argparse.Namespace, found: Map, goal: str, seconds: float) -> int:
    _report(
        arguments,
        {"map": goal, "seconds": seconds} | _sizes(found),
        f"{found!r}\nexplored in {seconds:.1f} s, written to {goal}",
    )
    return OK if found.complete else NO


def _open(path: str) -> Map:
    """A map, in a file or in a folder."""
    return svmatlas.open(path) if Path(path).is_dir() else svmatlas.load(path)


def _whole(path: str) -> svmatlas.Atlas:
    """A map in memory."""
    return svmatlas.open(path).atlas() if Path(path).is_dir() else svmatlas.load(path)


def _info(arguments: argparse.Namespace) -> int:
    atlas = _open(arguments.map)
    features = atlas._problem.features
    facts = _sizes(atlas) | {
        "rows": int(atlas._problem.point.size), "features": features.n_features, "labels": atlas.classes_.tolist(),
        "bias": features.bias, "kernel": features.kernel.name, "region": atlas.region, "names": atlas.columns.names,
        "standardized": atlas.columns.scale is not None,
    }  # fmt: skip
    text = [
        repr(atlas),
        f"data    {facts['rows']} rows, {facts['features']} features{', standardized' * facts['standardized']}",
        f"labels  {atlas.classes_[1]} positive (cost C+), {atlas.classes_[0]} negative (cost C-)",
        "region  " + ", ".join(f"{lo:g} <= {c} <= {hi:g}" for c, (lo, hi) in zip(("C+", "C-"), atlas.region, strict=True)),
        f"bias    {features.bias:g}",
    ]
    if isinstance(atlas, svmatlas.AtlasStore):
        now = atlas.progress()
        facts |= now._asdict()
        text += _progress_text(now)
    _report(arguments, facts, "\n".join(text))
    return OK


def _progress_text(now: Any) -> list[str]:
    """How far a store is."""
    state = (
        "finished" if now.complete else "a process explores into it" if now.running else "stopped: explore --resume goes on"
    )
    text = [
        f"tiles   {now.n_done} of {now.n_tiles} done, {100 * now.share:.1f} % of the region; {state}",
        f"pieces  {now.n_pieces} explored, {now.n_bytes / 2**20:.4g} MiB on disk",
    ]
    if math.isfinite(now.rate):
        left = "" if now.complete else f", about {now.seconds_left:.3g} s left"
        text.append(f"rate    {now.rate:.3g} pieces a second{left}")
    return text


def _at(arguments: argparse.Namespace) -> int:
    atlas = _open(arguments.map)
    C_pos, C_neg = arguments.costs
    if arguments.predict:
        return _predict(arguments, atlas)
    coef, intercept = atlas.coef(C_pos, C_neg), atlas.intercept(C_pos, C_neg)
    facet = atlas.locate(C_pos, C_neg)
    counts = {name: rows.size for name, rows in atlas.partition(facet)._asdict().items()}
    layer = {"layer": atlas.facet_layer[facet]} if isinstance(atlas, svmatlas.Atlas) else {}
    facts = {"C_pos": C_pos, "C_neg": C_neg, "facet": facet} | layer | counts
    facts |= {"intercept": intercept, "coef": dict(zip(_names(atlas), coef, strict=True))}
    where = f"facet {facet} in layer {facts['layer']}" if layer else f"facet {facet}"
    text = [
        f"{where}: {counts['margin']} rows on the margin, {counts['inside']} inside it, {counts['outside']} outside it",
        f"intercept\t{intercept:.17g}",
        *(f"{name}\t{value:.17g}" for name, value in facts["coef"].items()),
    ]
    _report(arguments, facts, "\n".join(text))
    return OK


def _predict(arguments: argparse.Namespace, atlas: Map) -> int:
    wanted = Wanted(atlas._problem.features.n_features, atlas.columns.names)
    table = read_table(arguments.predict, arguments.label, arguments.format, wanted)
    decision = atlas.decision_function(table.X, *arguments.costs)
    labels = atlas.classes_[(decision > 0).astype(int)].tolist()
    _report(arguments, {"labels": labels, "decision": decision}, "\n".join(map(str, labels)))
    return OK


def _ray(arguments: argparse.Namespace) -> int:
    table = _read(arguments)
    limit = {} if arguments.max_cost is None else {"C_max": arguments.max_cost}
    with _about(arguments.data):
        path = svmatlas.ray(
            _rows(table, arguments), table.y, ratio=arguments.ratio, progress=_progress(arguments), **limit,
            **_model(arguments, table),
        )  # fmt: skip
    events = [
        {"C_neg": float(C), "row": int(row), "type": int(kind)}
        for C, (row, kind) in zip(path.breakpoints, path.events, strict=True)
    ]
    lines = ["C_neg,row,type", *(f"{e['C_neg']!r},{e['row']},{e['type']}" for e in events)]
    _report(arguments, {"ratio": arguments.ratio, "events": events}, "\n".join(lines))
    return OK


def _select(arguments: argparse.Namespace) -> int:
    table = _read(arguments)
    with _about(arguments.data):
        selection = svmatlas.select(
            table.X, table.y, cv=_folds(arguments.cv, arguments.groups is not None), scoring=arguments.scoring,
            groups=None if arguments.groups is None else table.aside[-1], rule=arguments.rule,
            preprocessor=_scaler(table) if arguments.standardize else None, region=_pairs(arguments.region),
            time_budget=arguments.time_budget, tolerance=arguments.tolerance, threshold=arguments.threshold,
            n_jobs=arguments.jobs, progress=_progress(arguments), proof=arguments.proof, **_model(arguments, table),
        )  # fmt: skip
    facts = {
        "scoring": arguments.scoring, "best_score": selection.best_score, "score": selection.score,
        "C_pos": selection.C_pos, "C_neg": selection.C_neg,
        "upper_bound": selection.upper_bound, "certified": selection.certified, "fold_scores": selection.fold_scores,
        "positive": selection.classes_[1],
        "n_cells": len(selection.cells), "n_curves": selection.n_curves,
        "threshold": selection.threshold, "threshold_score": selection.threshold_score,
    }  # fmt: skip
    proof = (
        "no costs do better" if selection.certified else f"stopped early: no costs do better than {selection.upper_bound:.6f}"
    )
    chosen = "" if selection.score == selection.best_score else f", with {selection.score:.6f}"
    text = [
        f"best {arguments.scoring}  {selection.best_score:.6f}  ({proof})",
        f"at costs C+ = {selection.C_pos:.6g}, C- = {selection.C_neg:.6g}{chosen}; {selection.classes_[1]} is positive",
        f"optimal cells: {len(selection.cells)}",
    ]
    if arguments.threshold is not None:
        text.append(f"decision threshold {selection.threshold:.6g}, with {selection.threshold_score:.6f}")
    _report(arguments, facts, "\n".join(text))
    return OK if selection.certified else NO


def _estimate(arguments: argparse.Namespace) -> int:
    table = _read(arguments)
    budget = {} if arguments.time_budget is None else {"time_budget": arguments.time_budget}
    with _about(arguments.data):
        found = svmatlas.estimate(
            table.X, table.y, standardize=arguments.standardize, region=_pairs(arguments.region), **budget,
            **_model(arguments, table), progress=_progress(arguments), n_jobs=arguments.jobs,
        )  # fmt: skip
    _report(arguments, vars(found) | {"disk_bytes": found.disk_bytes}, str(found))
    return OK


def _export(arguments: argparse.Namespace) -> int:
    _whole(arguments.map).export(arguments.output, arguments.format)
    _report(arguments, {"folder": arguments.output, "format": arguments.format}, f"written to {arguments.output}")
    return OK


def _plot(arguments: argparse.Namespace) -> int:
    check_goal(arguments.output)
    from svmatlas.show.displays import AtlasDisplay, use_files

    use_files()
    atlas = _open(arguments.map)
    if isinstance(atlas, svmatlas.AtlasStore) and atlas.n_pieces <= MOST_JOINED and atlas.complete:
        atlas = atlas.atlas()
    display = AtlasDisplay.from_atlas(
        atlas, color_by=arguments.color_by, scale=arguments.scale, limits=_pairs(arguments.limits),
        events=arguments.events, rays=arguments.ray,
    )  # fmt: skip
    with replacing(arguments.output) as draft:
        display.figure_.savefig(draft, format=Path(arguments.output).suffix[1:] or "png", dpi=arguments.dpi)
    _report(arguments, {"picture": arguments.output}, f"written to {arguments.output}")
    return OK


def _page(arguments: argparse.Namespace) -> int:
    check_goal(arguments.output)
    atlas = _whole(arguments.map)
    held_out = _held_out(arguments, atlas) if arguments.data else {}
    atlas.page(
        arguments.output, region=_pairs(arguments.region), title=arguments.title or Path(arguments.map).stem, **held_out
    )
    _report(arguments, {"page": arguments.output, "facets": atlas.n_facets}, f"written to {arguments.output}")
    return OK


def _held_out(arguments: argparse.Namespace, atlas: svmatlas.Atlas) -> dict[str, Any]:
    """Rows and labels of a file, columns in the order of the map."""
    table = _read(arguments)
    X, names, y = table.X, atlas.columns.names, np.asarray(table.y)
    with _about(arguments.data):
        if names is not None and table.names is not None:
            X = X[:, match_names(names, table.names)]
    if np.isin(y, atlas.classes_).all():
        return {"X_test": X, "y_test": y}
    raise DataError(f"{arguments.data}: labels are not those of the map, {atlas.classes_[0]} and {atlas.classes_[1]}")


def _validate(arguments: argparse.Namespace) -> int:
    atlas = _open(arguments.map)
    report = atlas.validate(n_costs=arguments.costs, progress=_progress(arguments), n_jobs=arguments.jobs)
    _report(arguments, vars(report), str(report))
    return OK if report.ok else NO


def _certify(arguments: argparse.Namespace) -> int:
    table = None if arguments.data is None else _read(arguments)
    X, y, weights = (None, None, None) if table is None else (table.X, table.y, _weights(arguments, table))
    is_store = Path(arguments.map).is_dir()
    bar: Any = make_bar(" tiles" if is_store else " facets") if _progress(arguments) else nullcontext()
    with bar as shown, _about(arguments.data or arguments.map):

        def advance(done: int, total: int) -> None:
            shown.total = total
            shown.update(done - shown.n)

        subject = svmatlas.open(arguments.map) if is_store else arguments.map
        report = svmatlas.certify(subject, X, y, weights, advance if shown is not None else None, arguments.jobs)
    _report(arguments, vars(report), str(report))
    return OK if report.ok else NO


def _compile(arguments: argparse.Namespace) -> int:
    from svmatlas.cli.prepare import compile_all

    if not arguments.quiet:
        print("compiling the kernels, once (a minute at most) ...", file=sys.stderr)
    begin = time.perf_counter()
    compile_all()
    seconds = time.perf_counter() - begin
    _report(arguments, {"seconds": seconds}, f"kernels compiled in {seconds:.1f} s")
    return OK


def _demo(arguments: argparse.Namespace) -> int:
    from svmatlas.cli.demo import run

    run(Path(arguments.output), progress=_progress(arguments))
    return OK


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "explore": _explore, "info": _info, "at": _at, "ray": _ray, "select": _select, "estimate": _estimate, "export": _export,
    "plot": _plot, "page": _page, "validate": _validate, "certify": _certify, "compile": _compile, "demo": _demo,
}  # fmt: skip


# ----------------------------------------------------------------------------------------------------------------------
# Helpers


def _read(arguments: argparse.Namespace) -> Table:
    """The data; weights come first of what is put aside, groups last."""
    aside = [
        column for column in (getattr(arguments, "weights", None), getattr(arguments, "groups", None)) if column is not None
    ]
    table = read_table(arguments.data, arguments.label, arguments.format, aside=aside)
    n = len(np.unique(table.y)) if table.y is not None else 0
    if n != 2:
        raise DataError(f"{arguments.data}: two labels are needed, the column of labels has {n}")
    return table


def _model(arguments: argparse.Namespace, table: Table) -> dict[str, Any]:
    """What all functions that take data are told of the model."""
    return {
        "bias": arguments.bias, "random_state": arguments.seed, "kernel": arguments.kernel, "gamma": arguments.gamma,
        "degree": arguments.degree, "coef0": arguments.coef0, "sample_weight": _weights(arguments, table),
        "pos_label": _positive(arguments, table),
    }  # fmt: skip


def _weights(arguments: argparse.Namespace, table: Table) -> Any:
    """The weights of the rows, or None."""
    weights = None if arguments.weights is None else table.aside[0]
    if weights is not None and weights.dtype.kind not in "biuf":
        raise DataError(f"{arguments.data}, column {arguments.weights}: weights must be numbers")
    return weights


def _positive(arguments: argparse.Namespace, table: Table) -> Any:
    """The positive label as the data have it; None by default."""
    if arguments.positive is None:
        return None
    labels = np.unique(table.y).tolist()  # type: ignore[arg-type]
    for label in labels:
        if str(label) == arguments.positive or _same_number(label, arguments.positive):
            return label
    raise DataError(f"{arguments.data}: no label {arguments.positive!r}; the labels are {labels[0]!r} and {labels[1]!r}")


def _same_number(label: Any, text: str) -> bool:
    try:
        return not isinstance(label, str) and float(text) == label
    except ValueError:
        return False


def _scaler(table: Table) -> Any:
    from sklearn.preprocessing import StandardScaler

    return StandardScaler(with_mean=not issparse(table.X))


def _rows(table: Table, arguments: argparse.Namespace) -> Any:
    """The features, standardised over all rows if that is asked for."""
    if not arguments.standardize:
        return table.X
    return standardize_columns(table.X, np.ones(table.X.shape[0]), table.names).standardized(table.X)


def _names(atlas: Map) -> Sequence[str]:
    return atlas.columns.names or [str(j) for j in range(atlas._problem.features.n_features)]


def _pairs(four: Sequence[float] | None) -> tuple[tuple[float, float], tuple[float, float]] | None:
    return None if four is None else ((four[0], four[1]), (four[2], four[3]))


def _folds(text: str, grouped: bool) -> Any:
    """Folds of --cv, with groups that are not torn if there are any."""
    from sklearn.model_selection import GroupShuffleSplit, StratifiedGroupKFold

    try:
        n = int(text)
        return StratifiedGroupKFold(n) if grouped else n
    except ValueError:
        pass
    try:
        share = float(text)
        return GroupShuffleSplit(1, test_size=share, random_state=0) if grouped else share
    except ValueError:
        raise ValueError(f"--cv must be a number of folds or a share to hold out, got {text!r}") from None


def _progress(arguments: argparse.Namespace) -> bool:
    """A bar for people who watch: standard error is a terminal, and tqdm is installed."""
    if arguments.quiet or not sys.stderr.isatty():
        return False
    from importlib.util import find_spec

    return find_spec("tqdm") is not None


def _sizes(atlas: Map) -> dict[str, Any]:
    sizes = {name: getattr(atlas, name) for name in ("complete", "n_facets", "n_edges", "n_vertices")}
    return sizes | ({"n_layers": atlas.n_layers} if isinstance(atlas, svmatlas.Atlas) else {"n_tiles": atlas.n_tiles})


def _report(arguments: argparse.Namespace, facts: dict[str, Any], text: str) -> None:
    """The result, for programs or for people."""
    print(json.dumps(plain(facts), allow_nan=False) if arguments.json else text)


def plain(value: Any) -> Any:
    """A value as JSON knows it; infinity and NaN are null."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def _about(source: str) -> Iterator[None]:
    """Errors say which file they are about."""
    try:
        yield
    except DataError:  # it does
        raise
    except ValueError as error:
        raise DataError(f"{source}: {error}") from None

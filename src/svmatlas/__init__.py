"""svmatlas: the whole map of every asymmetric-cost linear SVM, exactly."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from svmatlas.version import __version__

if TYPE_CHECKING:
    from svmatlas import plot, scoring
    from svmatlas.atlas.atlas import Atlas, load
    from svmatlas.atlas.budget import Estimate
    from svmatlas.atlas.checker import certify
    from svmatlas.atlas.explore import explore
    from svmatlas.atlas.facets import Facet, Partition
    from svmatlas.atlas.opened import AtlasStore
    from svmatlas.atlas.opened import open_store as open
    from svmatlas.atlas.storing import resume
    from svmatlas.atlas.stream import estimate, tiles
    from svmatlas.atlas.validate import Report
    from svmatlas.choose.cells import Cell
    from svmatlas.choose.roc import Frontier, roc_frontier
    from svmatlas.choose.select import Selection, select
    from svmatlas.data.columns import Columns
    from svmatlas.engine.tile import EngineError
    from svmatlas.estimators.atlas_svc import AtlasSVC
    from svmatlas.estimators.crossval import AsymmetricSVCCV
    from svmatlas.models.gap import AccuracyWarning
    from svmatlas.models.svc import AsymmetricSVC
    from svmatlas.paths.ray import Path, ray, segment
    from svmatlas.proof.certify import Certificate
    from svmatlas.proof.reading import ProofError
    from svmatlas.support.arrays import FileError

_HOMES = {
    "atlas.atlas": ("Atlas", "load"),
    "atlas.facets": ("Facet", "Partition"),
    "atlas.budget": ("Estimate",),
    "atlas.checker": ("certify",),
    "atlas.explore": ("explore",),
    "atlas.opened": ("AtlasStore",),
    "atlas.storing": ("resume",),
    "atlas.stream": ("estimate", "tiles"),
    "atlas.validate": ("Report",),
    "choose.cells": ("Cell",),
    "choose.roc": ("Frontier", "roc_frontier"),
    "choose.select": ("Selection", "select"),
    "data.columns": ("Columns",),
    "engine.tile": ("EngineError",),
    "estimators.atlas_svc": ("AtlasSVC",),
    "estimators.crossval": ("AsymmetricSVCCV",),
    "models.gap": ("AccuracyWarning",),
    "models.svc": ("AsymmetricSVC",),
    "paths.ray": ("Path", "ray", "segment"),
    "proof.certify": ("Certificate",),
    "proof.reading": ("ProofError",),
    "support.arrays": ("FileError",),
}
"""Where public names live. They are imported at their first use: numba and scikit-learn take seconds on a slow machine."""

_MODULES = ("plot", "scoring")

__all__ = [
    "AccuracyWarning",
    "AsymmetricSVC",
    "AsymmetricSVCCV",
    "Atlas",
    "AtlasSVC",
    "AtlasStore",
    "Cell",
    "Certificate",
    "Columns",
    "EngineError",
    "Estimate",
    "Facet",
    "FileError",
    "Frontier",
    "Partition",
    "Path",
    "ProofError",
    "Report",
    "Selection",
    "__version__",
    "certify",
    "estimate",
    "explore",
    "load",
    "open",
    "plot",
    "ray",
    "resume",
    "roc_frontier",
    "scoring",
    "segment",
    "select",
    "tiles",
]


def __getattr__(name: str) -> Any:
    """Import a public name at its first use."""
    if name in _MODULES:
        return import_module(f"svmatlas.{name}")
    if name == "open":  # in its module the name is that of Python
        return import_module("svmatlas.atlas.opened").open_store
    for home, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(f"svmatlas.{home}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'svmatlas' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

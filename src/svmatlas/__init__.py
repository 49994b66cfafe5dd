"""svmatlas: the whole map of every asymmetric-cost linear SVM, exactly."""

from svmatlas.atlas import Atlas, Facet, Partition
from svmatlas.budget import Estimate
from svmatlas.cells import Cell
from svmatlas.columns import Columns
from svmatlas.crossval import AsymmetricSVCCV
from svmatlas.estimators import AsymmetricSVC, AtlasSVC
from svmatlas.explore import explore
from svmatlas.files import FileError, load
from svmatlas.gap import AccuracyWarning
from svmatlas.layers import EngineError
from svmatlas.ray import Path, ray, segment
from svmatlas.roc import Frontier, roc_frontier
from svmatlas.select import Selection, select
from svmatlas.stream import estimate, tiles
from svmatlas.validate import Report
from svmatlas.version import __version__

__all__ = [
    "AccuracyWarning",
    "AsymmetricSVC",
    "AsymmetricSVCCV",
    "Atlas",
    "AtlasSVC",
    "Cell",
    "Columns",
    "EngineError",
    "Estimate",
    "Facet",
    "FileError",
    "Frontier",
    "Partition",
    "Path",
    "Report",
    "Selection",
    "__version__",
    "estimate",
    "explore",
    "load",
    "ray",
    "roc_frontier",
    "segment",
    "select",
    "tiles",
]

"""svmatlas: the whole map of every asymmetric-cost linear SVM, exactly."""

from svmatlas.atlas import Atlas, Facet, Partition
from svmatlas.estimators import AsymmetricSVC, AtlasSVC
from svmatlas.explore import explore
from svmatlas.files import FileError, load
from svmatlas.layers import EngineError
from svmatlas.validate import Report
from svmatlas.version import __version__

__all__ = [
    "AsymmetricSVC",
    "Atlas",
    "AtlasSVC",
    "EngineError",
    "Facet",
    "FileError",
    "Partition",
    "Report",
    "__version__",
    "explore",
    "load",
]

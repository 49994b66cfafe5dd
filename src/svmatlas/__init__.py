"""svmatlas: the whole map of every asymmetric-cost linear SVM, exactly."""

from svmatlas.atlas import Atlas, Partition
from svmatlas.explore import explore
from svmatlas.layers import EngineError
from svmatlas.ray import Path, ray, segment
from svmatlas.select import Cell, Selection, select
from svmatlas.validate import Report
from svmatlas.version import __version__

__all__ = [
    "Atlas", "Cell", "EngineError", "Partition", "Path", "Report", "Selection", "__version__", "explore", "ray", "segment",
    "select",
]  # fmt: skip

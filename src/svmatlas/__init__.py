"""svmatlas: the whole map of every asymmetric-cost linear SVM, exactly."""

from svmatlas.atlas import Atlas, Partition
from svmatlas.explore import explore
from svmatlas.validate import Report

__all__ = ["Atlas", "Partition", "Report", "explore"]
__version__ = "0.1.0"

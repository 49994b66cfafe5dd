"""svmatlas: the whole map of every asymmetric-cost linear SVM, exactly."""

from svmatlas.atlas.atlas import Atlas, Facet, Partition, load
from svmatlas.atlas.budget import Estimate
from svmatlas.atlas.explore import explore
from svmatlas.atlas.files import FileError
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
from svmatlas.proof.certify import Certificate, certify
from svmatlas.proof.reading import ProofError
from svmatlas.version import __version__

__all__ = [
    "AccuracyWarning",
    "AsymmetricSVC",
    "AsymmetricSVCCV",
    "Atlas",
    "AtlasSVC",
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
    "ray",
    "roc_frontier",
    "segment",
    "select",
    "tiles",
]

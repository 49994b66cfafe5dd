"""Pictures of the plane of costs (extra ``plot``), in scikit-learn's Display convention."""

from svmatlas.show.displays import AlphaDisplay, AtlasDisplay, RocFrontierDisplay, SelectionDisplay, use_files

__all__ = ["AlphaDisplay", "AtlasDisplay", "RocFrontierDisplay", "SelectionDisplay", "use_files"]

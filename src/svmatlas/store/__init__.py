"""A map on disk, tile by tile: the problem, the files of tiles, the manifest of the run."""

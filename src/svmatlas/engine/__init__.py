"""Compiled: one partition -> lines -> polygon -> layers of facets -> mesh -> the map of the data. Knows arrays, not users."""

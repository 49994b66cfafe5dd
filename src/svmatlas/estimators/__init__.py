"""Classifiers for scikit-learn that hold a map, or choose their costs."""

"""Scores on held-out rows -> the best costs and the ROC frontier, exactly."""

"""Random maps for the checker: those of ``hostile``, explored whole as far as they are small, each certified on its rows.

``trial(seed)`` returns what happened in a word: certified, refused by ``explore`` and why, or refused by the checker after a
warning, of ``explore`` or of the model at the place. A map that is refused without a warning is an AssertionError.
"""

from __future__ import annotations

import warnings

import numpy as np

import svmatlas
from tests import hostile


def trial(seed):
    """What happened."""
    case = hostile.make(seed)
    arguments = {**case.arguments, "max_facets": max(400, case.arguments["max_facets"])}
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", svmatlas.AccuracyWarning)
            atlas = svmatlas.explore(case.X, case.y, time_budget=20.0, **arguments)
    except (ValueError, MemoryError) as error:
        return hostile.refusal(error)
    found = svmatlas.certify(atlas, case.X, case.y, sample_weight=arguments["sample_weight"])
    if found.ok:
        return "certified" if found.complete else "certified, partial"
    assert said or warns(atlas, found), str(found)
    return "refused, after a warning of explore" if said else "refused, and its models warn"


def warns(atlas, found):
    """Whether a model of the map says that it is inaccurate, at the costs where the checker finds the map worst."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", svmatlas.AccuracyWarning)
        try:
            atlas.alpha(*np.clip(found.costs, *np.transpose(atlas.region)))
        except svmatlas.AccuracyWarning:
            return True
    return False

"""The checker (:mod:`svmatlas.proof`) as the package calls it: BLAS has one thread, for the checker has its own.

Its products are small. Threads of BLAS would wait in a loop for the next one, on the cores that its own threads need.
"""

from __future__ import annotations

from typing import Any

from svmatlas.proof.certify import Certificate
from svmatlas.proof.certify import certify as check
from svmatlas.support.threads import limit_blas

certify = limit_blas()(check)


def certify_map(
    atlas: Any, X: Any = None, y: Any = None, sample_weight: Any = None, progress: Any = None, n_jobs: int | None = None
) -> Certificate:
    """Prove that the map is right for given data, that of a store tile by tile; see :func:`svmatlas.certify`."""
    report = certify(atlas, X, y, sample_weight, progress, n_jobs)
    assert isinstance(report, Certificate)
    return report

"""Polygons of homogeneous costs, in doubles."""

from __future__ import annotations

from svmatlas.engine.compiled import kernel


@kernel
def triple_product(a, b, c):
    """a.(b x c), which is twice the area of a triangle of costs, and the sum of the sizes of its terms."""
    det = a[0] * (b[1] * c[2] - b[2] * c[1]) + a[1] * (b[2] * c[0] - b[0] * c[2]) + a[2] * (b[0] * c[1] - b[1] * c[0])
    size = a[0] * (b[1] * c[2] + b[2] * c[1]) + a[1] * (b[2] * c[0] + b[0] * c[2]) + a[2] * (b[0] * c[1] + b[1] * c[0])
    return det, size

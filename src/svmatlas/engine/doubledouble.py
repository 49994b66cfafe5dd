"""Arithmetic with twice the precision of a double: a number is an unevaluated sum ``hi + lo``.

The error-free transformations are Knuth's two-sum and the product by a fused multiply-add (Ogita, Rump and Oishi,
"Accurate sum and dot product", 2005). The order of operations is the algorithm: these may not be compiled with reassociation.
"""

from __future__ import annotations

from fractions import Fraction
from math import isfinite

from numba import types

from svmatlas.engine.compiled import instruction, kernel

UNIT = 2.0**-53
"""Unit roundoff of a double."""
UNIT_DD = 2.0**-102
"""Relative error of one double-double operation (the textbook bounds are 2^-104 to 2^-102.4)."""


def _fma_in_python(a: float, b: float, c: float) -> float:
    """``a * b + c``, rounded once."""
    if not (isfinite(a) and isfinite(b) and isfinite(c)):
        return a * b + c
    return float(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)))


@instruction(_fma_in_python)
def _fma(typingctx, a, b, c):
    def codegen(context, builder, signature, args):
        return builder.fma(*args)

    return types.float64(types.float64, types.float64, types.float64), codegen


@kernel
def two_sum(a, b):
    """``a + b`` as rounded sum and exact error."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@kernel
def two_prod(a, b):
    """``a * b`` as rounded product and exact error."""
    p = a * b
    return p, _fma(a, b, -p)


@kernel
def dd_add(ah, al, bh, bl):
    """Sum of two double-doubles."""
    s, e = two_sum(ah, bh)
    t, f = two_sum(al, bl)
    s, e = two_sum(s, e + t)
    return two_sum(s, e + f)


@kernel
def dd_mul(ah, al, bh, bl):
    """Product of two double-doubles."""
    p, e = two_prod(ah, bh)
    return two_sum(p, e + (ah * bl + al * bh))


@kernel
def dd_axpy(sh, sl, x, yh, yl):
    """``s + x * y`` for a double x and double-doubles s and y."""
    p, e = two_prod(x, yh)
    return dd_add(sh, sl, p, e + x * yl)

"""A header and arrays -> compressed bytes that a page decompresses (page/unpack.js).

Numbers of one kind resemble each other in their first bytes, so an array is stored by planes: the first bytes of all its
entries, then the second, and so on. Numbers that rise or wander are stored as differences.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

KINDS = {"float64": "f8", "float32": "f4", "int32": "i4", "int16": "i2", "int8": "i1", "uint8": "u1"}

LEVEL = 6
"""Of compression: higher ones take several times as long and save about one percent."""


def pack(header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Compressed bytes of a header, as JSON knows it, and arrays by name."""
    entries, parts = [], []
    for name, array in arrays.items():
        deltas = array.dtype == np.int32
        flat = np.ascontiguousarray(array).ravel()
        stored = np.diff(flat, prepend=flat.dtype.type(0)) if deltas else flat
        entries.append({"name": name, "kind": KINDS[flat.dtype.name], "count": flat.size, "deltas": deltas})
        parts.append(stored.view(np.uint8).reshape(flat.size, flat.itemsize).T.tobytes())
    text = json.dumps({**header, "arrays": entries}, allow_nan=False).encode()
    packer = zlib.compressobj(LEVEL, wbits=-15)
    return b"".join(map(packer.compress, [len(text).to_bytes(4, "little"), text, *parts])) + packer.flush()

"""Named arrays in one file: plain numbers behind a JSON header, nothing that could run.

    8 bytes   the kind of file
    8 bytes   length of the header, little-endian
    32 bytes  BLAKE2b digest of the header
    header    JSON: what the writer says; name, type, shape and place of each array; digest and length of the body
    body      the arrays, each at a multiple of 64 bytes from the beginning of the body

Every byte is covered by a digest, so that a file that was cut, altered or is foreign gives an error, never a wrong number.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

ALIGN = 64
"""Arrays begin at multiples of this, as vector instructions like it."""

PREFIX = 8 + 8 + 32
"""Bytes before the header."""

KINDS = "biufU"
"""Kinds of arrays in a file: numbers, truth values and text, never objects."""


class FileError(ValueError):
    """A file is not what it should be, or not whole."""


@contextmanager
def explained(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Errors while a file is read become a FileError with its path."""
    try:
        yield
    except FileError as error:
        raise FileError(f"{path} cannot be opened: {error}") from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise FileError(f"{path} {what}: {error}") from error


class Held(NamedTuple):
    """What a file holds."""

    header: dict[str, Any]
    arrays: dict[str, Array]


def write_arrays(file: IO[bytes], magic: bytes, header: dict[str, Any], arrays: dict[str, Array]) -> str:
    """Write contiguous arrays; returns the digest of the body."""
    places, end = {}, 0
    for name, array in arrays.items():
        places[name] = {"type": array.dtype.str, "shape": array.shape, "at": end}
        end += -(-array.nbytes // ALIGN) * ALIGN
    body = hashlib.blake2b(digest_size=32)
    for part in _parts(arrays):
        body.update(part)
    whole = header | {"arrays": places, "body": {"length": end, "digest": body.hexdigest()}}
    text = json.dumps(whole, allow_nan=False).encode()
    text += b" " * (-(PREFIX + len(text)) % ALIGN)
    file.write(magic + len(text).to_bytes(8, "little") + hashlib.blake2b(text, digest_size=32).digest() + text)
    for part in _parts(arrays):
        file.write(part)
    return body.hexdigest()


def _parts(arrays: dict[str, Array]) -> Iterator[memoryview | bytes]:
    """The bytes of the body."""
    for array in arrays.values():
        if array.nbytes:
            yield array.reshape(-1).view(np.uint8).data
        yield b"\0" * (-array.nbytes % ALIGN)


def digest_of(arrays: dict[str, Array], names: list[str]) -> str:
    """A digest of some arrays."""
    digest = hashlib.blake2b(digest_size=32)
    for name in names:
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()


def read_arrays(path: str | os.PathLike[str], magic: bytes, layout: int) -> Held:
    """What a file holds, checked in full; its arrays are mapped into memory. FileError if anything is wrong."""
    with open(path, "rb") as file:
        header, begin = _read_header(file, magic, layout)
        if os.fstat(file.fileno()).st_size != begin + header["body"]["length"]:
            raise FileError("it is cut off or has grown: it is not as long as it says")
        view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)  # writable for compiled code, which never writes
    if hashlib.blake2b(memoryview(view)[begin:], digest_size=32).hexdigest() != header["body"]["digest"]:
        raise FileError("it was altered: its arrays do not match their digest")
    return Held(header, {name: _array(view, begin, place) for name, place in header["arrays"].items()})


def _read_header(file: IO[bytes], magic: bytes, layout: int) -> tuple[dict[str, Any], int]:
    """The header, checked, and where the body begins."""
    prefix = file.read(PREFIX)
    if prefix[:8] != magic:
        raise FileError("it is not an atlas" if magic == b"SVMATLAS" else "it is a file of another kind")
    length = int.from_bytes(prefix[8:16], "little")
    if len(prefix) < PREFIX or length > os.fstat(file.fileno()).st_size - PREFIX:
        raise FileError("it is cut off")
    text = file.read(length)
    if hashlib.blake2b(text, digest_size=32).digest() != prefix[-32:]:
        raise FileError("it was altered: its header does not match its digest")
    header: dict[str, Any] = json.loads(text)
    if header["format"] != layout:
        raise FileError(f"it has format {header['format']}, this version of svmatlas reads format {layout}: explore again")
    return header, PREFIX + length


def _array(view: mmap.mmap, begin: int, place: dict[str, Any]) -> Array:
    """One array of the body, as it lies in the file."""
    kind, shape = np.dtype(place["type"]), tuple(place["shape"])
    if kind.kind not in KINDS:
        raise ValueError(f"type {kind}")
    count = prod(shape)
    return np.frombuffer(view, kind, count, begin + place["at"]).reshape(shape) if count else np.empty(shape, kind)

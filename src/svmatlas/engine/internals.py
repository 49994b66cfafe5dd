"""All that is used of numba and llvmlite and is not their public interface: three kinds of code, and the cache.

Numba makes machine code of each function with all that it calls. Here only those that Python calls become machine code
(``WholeCompiler``), and large ones that several of these share (``SharedCompiler``). The others are drafts to be linked into
them (``DraftCompiler``).
"""

from __future__ import annotations

import gc
import pickle
import sys

from numba import types
from numba.core.caching import NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult, Flags
from numba.core.imputils import impl_ret_borrowed
from numba.core.serialize import dumps
from numba.core.typing.templates import AttributeTemplate

__all__ = ["AttributeTemplate", "impl_ret_borrowed"]  # for record_type.py


class _Draft(JITCodeLibrary):
    codegen = property(lambda self: self)
    get_pointer_to_function = set_env = lambda self, *_: 0  # there is no machine code, and no environment

    def finalize(self):
        self._finalized = True


class _Whole(JITCodeLibrary):
    def finalize(self):
        found = {}
        _collect(self._linking_libraries, found)
        self.needs = [library.shared for library in found if hasattr(library, "shared")]
        self._linking_libraries = [library for library in found if not hasattr(library, "shared")][::-1]
        super().finalize()


def _collect(libraries, found):
    """All libraries that some need, each after those that it needs: LLVM drops a function that is linked before its use."""
    for library in libraries:
        if library not in found:
            _collect(library._linking_libraries if isinstance(library, _Draft) else (), found)
            found[library] = None


class _Flags(Flags):
    """Numba compares the flags of the function in hand thousands of times, one by one: equal ones are one object here."""

    _known: dict[str, Flags] = {}

    def copy(self):
        return self._known.setdefault(repr(self), super().copy())

    __hash__ = object.__hash__
    __eq__ = object.__eq__


def _age_new_objects():
    """Move new objects to the oldest generation: the garbage collector would look through all of them at once."""
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()


class DraftCompiler(Compiler):
    """Numba's compiler with a library of another kind, and no search for garbage."""

    kind: type = _Draft

    def __init__(self, typingctx, targetctx, library, args, return_type, flags, locals):
        super().__init__(typingctx, targetctx, library, args, return_type, _Flags(flags), locals)

    def compile_extra(self, func):
        search, _ = gc.isenabled(), gc.disable()
        try:
            return super().compile_extra(func)
        finally:
            if search:
                _age_new_objects()
                gc.enable()

    def define_pipelines(self):
        self.state.library = self.kind(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        self.state.library.enable_object_caching()
        return super().define_pipelines()


class WholeCompiler(DraftCompiler):
    kind = _Whole


class SharedCompiler(WholeCompiler):
    """Of kernels that are machine code of their own, which others find by a name: it is the same in all processes."""

    def __init__(self, typingctx, targetctx, library, args, *rest):
        for kind in args:
            if isinstance(getattr(kind, "dtype", kind), types.Record):
                raise TypeError(f"{kind} has a number of the process in names: shared kernels take it as a field of a record")
        super().__init__(typingctx, targetctx, library, args, *rest)

    def define_pipelines(self):
        self.state.func_id.unique_id = None
        return super().define_pipelines()


class Cache(NullCache):
    """What a dispatcher asks before it compiles, and tells after it: by types of arguments and processor.

    ``shared``: module and name of a kernel that others call as machine code of its own; these are loaded before their callers.
    """

    def __init__(self, store, shared=None):
        self._store, self._shared = store, shared

    def load_overload(self, sig, target_context):
        target_context.refresh()
        data = self._store.load(f"{sig} {target_context.codegen().magic_tuple()}")
        if data is None:
            return None
        needs, compiled = pickle.loads(data)
        for module, name, kinds in needs:
            getattr(sys.modules[module], name).compile(kinds)
        data = self._mark(sig, CompileResult._rebuild(target_context, *compiled))
        data.library.needs = needs
        return data

    def save_overload(self, sig, data):
        library = self._mark(sig, data).library
        if not library.has_dynamic_globals:  # addresses of this process
            self._store.save(f"{sig} {data.target_context.codegen().magic_tuple()}", dumps((library.needs, data._reduce())))

    def _mark(self, sig, data):
        if self._shared:
            data.library.shared = (*self._shared, sig)
        return data

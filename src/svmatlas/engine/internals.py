"""All that is used of numba and llvmlite and is not their public interface: two kinds of code, the cache, and records.

Numba makes machine code of each function with all that it calls. Here only those that Python calls become machine code
(``WholeCompiler``); those that only kernels call are drafts to be linked into them (``DraftCompiler``).
"""

from __future__ import annotations

import gc
import hashlib
import pickle
from itertools import accumulate

from llvmlite import ir
from numba import extending, types
from numba.core.caching import NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult, Flags
from numba.core.imputils import impl_ret_borrowed
from numba.core.serialize import dumps
from numba.core.typing.templates import AttributeTemplate

MEMORY = 16384
"""Bytes for the fields of a record: an array of k dimensions takes 40 + 16 k."""


class _Draft(JITCodeLibrary):
    codegen = property(lambda self: self)
    get_pointer_to_function = set_env = lambda self, *_: 0  # there is no machine code, and no environment

    def finalize(self):
        self._finalized = True


class _Whole(JITCodeLibrary):
    def finalize(self):
        found = {}
        _collect(self._linking_libraries, found)
        self._linking_libraries = list(found)[::-1]
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


class DraftCompiler(Compiler):
    """Numba's compiler with a library of another kind, and no search for garbage among all that is new and needed."""

    kind: type = _Draft

    def __init__(self, typingctx, targetctx, library, args, return_type, flags, locals):
        super().__init__(typingctx, targetctx, library, args, return_type, _Flags(flags), locals)

    def compile_extra(self, func):
        search, _ = gc.isenabled(), gc.disable()
        try:
            return super().compile_extra(func)
        finally:
            (gc.enable if search else gc.disable)()

    def define_pipelines(self):
        self.state.library = self.kind(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        self.state.library.enable_object_caching()
        return super().define_pipelines()


class WholeCompiler(DraftCompiler):
    kind = _Whole


class Cache(NullCache):
    """What a dispatcher asks before it compiles, and tells after it: by types of arguments and processor."""

    def __init__(self, store):
        self._store = store

    def load_overload(self, sig, target_context):
        target_context.refresh()
        data = self._store.load(f"{sig} {target_context.codegen().magic_tuple()}")
        return None if data is None else CompileResult._rebuild(target_context, *pickle.loads(data))

    def save_overload(self, sig, data):
        if not data.library.has_dynamic_globals:  # addresses of this process
            self._store.save(f"{sig} {data.target_context.codegen().magic_tuple()}", dumps(data._reduce()))


class Record(types.Type):
    """A record with the fields of a named tuple; its value is their address. A named tuple in it is one, too.

    Fields are found by their distance in bytes: to spell out all their types at each use took much of the compile time.
    """

    def __init__(self, fields):
        kinds = [Record(kind) if isinstance(kind, types.BaseNamedTuple) else kind for kind in fields.types]
        sizes = [40 + 16 * k.ndim if isinstance(k, types.Array) else k.size if isinstance(k, Record) else 8 for k in kinds]
        *places, self.size = accumulate(sizes, initial=0)
        self.types, self.places = (dict(zip(fields.fields, values, strict=True)) for values in (kinds, places))
        super().__init__(name=f"Record({hashlib.sha256(str(fields).encode()).hexdigest()[:16]})")

    def address(self, context, builder, value, name):
        place, kind = ir.Constant(ir.IntType(64), self.places[name]), self.types[name]
        field = builder.gep(value, [place], inbounds=True)
        return field if isinstance(kind, Record) else builder.bitcast(field, context.get_value_type(kind).as_pointer())


extending.register_model(Record)(extending.models.OpaqueModel)


@extending.infer_getattr
class _Fields(AttributeTemplate):
    key = Record

    def generic_resolve(self, record, name):
        return record.types.get(name)


@extending.lower_getattr_generic(Record)
def _get(context, builder, record, value, name):
    kind, address = record.types[name], record.address(context, builder, value, name)
    return address if isinstance(kind, Record) else impl_ret_borrowed(context, builder, kind, builder.load(address))


@extending.lower_setattr_generic(Record)
def _set(context, builder, sig, args, name):
    builder.store(args[1], sig.args[0].address(context, builder, args[0], name))


@extending.intrinsic
def make_record(typingctx, fields, memory):
    record = Record(fields)

    def codegen(context, builder, sig, args):
        kind, array = context.get_value_type(fields), context.make_array(sig.args[1])(context, builder, value=args[1])
        if not context.get_abi_sizeof(kind) == record.size <= MEMORY:
            raise ValueError(f"{fields} needs {context.get_abi_sizeof(kind)} bytes, neither {record.size} nor {MEMORY}")
        builder.store(args[0], builder.bitcast(array.data, kind.as_pointer()))
        return array.data

    return record(fields, memory), codegen

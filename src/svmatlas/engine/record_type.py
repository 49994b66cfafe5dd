"""What a record (record.py) is for numba: the address of the fields of a named tuple, in memory that others own."""

from __future__ import annotations

import hashlib
from itertools import accumulate

from llvmlite import ir
from numba import extending, types

from svmatlas.engine.internals import AttributeTemplate, impl_ret_borrowed

MEMORY = 16384
"""Bytes for the fields of a record: an array of k dimensions takes 40 + 16 k."""


class Record(types.Type):
    """A record with the fields of a named tuple; its value is their address. A named tuple in it is one, too.

    Fields are found by their distance in bytes: to spell out all their types at each use took much of the compile time.
    """

    def __init__(self, fields):
        kinds = [Record(kind) if isinstance(kind, types.BaseNamedTuple) else kind for kind in fields.types]
        sizes = [40 + 16 * k.ndim if isinstance(k, types.Array) else k.size if isinstance(k, Record) else 8 for k in kinds]
        *places, self.size = accumulate(sizes, initial=0)
        self.fields = fields
        self.types, self.places = (dict(zip(fields.fields, values, strict=True)) for values in (kinds, places))
        super().__init__(name=f"Record({hashlib.sha256(str(fields).encode()).hexdigest()[:16]})")

    def address(self, context, builder, value, name):
        """Where a field is."""
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


class Opened:
    """A record in the hands of Python: its address and its type."""

    __slots__ = ("address", "kind")

    def __init__(self, address, kind):
        self.address, self.kind = address, kind


@extending.typeof_impl.register(Opened)
def _typeof(opened, context):
    return opened.kind


@extending.box(Record)
def _box(kind, value, c):
    address = c.pyapi.long_from_ulonglong(c.builder.ptrtoint(value, c.pyapi.ulonglong))
    known = c.env_manager.read_const(c.env_manager.add_const(kind))
    make = c.pyapi.unserialize(c.pyapi.serialize_object(Opened))
    opened = c.pyapi.call_function_objargs(make, (address, known))
    c.pyapi.decref(address)
    c.pyapi.decref(make)
    return opened


@extending.unbox(Record)
def _unbox(kind, opened, c):
    address = c.pyapi.object_getattr_string(opened, "address")
    value = c.pyapi.long_as_ulonglong(address)
    c.pyapi.decref(address)
    return extending.NativeValue(c.builder.inttoptr(value, c.context.get_value_type(kind)))


@extending.intrinsic
def make_record(typingctx, fields, memory):
    """Put fields into memory; returns its address."""
    record = Record(fields)

    def codegen(context, builder, sig, args):
        kind, array = context.get_value_type(fields), context.make_array(sig.args[1])(context, builder, value=args[1])
        if not context.get_abi_sizeof(kind) == record.size <= MEMORY:
            raise ValueError(f"{fields} needs {context.get_abi_sizeof(kind)} bytes, neither {record.size} nor {MEMORY}")
        builder.store(args[0], builder.bitcast(array.data, kind.as_pointer()))
        return array.data

    return record(fields, memory), codegen

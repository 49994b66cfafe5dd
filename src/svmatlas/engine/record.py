"""A record of arrays and numbers that kernels pass to each other by address, and may change.

Numba passes a named tuple by value, some hundred words, and its ``structref`` counts references: each use of a field is then
an atomic addition, which took two fifths of the time of an exploration. A record is only the address of a named tuple's
fields, in memory that the caller owns. Nothing is counted, so it must not outlive the call that made it.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core.imputils import impl_ret_borrowed
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic, lower_setattr_generic, models, register_model

MEMORY = 4096
"""Bytes for the fields of a record: an array of k dimensions takes 40 + 16 k."""


def make_memory() -> npt.NDArray[np.uint8]:
    """Memory for one record."""
    return np.zeros(MEMORY, dtype=np.uint8)


class Record(types.Type):
    """Numba's type of a record with the fields of a named tuple."""

    def __init__(self, fields: types.NamedTuple) -> None:
        self.fields = fields
        digest = hashlib.sha256(str(fields).encode()).hexdigest()[:16]
        super().__init__(name=f"Record({fields.instance_class.__name__}, {digest})")

    def place(self, name: str) -> int:
        """Which of the fields has this name; -1 for none."""
        names = self.fields.fields
        return names.index(name) if name in names else -1


@register_model(Record)
class _Model(models.PrimitiveModel):
    """An address."""

    def __init__(self, dmm: Any, fe_type: Record) -> None:
        super().__init__(dmm, fe_type, dmm.lookup(fe_type.fields).get_value_type().as_pointer())


@infer_getattr
class _Fields(AttributeTemplate):
    key = Record

    def generic_resolve(self, record, name):
        """Type of a field."""
        place = record.place(name)
        return record.fields.types[place] if place >= 0 else None


def _address(builder: Any, record: Record, value: Any, name: str) -> Any:
    index = [ir.Constant(ir.IntType(32), k) for k in (0, record.place(name))]
    return builder.gep(value, index, inbounds=True)


@lower_getattr_generic(Record)
def _get(context, builder, record, value, name):
    field = builder.load(_address(builder, record, value, name))
    return impl_ret_borrowed(context, builder, record.fields.types[record.place(name)], field)


@lower_setattr_generic(Record)
def _set(context, builder, sig, args, name):
    record, kind = sig.args
    value = context.cast(builder, args[1], kind, record.fields.types[record.place(name)])
    builder.store(value, _address(builder, record, args[0], name))


@intrinsic
def make_record(typingctx, fields, memory):
    """A record of the fields of a named tuple, in memory from ``make_memory``."""
    record = Record(fields)

    def codegen(context, builder, sig, args):
        kind = context.get_value_type(fields)
        if context.get_abi_sizeof(kind) > MEMORY:
            raise ValueError(f"{record} needs more than {MEMORY} bytes")
        array = context.make_array(sig.args[1])(context, builder, value=args[1])
        address = builder.bitcast(array.data, kind.as_pointer())
        builder.store(args[0], address)
        return address

    return record(fields, memory), codegen

"""What kernels need of the machine beyond Python: memory and calls by address, atomic numbers.

Each function writes its instructions by the builder of llvmlite, its first argument; in the source of a kernel it is
called without. Addresses are int64.

Kernels get the addresses of their arrays in a table. Each array is a memory of its own, which is told to LLVM with
every access (`alias.scope`, `noalias`): loops need no checks at run time of whether arrays overlap.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minigrad.compiler.llvm_arithmetic import cast, llvm_type, to_bit, to_long

__all__ = ["call", "exchange", "fetch_add", "load", "peek", "place", "pointer", "poke", "store", "swap"]


def _at(builder: Any, address: Any, kind: Any = None) -> Any:
    """Return an address as LLVM's pointer to a type: to an int64 if it is not given."""
    return builder.inttoptr(to_long(builder, address), (kind or llvm_type(np.int64)).as_pointer())


# --- arrays


def pointer(builder: Any, table: Any, i: Any, kind: Any) -> Any:
    """Return the i-th address of a table as a pointer to numbers of a type."""
    return place(builder, builder.load(builder.gep(_at(builder, table), [to_long(builder, i)])), kind)


def place(builder: Any, address: Any, kind: Any) -> Any:
    """Return an address as a pointer to numbers of a type. A bool is a byte."""
    from llvmlite import ir

    return _at(builder, address, ir.IntType(8) if kind is np.bool_ else llvm_type(kind))


def load(builder: Any, memory: Any, i: Any, number: int, n: int) -> Any:
    """Return element i of a memory, which is the number-th of n."""
    value = builder.load(builder.gep(memory, [to_long(builder, i)], inbounds=True))
    _separate(value, builder.module, number, n)
    return builder.icmp_unsigned("!=", value, value.type(0)) if _is_byte(value.type) else value


def store(builder: Any, memory: Any, i: Any, value: Any, number: int, n: int) -> None:
    """Set element i of a memory, which is the number-th of n."""
    kind = memory.type.pointee
    value = builder.zext(to_bit(builder, value), kind) if _is_byte(kind) else cast(builder, value, kind)
    stored = builder.store(value, builder.gep(memory, [to_long(builder, i)], inbounds=True))
    _separate(stored, builder.module, number, n)


def _is_byte(kind: Any) -> bool:
    from llvmlite import ir

    return bool(kind == ir.IntType(8))


def _separate(instruction: Any, module: Any, memory: int, n: int) -> None:
    """Say that an access to one of n memories touches none of the others."""
    from llvmlite import ir

    scopes = module.__dict__.setdefault("minigrad_scopes", {})
    if n not in scopes:
        domain = module.add_metadata([ir.MetaDataString(module, "minigrad")])
        each = [module.add_metadata([ir.MetaDataString(module, f"memory {i}"), domain]) for i in range(n)]
        others = [module.add_metadata([*each[:i], *each[i + 1 :]]) for i in range(n)]
        scopes[n] = [(module.add_metadata([scope]), rest) for scope, rest in zip(each, others, strict=True)]
    own, others = scopes[n][memory]
    instruction.set_metadata("alias.scope", own)
    if n > 1:
        instruction.set_metadata("noalias", others)


# --- what threads share: int64


def peek(builder: Any, address: Any) -> Any:
    """Return the int64 at an address, after all that other threads wrote before they stored it."""
    return builder.load_atomic(_at(builder, address), "acquire", 8)


def poke(builder: Any, address: Any, value: Any) -> None:
    """Store an int64 at an address, after all that this thread wrote before."""
    builder.store_atomic(to_long(builder, value), _at(builder, address), "release", 8)


def fetch_add(builder: Any, address: Any, value: Any) -> Any:
    """Add to the int64 at an address, and return what it was: no thread comes between."""
    return builder.atomic_rmw("add", _at(builder, address), to_long(builder, value), "seq_cst")


def exchange(builder: Any, address: Any, value: Any) -> Any:
    """Store an int64 at an address, and return what it was: no thread comes between."""
    return builder.atomic_rmw("xchg", _at(builder, address), to_long(builder, value), "seq_cst")


def swap(builder: Any, address: Any, old: Any, new: Any) -> Any:
    """Store an int64 at an address if the old one is there, and tell whether it was: no thread comes between."""
    old, new = to_long(builder, old), to_long(builder, new)
    return builder.extract_value(builder.cmpxchg(_at(builder, address), old, new, "seq_cst", "seq_cst"), 1)


def call(builder: Any, function: Any, *arguments: Any) -> None:
    """Call a function by its address, with int64."""
    from llvmlite import ir

    kind = ir.FunctionType(ir.VoidType(), [llvm_type(np.int64)] * len(arguments))
    builder.call(_at(builder, function, kind), [to_long(builder, a) for a in arguments])

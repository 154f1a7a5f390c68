"""What loops/ needs of the machine beyond Python: memory by address, calls by address, atomic numbers.

Kernels get the addresses of their arrays in a table. Each array is a memory of its own, which is told to LLVM with
every access (`alias.scope`, `noalias`): loops need no checks at run time of whether arrays overlap.

All but `separate`, which writes that for `kernel_compiler` too, are intrinsics of numba: they only work inside
functions that numba compiles, and are made when the first of them is asked for, as numba is imported then.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "call", "exchange", "fetch_add", "load", "peek", "place", "pointer", "poke", "relax", "separate", "store", "swap",
]  # fmt: skip

call: Any
exchange: Any
fetch_add: Any
load: Any
peek: Any
place: Any
pointer: Any
poke: Any
relax: Any
store: Any
swap: Any


def __getattr__(name: str) -> Any:
    """Make the functions when the first of them is asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals().update(_intrinsics())
    return globals()[name]


def separate(instruction: Any, module: Any, memory: int, n: int) -> None:
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


def _intrinsics() -> dict[str, Any]:
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    long, nothing = ir.IntType(64), ir.VoidType()

    def at(builder: Any, address: Any, kind: Any = long) -> Any:
        return builder.inttoptr(address, kind.as_pointer())

    def typed(kind: Any) -> Any:
        to: Any = types.CPointer
        return to(kind.dtype)

    @intrinsic
    def pointer(context: Any, table: Any, i: Any, kind: Any) -> Any:
        """Return the i-th address of a table as a pointer to numbers of a type."""

        def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            place = builder.gep(at(builder, args[0]), [args[1]])
            return builder.inttoptr(builder.load(place), context.get_value_type(signature.return_type))

        return typed(kind)(types.int64, types.int64, kind), write

    @intrinsic
    def place(context: Any, address: Any, kind: Any) -> Any:
        """Return an address as a pointer to numbers of a type."""

        def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

        return typed(kind)(types.int64, kind), write

    @intrinsic(prefer_literal=True)
    def load(context: Any, memory: Any, i: Any, number: Any, n: Any) -> Any:
        """Return element i of a memory, which is the number-th of n."""

        def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = builder.load(builder.gep(args[0], [args[1]], inbounds=True))
            separate(value, builder.module, number.literal_value, n.literal_value)
            return value

        return memory.dtype(memory, types.int64, number, n), write

    @intrinsic(prefer_literal=True)
    def store(context: Any, memory: Any, i: Any, value: Any, number: Any, n: Any) -> Any:
        """Set element i of a memory, which is the number-th of n."""

        def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            stored = builder.store(args[2], builder.gep(args[0], [args[1]], inbounds=True))
            separate(stored, builder.module, number.literal_value, n.literal_value)
            return context.get_dummy_value()

        return types.void(memory, types.int64, memory.dtype, number, n), write

    @intrinsic
    def peek(context: Any, address: Any) -> Any:
        """Return the int64 at an address, after all that other threads wrote before they stored it."""

        def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.load_atomic(at(builder, args[0]), "acquire", 8)

        return types.int64(types.int64), write

    @intrinsic
    def poke(context: Any, address: Any, value: Any) -> Any:
        """Store an int64 at an address, after all that this thread wrote before."""

        def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            builder.store_atomic(args[1], at(builder, args[0]), "release", 8)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), write

    def atomic(operation: str, text: str) -> Any:
        def typed(context: Any, address: Any, value: Any) -> Any:
            def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                return builder.atomic_rmw(operation, at(builder, args[0]), args[1], "seq_cst")

            return types.int64(types.int64, types.int64), write

        typed.__doc__ = text
        return intrinsic(typed)

    @intrinsic
    def swap(context: Any, address: Any, old: Any, new: Any) -> Any:
        """Store an int64 at an address if the old one is there, and tell whether it was: no thread comes between."""

        def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            found = builder.cmpxchg(at(builder, args[0]), args[1], args[2], "seq_cst", "seq_cst")
            return builder.extract_value(found, 1)

        return types.boolean(types.int64, types.int64, types.int64), write

    @intrinsic
    def call(context: Any, function: Any, part: Any, parts: Any, scratch: Any, table: Any) -> Any:
        """Call a kernel by its address."""

        def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind = ir.FunctionType(nothing, [long] * 4)
            builder.call(at(builder, args[0], kind), args[1:])
            return context.get_dummy_value()

        return types.void(*[types.int64] * 5), write

    @intrinsic
    def relax(context: Any, give_way: Any) -> Any:
        """Wait a moment in a loop; where `give_way` is the address of a function, let others run."""

        def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            with builder.if_then(builder.icmp_signed("!=", args[0], long(0))):
                builder.call(at(builder, args[0], ir.FunctionType(ir.IntType(32), [])), [])
            return context.get_dummy_value()

        return types.void(types.int64), write

    fetch_add = atomic("add", "Add to the int64 at an address, and return what it was: no thread comes between.")
    exchange = atomic("xchg", "Store an int64 at an address, and return what it was: no thread comes between.")
    return {name: made for name, made in locals().items() if name in __all__}

"""From the source of kernels to machine code, by LLVM.

The language is a small part of Python: what `kernel_source` writes, and `loops/` is written in. Its functions take
int64 and return nothing, or what their annotation says: an int (int64) or a bool. They consist of assignments, `if`,
`while` and loops over `range`, calls of each other, and expressions of numbers. Whatever else stands in a source is run
as Python before it is compiled: it gives names to numbers, to types, and to functions that write instructions (such as
those of `native`).

`a if condition else b` computes both; only `and`, `or` and `if` leave out what does not matter. `//` and `%` are
those of Python for numbers from 0 on. A name may serve again for another type, but not in a branch.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np

from minigrad.compiler import native
from minigrad.compiler.llvm_arithmetic import (
    FUNCTIONS,
    SIGNS,
    alike,
    binary,
    cast,
    compare,
    llvm_type,
    to_bit,
    to_long,
    typed,
    unary,
)
from minigrad.compiler.processor import target

__all__ = ["compile_source", "constants", "optimised"]

KNOWN: dict[str, Any] = {  # in every source
    "INF": np.inf, "NAN": np.nan,
    "f4": np.float32, "f8": np.float64, "i8": np.int64, "i4": np.int32, "b1": np.bool_,
    **{name: getattr(native, name) for name in native.__all__},
    "min": FUNCTIONS["minimum"], **FUNCTIONS,
}  # fmt: skip


def compile_source(source: str, prefix: str) -> bytes:
    """Return an object file with the functions of a source, their names after a prefix."""
    machine = target()
    code: bytes = machine.emit_object(optimised(source, prefix, machine))
    return code


def optimised(source: str, prefix: str, machine: Any) -> Any:
    """Return the functions of a source as a module of LLVM, all its passes done."""
    from llvmlite import binding, ir

    module = ir.Module(name=prefix)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    names = KNOWN | constants(source)
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.FunctionDef):
            names[statement.name] = _Function(module, prefix, names, statement).function
    parsed = binding.parse_assembly(str(module))
    options = binding.create_pipeline_tuning_options(speed_level=2)  # 3 takes twice as long, for no faster loops
    options.loop_vectorization = True
    passes = binding.create_pass_builder(machine, options)
    passes.getModulePassManager().run(parsed, passes)
    return parsed


def constants(source: str) -> dict[str, Any]:
    """Return what a source gives names to outside its functions."""
    body = [s for s in ast.parse(source).body if not isinstance(s, ast.FunctionDef)]
    names: dict[str, Any] = {}
    exec(compile(ast.Module(body, []), "<kernel>", "exec"), names)
    return names


class _Function:
    """Writes the instructions of one function into a module."""

    def __init__(self, module: Any, prefix: str, names: dict[str, Any], source: ast.FunctionDef) -> None:
        from llvmlite import ir

        self.names = names
        long = llvm_type(np.int64)
        results = {"None": ir.VoidType(), "int": long, "bool": llvm_type(np.bool_)}
        self.result = results[ast.unparse(source.returns) if source.returns else "None"]
        parameters = [a.arg for a in source.args.args]
        kind = ir.FunctionType(self.result, [long] * len(parameters))
        self.function = ir.Function(module, kind, f"{prefix}_{source.name}")
        self.function.attributes.add("nounwind")
        self.builder = ir.IRBuilder(self.function.append_basic_block())
        self.variables: dict[str, Any] = {}  # the memory of each; LLVM turns it into registers
        self.pointers: dict[str, Any] = {}
        for name, value in zip(parameters, self.function.args, strict=True):
            self._assign(name, value)
        self._block(source.body)
        if not self.builder.block.is_terminated:
            self.builder.ret_void() if self.result == ir.VoidType() else self.builder.unreachable()

    # --- statements

    def _block(self, statements: list[ast.stmt]) -> None:
        for s in statements:
            self._statement(s)

    def _statement(self, s: ast.stmt) -> None:
        if isinstance(s, ast.Assign):
            (to,) = s.targets
            targets, values = (to.elts, s.value.elts) if isinstance(to, ast.Tuple) else ([to], [s.value])  # type: ignore[attr-defined]
            for name, value in zip(targets, [self._value(v) for v in values], strict=True):
                self._assign(name.id, value)  # type: ignore[attr-defined]
        elif isinstance(s, ast.AugAssign):
            assert isinstance(s.target, ast.Name)
            before = self._name(s.target.id)
            self._assign(s.target.id, binary(self.builder, type(s.op), before, self._value(s.value)))
        elif isinstance(s, ast.For):
            self._for(s)
        elif isinstance(s, ast.While):
            self._loop(lambda: self._condition(s.test), lambda: self._block(s.body))
        elif isinstance(s, ast.If):
            self._if(s)
        elif isinstance(s, ast.Return):
            self._return(s)
        elif not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)):  # a docstring
            assert isinstance(s, ast.Expr), ast.unparse(s)
            self._value(s.value)

    def _assign(self, name: str, value: Any) -> None:
        from llvmlite import ir

        if isinstance(getattr(value, "type", None), ir.PointerType):
            self.pointers[name] = value
            return
        value = typed(value)
        if name not in self.variables or self.variables[name].allocated_type != value.type:  # a name may serve again
            with self.builder.goto_entry_block():
                self.variables[name] = self.builder.alloca(value.type)
        self.builder.store(value, self.variables[name])

    def _for(self, s: ast.For) -> None:
        assert isinstance(s.iter, ast.Call) and isinstance(s.target, ast.Name)
        name, builder = s.target.id, self.builder
        bounds = [to_long(builder, self._value(a)) for a in s.iter.args]
        start, end = bounds[:2] if len(bounds) > 1 else (to_long(builder, 0), bounds[0])
        step = bounds[2] if len(bounds) > 2 else to_long(builder, 1)
        with builder.goto_entry_block():
            counter = builder.alloca(start.type)
        builder.store(start, counter)

        def body() -> None:
            self._assign(name, builder.load(counter))  # as in Python, it stays what it was when the loop has ended
            self._block(s.body)
            builder.store(builder.add(builder.load(counter), step, flags=("nsw",)), counter)

        self._loop(lambda: builder.icmp_signed("<", builder.load(counter), end), body)

    def _loop(self, goes_on: Callable[[], Any], write: Callable[[], None]) -> None:
        builder = self.builder
        test, body, after = (builder.append_basic_block() for _ in range(3))
        builder.branch(test)
        builder.position_at_end(test)
        builder.cbranch(goes_on(), body, after)
        builder.position_at_end(body)
        write()
        builder.branch(test)
        builder.position_at_end(after)

    def _if(self, s: ast.If) -> None:
        builder, known = self.builder, self.variables.copy()
        yes, no, after = (builder.append_basic_block() for _ in range(3))
        builder.cbranch(self._condition(s.test), yes, no)
        for block, statements in ((yes, s.body), (no, s.orelse)):
            builder.position_at_end(block)
            self._block(statements)
            if not builder.block.is_terminated:
                builder.branch(after)
        assert all(self.variables[x] is memory for x, memory in known.items()), f"another type: {ast.unparse(s)}"
        builder.position_at_end(after)

    def _return(self, s: ast.Return) -> None:
        if s.value is None:
            self.builder.ret_void()
        else:
            self.builder.ret(cast(self.builder, self._value(s.value), self.result))

    # --- expressions

    def _value(self, e: ast.expr) -> Any:
        builder = self.builder
        if isinstance(e, ast.Constant):
            return e.value
        if isinstance(e, ast.Name):
            return self._name(e.id)
        if isinstance(e, ast.BinOp):
            return binary(builder, type(e.op), self._value(e.left), self._value(e.right))
        if isinstance(e, ast.UnaryOp):
            return unary(builder, type(e.op), self._value(e.operand))
        if isinstance(e, ast.Compare):
            (sign,), (right,) = e.ops, e.comparators
            return compare(builder, SIGNS[type(sign)], self._value(e.left), self._value(right))
        if isinstance(e, ast.BoolOp):
            return self._and_or(e)
        if isinstance(e, ast.IfExp):
            yes, no = alike(builder, self._value(e.body), self._value(e.orelse))
            return builder.select(self._condition(e.test), yes, no)
        assert isinstance(e, ast.Call), ast.unparse(e)
        return self._call(self.names[ast.unparse(e.func).removeprefix("np.")], [self._value(a) for a in e.args])

    def _name(self, name: str) -> Any:
        if name in self.variables:
            return self.builder.load(self.variables[name])
        return self.pointers[name] if name in self.pointers else self.names[name]

    def _condition(self, e: ast.expr) -> Any:
        return to_bit(self.builder, self._value(e))

    def _and_or(self, e: ast.BoolOp) -> Any:
        """Return whether all conditions hold, or any; what does not matter any more is left out."""
        builder, is_and = self.builder, isinstance(e.op, ast.And)
        after = builder.append_basic_block()
        ends = []
        for condition in e.values[:-1]:
            decided, following = self._condition(condition), builder.append_basic_block()
            ends.append((decided, builder.block))
            builder.cbranch(decided, *((following, after) if is_and else (after, following)))
            builder.position_at_end(following)
        ends.append((self._condition(e.values[-1]), builder.block))
        builder.branch(after)
        builder.position_at_end(after)
        result = builder.phi(llvm_type(np.bool_))
        for value, block in ends:
            result.add_incoming(value, block)
        return result

    def _call(self, function: Any, arguments: list[Any]) -> Any:
        from llvmlite import ir

        if isinstance(function, type):
            return cast(self.builder, arguments[0], llvm_type(function))
        if isinstance(function, ir.Function):
            return self.builder.call(function, [to_long(self.builder, a) for a in arguments])
        return function(self.builder, *arguments)

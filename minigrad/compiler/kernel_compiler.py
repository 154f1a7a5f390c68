"""From the source of a kernel to machine code, by LLVM.

The language is the small part of Python that `kernel_source` writes: functions of four int64, assignments, loops over
`range`, and expressions of numbers. numba, which compiles all of Python, takes four times as long for it.

A value is an instruction of LLVM, which has a type, or a plain Python number, which takes the type of what it meets.
Operands are cast by the source; where types still differ, the wider one is taken. A choice computes both sides.
"""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from minigrad.compiler.llvm_value import FLAGS, Value
from minigrad.compiler.native import separate
from minigrad.compiler.vector_math import FORMULAS

__all__ = ["compile_source", "cpu", "optimised", "target"]

NUMBERS = {"INF": np.inf, "NAN": np.nan}
BY_LLVM = {name: f"llvm.{name}" for name in ("sqrt", "sin", "cos", "floor", "ceil", "trunc")}
INSTRUCTIONS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "sdiv"}
LOGICAL = {ast.BitAnd: "and_", ast.BitOr: "or_"}
SIGNS = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


def cpu() -> tuple[str, str]:
    """Return the name of this processor, and what it can do."""
    from llvmlite import binding

    try:
        features = binding.get_host_cpu_features().flatten()
    except RuntimeError:  # LLVM cannot tell on this system: what all processors of the name have
        features = ""
    return binding.get_host_cpu_name(), features


def target() -> Any:
    """Return LLVM's description of this machine: a new one, as what executes code takes it over."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    triple = binding.Target.from_default_triple()
    model = {"reloc": "static"} if triple.name.startswith("x86") else {}
    name, features = cpu()
    return triple.create_target_machine(cpu=name, features=features, opt=3, codemodel="jitdefault", jit=True, **model)


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
    constants: dict[str, Any] = dict(NUMBERS)
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.FunctionDef):
            _Function(module, prefix, constants, statement)
        else:
            assert isinstance(statement, ast.Assign)
            constants[ast.unparse(statement.targets[0])] = ast.literal_eval(statement.value)
    parsed = binding.parse_assembly(str(module))
    options = binding.create_pipeline_tuning_options(speed_level=2)  # 3 takes twice as long, for no faster loops
    options.loop_vectorization = True
    passes = binding.create_pass_builder(machine, options)
    passes.getModulePassManager().run(parsed, passes)
    return parsed


class _Function:
    """Writes the instructions of one function into a module."""

    def __init__(self, module: Any, prefix: str, constants: dict[str, Any], source: ast.FunctionDef) -> None:
        from llvmlite import ir

        self.ir = ir
        self.bit, self.long = ir.IntType(1), ir.IntType(64)
        f4, f8 = ir.FloatType(), ir.DoubleType()
        self.types = {"f4": f4, "f8": f8, "i8": self.long, "i4": ir.IntType(32), "b1": self.bit}
        self.width = [self.bit, self.types["i4"], self.long, f4, f8]  # from the narrowest
        self.constants = constants
        names = [a.arg for a in source.args.args]
        kind = ir.FunctionType(ir.VoidType(), [self.long] * len(names))
        function = ir.Function(module, kind, f"{prefix}_{source.name}")
        function.attributes.add("nounwind")
        self.builder = ir.IRBuilder(function.append_basic_block())
        self.variables: dict[str, Any] = {}  # the memory of each; LLVM turns it into registers
        self.memories: dict[str, Any] = {}
        for name, value in zip(names, function.args, strict=True):
            self._assign(name, value)
        self._block(source.body)
        self.builder.ret_void()

    # --- statements

    def _block(self, statements: list[ast.stmt]) -> None:
        for s in statements:
            if isinstance(s, ast.For):
                self._for(s)
            elif isinstance(s, ast.Assign):
                (to,) = s.targets
                pairs = zip(to.elts, s.value.elts, strict=True) if isinstance(to, ast.Tuple) else [(to, s.value)]  # type: ignore[attr-defined]
                for name, value in pairs:
                    self._assign(name.id, self._value(value))  # type: ignore[attr-defined]
            else:
                assert isinstance(s, ast.Expr), ast.unparse(s)
                self._value(s.value)

    def _assign(self, name: str, value: Any) -> None:
        if isinstance(getattr(value, "type", None), self.ir.PointerType):
            self.memories[name] = value
            return
        value = self._typed(value)
        if name not in self.variables or self.variables[name].allocated_type != value.type:  # a name may serve again
            with self.builder.goto_entry_block():
                self.variables[name] = self.builder.alloca(value.type)
        self.builder.store(value, self.variables[name])

    def _for(self, s: ast.For) -> None:
        assert isinstance(s.iter, ast.Call) and isinstance(s.target, ast.Name)
        bounds = [self._cast(self._value(a), self.long) for a in s.iter.args]
        start, end = bounds[:2] if len(bounds) > 1 else (self.long(0), bounds[0])
        step = bounds[2] if len(bounds) > 2 else self.long(1)
        builder = self.builder
        with builder.goto_entry_block():
            counter = builder.alloca(self.long)
        builder.store(start, counter)
        test, body, after = (builder.append_basic_block() for _ in range(3))
        builder.branch(test)
        builder.position_at_end(test)
        builder.cbranch(builder.icmp_signed("<", builder.load(counter), end), body, after)
        builder.position_at_end(body)
        self._assign(s.target.id, builder.load(counter))  # as in Python, it stays what it was when the loop has ended
        self._block(s.body)
        builder.store(builder.add(builder.load(counter), step, flags=("nsw",)), counter)
        builder.branch(test)
        builder.position_at_end(after)

    # --- expressions

    def _value(self, e: ast.expr) -> Any:
        if isinstance(e, ast.Constant):
            return e.value
        if isinstance(e, ast.Name):
            if e.id in self.variables:
                return self.builder.load(self.variables[e.id])
            return self.memories[e.id] if e.id in self.memories else self.constants[e.id]
        if isinstance(e, ast.BinOp):
            return self._binary(type(e.op), self._value(e.left), self._value(e.right))
        if isinstance(e, ast.UnaryOp):
            return self._unary(type(e.op), self._value(e.operand))
        if isinstance(e, ast.Compare):
            (sign,), (right,) = e.ops, e.comparators
            return self._compare(SIGNS[type(sign)], self._value(e.left), self._value(right))
        if isinstance(e, ast.IfExp):
            yes, no = self._alike(self._value(e.body), self._value(e.orelse))
            return self.builder.select(self._cast(self._value(e.test), self.bit), yes, no)
        assert isinstance(e, ast.Call), ast.unparse(e)
        name = ast.unparse(e.func).removeprefix("np.")
        if name in ("pointer", "place"):
            *where, kind = e.args
            return self._pointer([self._cast(self._value(a), self.long) for a in where], ast.unparse(kind))
        arguments = [self._value(a) for a in e.args]
        if name in self.types:
            return self._cast(arguments[0], self.types[name])
        if name in BY_LLVM:
            return self._intrinsic(BY_LLVM[name], arguments)
        if name in FORMULAS:
            return FORMULAS[name](Value(self.builder, arguments[0])).ir
        if name in ("maximum", "minimum"):
            return self._extremum(name, *arguments)
        known: dict[str, Any] = {"load": self._load, "store": self._store, "plus": self._plus, "abs": self._abs}
        return known[name](*arguments)

    def _is_float(self, x: Any) -> bool:
        return isinstance(x.type, (self.ir.FloatType, self.ir.DoubleType))

    def _typed(self, x: Any) -> Any:
        """Return a value of LLVM; a Python number with its own type."""
        if hasattr(x, "type"):
            return x
        kind = self.bit if isinstance(x, bool) else self.long if isinstance(x, int) else self.types["f8"]
        return self.ir.Constant(kind, x)

    def _cast(self, x: Any, to: Any) -> Any:
        """Return a value as another type, as C does; any number but 0 is True."""
        is_float = to in self.width[3:]
        if not hasattr(x, "type"):
            if to is self.types["f4"]:
                x = float(np.float32(x))
            return self.ir.Constant(to, float(x) if is_float else int(bool(x)) if to == self.bit else int(x))
        if x.type == to:
            return x
        if to == self.bit:
            return self._compare("!=", x, 0)
        builder, wider = self.builder, self.width.index(to) > self.width.index(x.type)
        if x.type == self.bit:
            return (builder.uitofp if is_float else builder.zext)(x, to)
        if self._is_float(x) and is_float:
            return (builder.fpext if wider else builder.fptrunc)(x, to)
        if self._is_float(x):
            return builder.fptosi(x, to)
        return builder.sitofp(x, to) if is_float else (builder.sext if wider else builder.trunc)(x, to)

    def _alike(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Return two values as one type: that of the one that is no Python number, or the wider of both."""
        if not hasattr(x, "type") and not hasattr(y, "type"):
            x, y = self._typed(x), self._typed(y)
        if not hasattr(x, "type"):
            return self._alike(y, x)[::-1]
        if not hasattr(y, "type"):
            if x.type == self.bit and not isinstance(y, bool):
                x = self._cast(x, self.long)
            return x, self._cast(y, x.type)
        kind = max(x.type, y.type, key=self.width.index)
        return self._cast(x, kind), self._cast(y, kind)

    def _binary(self, op: Any, x: Any, y: Any) -> Any:
        x, y = self._alike(x, y)
        if op in LOGICAL:
            return getattr(self.builder, LOGICAL[op])(x, y)
        if op is ast.Pow:
            return self._intrinsic("llvm.pow", [x, y])
        if self._is_float(x):
            return getattr(self.builder, f"f{INSTRUCTIONS[op]}")(x, y, flags=FLAGS)
        return getattr(self.builder, INSTRUCTIONS[op])(x, y)

    def _unary(self, op: Any, x: Any) -> Any:
        if not hasattr(x, "type"):
            return -x if op is ast.USub else not x
        if op is ast.Not:
            return self.builder.not_(self._cast(x, self.bit))
        return self.builder.fneg(x) if self._is_float(x) else self.builder.neg(x)

    def _compare(self, sign: str, x: Any, y: Any) -> Any:
        x, y = self._alike(x, y)
        if self._is_float(x):
            return (self.builder.fcmp_unordered if sign == "!=" else self.builder.fcmp_ordered)(sign, x, y)
        return (self.builder.icmp_unsigned if x.type == self.bit else self.builder.icmp_signed)(sign, x, y)

    def _intrinsic(self, name: str, arguments: list[Any], flags: tuple[str, ...] = FLAGS) -> Any:
        kind = arguments[0].type
        signature = self.ir.FunctionType(kind, [kind] * len(arguments))
        function = self.builder.module.declare_intrinsic(name, [kind], signature)
        return self.builder.call(function, arguments, fastmath=flags)

    def _abs(self, x: Any) -> Any:
        if self._is_float(x):
            return self._intrinsic("llvm.fabs", [x])
        return self.builder.select(self._compare("<", x, 0), self.builder.neg(x), x)

    def _extremum(self, name: str, x: Any, y: Any) -> Any:
        x, y = self._alike(x, y)
        if self._is_float(x):  # NaN if either is NaN; of 0 and -0 either one, as with NumPy
            return self._intrinsic(f"llvm.{name}", [x, y], ("nsz", *FLAGS))
        return self.builder.select(self._compare(">" if name == "maximum" else "<", x, y), x, y)

    def _plus(self, x: Any, y: Any) -> Any:
        """Add in any order: what makes LLVM add up a loop in the lanes of a vector.

        Without `nsz`, which with `reassoc` would let LLVM take a common factor out of a sum: inf * 0 would be lost.
        """
        return self.builder.fadd(x, self._cast(y, x.type), flags=("reassoc", "contract"))

    # --- memory

    def _pointer(self, where: list[Any], kind: str) -> Any:
        """Return an address as a pointer: one that is given, or the i-th of a table."""
        builder, address = self.builder, where[0]
        if len(where) > 1:
            address = builder.load(builder.gep(builder.inttoptr(address, self.long.as_pointer()), where[1:]))
        stored = self.ir.IntType(8) if kind == "b1" else self.types[kind]
        return builder.inttoptr(address, stored.as_pointer())

    def _load(self, memory: Any, i: Any, number: int, n: int) -> Any:
        value = self.builder.load(self.builder.gep(memory, [self._cast(i, self.long)], inbounds=True))
        separate(value, self.builder.module, number, n)
        return self._compare("!=", value, 0) if value.type == self.ir.IntType(8) else value

    def _store(self, memory: Any, i: Any, value: Any, number: int, n: int) -> None:
        kind = memory.type.pointee
        is_byte = kind == self.ir.IntType(8)
        value = self.builder.zext(self._cast(value, self.bit), kind) if is_byte else self._cast(value, kind)
        stored = self.builder.store(value, self.builder.gep(memory, [self._cast(i, self.long)], inbounds=True))
        separate(stored, self.builder.module, number, n)

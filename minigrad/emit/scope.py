"""The names of an emitted function: what is taken, what it takes as arguments, and what must stand above it."""

from __future__ import annotations

import builtins
import keyword
from typing import Any

import numpy as np

from minigrad.emit.literals import Text, array_in_words, dtype_text, formula_text, number_text, scalar_text
from minigrad.program import Atom, Const, Var

__all__ = ["Scope"]

_KIND_NAMES = {"b": "mask", "i": "indices", "u": "indices"}


class Scope:
    """The names in use.

    Parameters
    ----------
    exact
        Reproduce every bit, where there is a choice of how to write something.
    """

    def __init__(self, exact: bool = False) -> None:
        self.exact = exact
        self.taken = {*keyword.kwlist, *dir(builtins), "np", "math", "scipy", "erf"}
        self.names: dict[Var, str] = {}
        self.constants: dict[str, Any] = {}  # arguments besides those of the function: arrays it used from outside
        self.numbers: dict[str, float] = {}  # numbers that the user's code has a name for
        self.helpers: dict[str, str] = {}  # functions to stand above this one
        self.imports: set[str] = {"import numpy as np"}
        self._known: dict[int, tuple[Any, str]] = {}
        self._gradient_names: dict[str, Var] = {}  # dx, and the x whose gradient alone may be called that

    def new(self, wanted: str, of: Var | None = None) -> str:
        """Return a name that is not in use: the wanted one, or that with a number. `of` is what it is a gradient of."""
        name, n = wanted, 1
        while name in self.taken or self._gradient_names.get(name, of) is not of:
            n += 1
            name = f"{wanted}_{n}"
        self.taken.add(name)
        return name

    def define(self, var: Var, wanted: str, of: Var | None = None) -> str:
        """Give a variable a name."""
        self.names[var] = self.new(wanted, of)
        self._gradient_names[f"d{self.names[var]}"] = var
        return self.names[var]

    def argument(self, value: Any, wanted: str) -> Text:
        """Return the name of a value that becomes an argument of the function."""
        if id(value) not in self._known:
            name = next((name for name, x in self.constants.items() if _are_equal(x, value)), None)
            if name is None:
                name = self.new(wanted)
                self.constants[name] = value
            self._known[id(value)] = (value, name)
        return Text(self._known[id(value)][1])

    def constant(self, const: Const, beside: list[Atom]) -> Text:
        """Return a constant among the inputs of an op; `beside` are the other inputs."""
        value = const.value
        if isinstance(value, np.ndarray):
            text = array_in_words(value, written_out=const.name is None)
            return text or self.argument(value, const.name or _KIND_NAMES.get(value.dtype.kind, "array"))
        if isinstance(value, float) and const.name is not None:
            if id(value) not in self._known:
                name = self.new(const.name)
                self._known[id(value)] = (value, name)
                self.numbers[name] = value
            return Text(self._known[id(value)][1])
        if isinstance(value, np.generic) and any(a.shape != () and a.dtype == value.dtype for a in beside):
            value = value.item()  # promotes nothing here, so that a Python number does as well
        return self.literal(value)

    def literal(self, x: Any) -> Text:
        """Return a value, a parameter of an op for instance, as source."""
        if isinstance(x, np.ndarray):
            return array_in_words(x) or self.argument(x, "array")
        if isinstance(x, np.generic):
            return scalar_text(x)
        if isinstance(x, (bool, int, float, complex)):
            spoken = None if self.exact else formula_text(x)
            if spoken is not None and "math." in spoken.code:
                self.imports.add("import math")
            return spoken or number_text(x)
        if x is None or isinstance(x, (str, bytes)):
            return Text(f'"{x}"' if isinstance(x, str) and x.isprintable() and not {'"', "\\"} & set(x) else repr(x))
        if x is Ellipsis:
            return Text("...")
        if isinstance(x, (list, tuple)):
            inside = ", ".join(self.literal(item).code for item in x)
            if isinstance(x, list):
                return Text(f"[{inside}]")
            return Text(f"({inside},)" if len(x) == 1 else f"({inside})")
        if isinstance(x, slice):
            return Text(f"slice({x.start}, {x.stop}, {x.step})")
        if isinstance(x, np.dtype) or (isinstance(x, type) and issubclass(x, (np.generic, bool, int, float, complex))):
            return Text(dtype_text(x))
        return self.argument(x, getattr(x, "__name__", "value").strip("<>_") or "value")

    def helper(self, name: str, source: str) -> str:
        """Put a function above this one, and return its name."""
        self.helpers.setdefault(name, source)
        self.taken.add(name)
        return name


def _are_equal(a: Any, b: Any) -> bool:
    """Tell whether two values are arrays of the same contents: a mask that was made anew for each layer, say."""
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray) or a.dtype != b.dtype:
        return False
    return np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")

"""Compiling a traced program: lowered, planned into one piece of memory, and fused into loops over rows."""

from minigrad.compiler.compile import Compiled, compile

__all__ = ["Compiled", "compile"]

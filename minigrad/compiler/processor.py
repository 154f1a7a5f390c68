"""This processor, as LLVM knows it."""

from __future__ import annotations

from typing import Any

__all__ = ["cpu", "target"]


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

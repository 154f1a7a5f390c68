"""Write docs/support.md: what minigrad does with each function of NumPy, from the tables that it works by.

    python docs/make_support.py

tests/test_coverage.py uses `status` to prove that no function is forgotten, and that the page is up to date.
"""

import functools
import importlib
import pkgutil
import textwrap
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
from numpy.testing import overrides

from minigrad.op import COMPOSITES, OPS, public_name
from minigrad.rules import metadata, special, unsupported

PAGE = Path(__file__).with_name("support.md")

INTRODUCTION = """\
# What is supported

Written by `docs/make_support.py` for NumPy {version}; do not edit. `tests/test_coverage.py` takes the functions from
NumPy itself and proves that each is on this page: with a derivative, without one, or refused with a reason. What is
refused raises `UnsupportedError`; nothing returns a plain array in which the gradient is lost.
"""

SECTIONS = {
    "differentiated": "Differentiated",
    "no derivative": "No derivative: piecewise constant, a choice, or a test",
    "metadata": "Shapes, dtypes, memory and text: plain answers",
    "refused": "Refused, with the reason",
}


NOT_FOR_USERS = ("conftest", "core", "distutils", "f2py", "testing", "tests", "typing")


def modules():
    """Return NumPy and its public modules, all imported: a function is known to NumPy once its module is."""
    names = [f"numpy.{m.name}" for m in pkgutil.iter_modules(np.__path__)]
    for package in (np.lib, importlib.import_module("numpy.polynomial")):
        names += [f"{package.__name__}.{m.name}" for m in pkgutil.iter_modules(package.__path__)]
    public = [
        name for name in names if not any(part.startswith("_") or part in NOT_FOR_USERS for part in name.split("."))
    ]
    with warnings.catch_warnings(action="ignore"):  # some are deprecated
        return [np, *map(importlib.import_module, sorted(public))]


def functions():
    """Return every public function and ufunc of NumPy that asks its arguments, such as Tensors, what to do."""
    public = [f for m in modules() for name, f in vars(m).items() if not name.startswith("_") and callable(f)]
    asking = overrides.get_overridable_numpy_array_functions() | overrides.get_overridable_numpy_ufuncs()
    return {f for f in public if isinstance(f, np.ufunc) or (f.__hash__ and f in asking)}


def status(function):
    """Return the section that a function belongs to, or None if it is in no table."""
    if function in metadata.METADATA:
        return "metadata"
    if function in OPS:
        return "differentiated" if any(rule is not None for rule in OPS[function].rules) else "no derivative"
    if function in COMPOSITES:
        return "differentiated"
    return "refused" if refusal(function) else None


def refusal(function):
    """Return why a function is refused, or None if it is not on purpose."""
    reason = unsupported.reason(function)
    return None if reason == unsupported.UNKNOWN else reason


def sentence(text):
    """Return a text with a capital letter at its beginning, unless that is the name of a module."""
    return text if "." in text.split()[0] else text[0].upper() + text[1:]


def paragraph(names):
    """Return names as a wrapped paragraph."""
    return textwrap.fill(", ".join(f"`{name}`" for name in sorted(set(names))), 118, break_on_hyphens=False)


def page():
    """Return the text of docs/support.md."""
    sections = defaultdict(list)
    for function in functions():
        sections[status(function)].append(function)
    version = ".".join(np.__version__.split(".")[:2])
    parts = [INTRODUCTION.format(version=version)]
    for key, title in SECTIONS.items():
        parts.append(f"## {title}\n")
        if key != "refused":
            parts.append(paragraph(map(public_name, sections[key])) + "\n")
            continue
        by_reason = defaultdict(list)
        for function in sections[key]:
            by_reason[refusal(function)].append(public_name(function))
        for reason, names in sorted(by_reason.items()):
            parts.append(f"{sentence(reason)}:\n{paragraph(names)}\n")
    have = [n for n in dir(np.ndarray) if not n.startswith("_") and n not in unsupported.METHODS]
    parts.append(f"## Methods and attributes of ndarray\n\n{paragraph(have)}\n")
    by_reason = defaultdict(list)
    for name in filter(functools.partial(hasattr, np.zeros(1)), unsupported.METHODS):
        by_reason[unsupported.METHODS[name]].append(name)
    parts.append("Refused:\n")
    parts += [f"{sentence(reason)}:\n{paragraph(names)}\n" for reason, names in sorted(by_reason.items())]
    scipy = [name.lstrip("_") for name in special.table(None)]
    parts.append(f"## scipy.special\n\n{paragraph(scipy)}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

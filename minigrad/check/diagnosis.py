"""What a wrong gradient looks like: a sign, a factor, a transposition, a missing sum, a missing term, a masked element.

Each question is asked of the numbers alone. The answers are hypotheses that fit all of them, not guesses: a factor is
named only if every element has it, a missing term only if adding it gives the right gradient.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad.check.comparison import Comparison
from minigrad.check.forms import close, factor_between, form_of, permuted
from minigrad.check.generated import Generated, Truth
from minigrad.shapes import broadcast_axes

__all__ = ["Context", "diagnose", "named_factor"]


@dataclass
class Context:
    """What a diagnosis can refer to.

    Attributes
    ----------
    generated, gs
        The generated adjoint, where there is one, and the cotangents of the comparison.
    wanted
        The right gradients of all leaves, by name.
    masks
        Boolean arrays among the arguments, by name.
    sizes
        What a number can stand for: "the size 8 of axis 2 of x".
    relative
        How well a hypothesis must fit.
    """

    generated: Generated | None
    gs: Sequence[Any]
    wanted: dict[str, Any]
    masks: dict[str, Any]
    sizes: dict[int, str]
    relative: float = 1e-6


def diagnose(c: Comparison, context: Context) -> list[str]:
    """Return what a wrong gradient looks like, the most telling first; at most three lines."""
    found: list[str] = []
    for question in (_nothing, _shape, _proportion, _order, _another, _constant, _part, _factor_array, _where):
        for answer in question(c, context):
            if answer not in found:
                found.append(answer)
        if question is not _where and (found or (question is _shape and np.shape(c.got) != c.wanted.shape)):
            break
    return found[:3]


def named_factor(c: float, sizes: dict[int, str], relative: float = 1e-6) -> str | None:
    """Return what a constant factor is, where it is something that occurs in derivatives; None if it is not."""

    def is_(x: float) -> bool:
        return abs(c - x) <= relative * abs(x)

    if is_(-1):
        return "the sign is wrong: it is -1 times the right gradient"
    sized = [(n, what) for n, what in sizes.items() if n > 1]
    for value, text in (
        *((n, f"{n}, {what}: a division by it is missing, or a mean was treated as a sum") for n, what in sized),
        *((1 / n, f"1/{n}, {what}: divided by it too often, or a sum was treated as a mean") for n, what in sized),
        *((v, t) for v, t in ((2, "2"), (0.5, "1/2"), (-2, "-2"), (-0.5, "-1/2"), (3, "3"), (1 / 3, "1/3"))),
        *((math.sqrt(n), f"sqrt({n}), {what}: a scale is missing or there twice") for n, what in sized),
        *((1 / math.sqrt(n), f"1/sqrt({n}), {what}: a scale is missing or there twice") for n, what in sized),
        *((n / (n - 1), f"{n}/{n - 1}, {what}: n and n - 1 are mixed up") for n, what in sized),
        *((1 - 1 / n, f"{n - 1}/{n}, {what}: n and n - 1 are mixed up") for n, what in sized),
    ):
        if is_(value):
            return f"it is the right gradient times {text}"
    return None


def _nothing(c: Comparison, context: Context) -> Iterator[str]:
    if c.got is None:
        yield "no gradient was returned, but it is not zero"
    elif c.got.shape == c.wanted.shape:
        if not np.any(c.got):
            yield "all zeros: this gradient is not computed"
        bad = ~np.isfinite(c.got) & np.isfinite(c.wanted)
        if np.any(bad):
            index, count = tuple(int(i) for i in np.argwhere(bad)[0]), int(bad.sum())
            some = "an element is not finite, that" if count == 1 else f"{count} elements are not finite, the first"
            yield f"{some} at {index}" if index else "it is not finite"


def _shape(c: Comparison, context: Context) -> Iterator[str]:
    got, wanted = c.got, c.wanted
    if got.shape == wanted.shape:
        return
    form = form_of(got, wanted, context.relative)
    if form and form.startswith("before its sum"):
        yield f"a sum over {_axes(form)} is missing: the argument was broadcast along {_them(form)}"
    elif form and form.startswith("transposed"):
        yield "transposed: the elements are right, their axes are in another order"
    elif form == "reshaped":
        left = got.size and [n for n in got.shape if n != 1] == [n for n in wanted.shape if n != 1]
        why = "axes of size 1 are left over (keepdims=True?), " if left and got.ndim > wanted.ndim else ""
        yield f"the elements are right, {why}the shape should be {wanted.shape}"
    elif form and form.startswith("summed"):
        yield f"summed over {_axes(form)} once too often"
    else:
        try:
            axes = broadcast_axes(got.shape, wanted.shape) if got.ndim >= wanted.ndim else ()
        except IndexError:
            axes = ()
        if axes:
            yield f"the shape is that before a sum over axes {axes}"


def _proportion(c: Comparison, context: Context) -> Iterator[str]:
    factor = factor_between(c.got, c.wanted, context.relative)
    if factor is not None:
        named = named_factor(factor, context.sizes, max(1e-6, context.relative))
        if c.wanted.size > 1 or named is not None:  # two numbers are always in proportion
            yield named or f"it is the right gradient times {factor:.7g}"


def _order(c: Comparison, context: Context) -> Iterator[str]:
    got, wanted = c.got, c.wanted
    if wanted.size > 1 and wanted.ndim > 1:
        for order, other in permuted(wanted, got.shape):
            factor = factor_between(got, other, context.relative)
            if factor is not None:
                times = "" if abs(factor - 1) < 1e-6 else f", times {factor:.6g}"
                swapped = [i for i, axis in enumerate(order) if i != axis]
                fits = tuple(wanted.shape[i] for i in order) == got.shape
                how = "transposed" if fits else "reshaped where it should be transposed"
                yield f"{how}: the right gradient with axes {tuple(swapped)} interchanged{times}"
                return
    for axis in range(wanted.ndim):
        if wanted.shape[axis] > 1:
            if close(got, np.flip(wanted, axis), context.relative):
                yield f"reversed along axis {axis}"
            for shift in (1, -1):
                if close(got, np.roll(wanted, shift, axis), context.relative):
                    yield f"shifted by {shift} along axis {axis}"


def _another(c: Comparison, context: Context) -> Iterator[str]:
    for name, other in context.wanted.items():
        if name != c.name and np.shape(other) == c.got.shape:
            factor = factor_between(c.got, other, context.relative)
            if factor is not None and abs(abs(factor) - 1) < 1e-6:
                yield f"this is the gradient of {name}" + ("" if factor > 0 else " with the other sign")
    if context.generated is not None and c.wanted.size > 1:
        place = context.generated.subject.names.index(c.name)
        ones = context.generated.gradients([np.ones_like(g) for g in context.gs])
        context.generated.gradients(context.gs)
        if factor_between(c.got, ones[place], context.relative) is not None:
            yield "the incoming gradient is ignored: this is the gradient of the sum of the result"


def _constant(c: Comparison, context: Context) -> Iterator[str]:
    """What if nothing flowed through one of the forward's values?"""
    if context.generated is None:
        return
    place = context.generated.subject.names.index(c.name)
    missing = c.wanted - c.got
    seen: list[Any] = []
    for truth in _named_first(context.generated.truths):
        if truth.gradient is None or truth.slot < len(context.generated.subject.names):
            continue
        without = np.asarray(context.generated.without(truth, context.gs)[place])
        if any(close(without, other, 1e-12) for other in seen):
            continue
        seen.append(without)
        through = c.wanted - without
        factor = factor_between(missing, through, context.relative)
        if factor is None or not np.any(without):
            continue
        line = f" ({truth.line})" if truth.line else ""
        if abs(factor - 1) < 1e-6:
            yield f"the term through {truth.name} is missing: it was treated as a constant{line}"
        elif abs(factor - 2) < 1e-6:
            yield f"the term through {truth.name} has the wrong sign{line}"
        elif c.wanted.size > 1:
            yield f"the term through {truth.name} is {1 - factor:.6g} times what it should be{line}"
        else:
            continue
        return


def _named_first(truths: Sequence[Truth]) -> list[Truth]:
    return sorted(truths, key=lambda t: (not t.names, t.slot))[:60]


def _part(c: Comparison, context: Context) -> Iterator[str]:
    """Is what is missing proportional to something that has a name?"""
    missing = c.wanted - c.got
    if context.generated is None or not missing.size:
        return
    for truth in _named_first(context.generated.truths):
        for value, what in ((truth.value, truth.name), (truth.gradient, f"the gradient of {truth.name}")):
            if value is None or not truth.names or np.ndim(value) == 0:
                continue
            try:
                value = np.broadcast_to(value, missing.shape)
            except ValueError:
                continue
            factor = factor_between(missing, value, context.relative)
            if factor is not None:
                yield f"what is missing is {factor:.6g} times {what}"
                return
            if missing.ndim > 1 and missing.shape[-1] > 2 and _proportional_in_rows(missing, value, context.relative):
                yield f"what is missing is, in each row, proportional to {what}"
                return


def _proportional_in_rows(a: Any, b: Any, relative: float) -> bool:
    with np.errstate(all="ignore"):
        c = np.sum(a * np.conj(b), -1, keepdims=True) / np.sum(np.abs(b) ** 2, -1, keepdims=True)
        return close(a, np.nan_to_num(c) * b, relative) and bool(np.any(a))


def _factor_array(c: Comparison, context: Context) -> Iterator[str]:
    """Is a factor missing that is an array, such as a gain?"""
    if context.generated is None:
        return
    for truth in _named_first(context.generated.truths):
        value = truth.value
        if not truth.names or np.size(value) < 2:
            continue
        try:
            value = np.broadcast_to(value, c.got.shape)
        except ValueError:
            continue
        with np.errstate(all="ignore"):
            if close(c.got * value, c.wanted, context.relative):
                yield f"a factor is missing: times {truth.name} it would be right"
                return
            if close(c.got, c.wanted * value, context.relative):
                yield f"a factor too many: divided by {truth.name} it would be right"
                return


def _where(c: Comparison, context: Context) -> Iterator[str]:
    """Are the wrong elements those that a mask hides, or those that are tied?"""
    wrong = c.wrong_elements
    if wrong is None or not wrong.any() or wrong.all():
        return
    count = int(wrong.sum())
    for name, mask in context.masks.items():
        for values, what in ((~mask, "False"), (mask, "True")):
            try:
                there = np.broadcast_to(values, wrong.shape)
            except ValueError:
                continue
            if not np.any(wrong & ~there) and np.any(c.wanted[~there] != 0):
                yield f"off only where {name} is {what} ({count} of {int(there.sum())} such elements)"
                return
    if context.generated is None:
        return
    place = context.generated.subject.names.index(c.name)
    value = np.asarray(context.generated.subject.leaves[place])
    zero = value == 0
    if zero.any() and not np.any(wrong & ~zero):
        yield f"off only where {c.name} is 0: a convention at a kink"
        return
    for axis in range(value.ndim):
        tied = (value == np.max(value, axis, keepdims=True)) | (value == np.min(value, axis, keepdims=True))
        alone = np.sum(tied & (value == np.max(value, axis, keepdims=True)), axis, keepdims=True) < 2
        tied &= ~alone
        if tied.any() and not np.any(wrong & ~tied):
            yield f"off only at ties: where {c.name} has several largest elements along axis {axis}"
            return
    for axis in range(wrong.ndim):
        rest = tuple(i for i in range(wrong.ndim) if i != axis)
        lines = np.flatnonzero(wrong.any(axis=rest))
        if wrong.shape[axis] > 1 and len(lines) == 1:
            yield f"off only at index {int(lines[0])} of axis {axis}"
            return


def _axes(form: str) -> str:
    return form.split("over ")[1]


def _them(form: str) -> str:
    return "them" if "," in _axes(form).rstrip(",)") else "it"

"""Arithmetic on basic indices, against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, basic_indices

from minigrad.slices import are_apart, as_index, composed, in_full, is_whole, same

SHAPES = array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


def positions(shape):
    return np.arange(np.prod(shape, dtype=int)).reshape(shape)


@given(st.data())
def test_an_index_into_an_index(data):
    x = positions(data.draw(SHAPES))
    first = data.draw(basic_indices(x.shape, allow_newaxis=True))
    view = x[first]
    second = data.draw(basic_indices(np.shape(view), allow_newaxis=True)) if isinstance(view, np.ndarray) else ()
    both = composed(x.shape, first, second)
    if both is None:  # nothing of a new axis
        assert view[second].size == 0
    else:
        np.testing.assert_array_equal(x[both], view[second], strict=True)
        assert isinstance(x[both], np.ndarray) == isinstance(view[second], np.ndarray)


@given(st.data())
def test_what_two_indices_have_in_common(data):
    x = positions(data.draw(SHAPES))
    one, other = (data.draw(basic_indices(x.shape)) for _ in range(2))
    a, b = np.ravel(x[one]), np.ravel(x[other])
    if are_apart(x.shape, one, other):
        assert not set(a) & set(b)
    else:
        assert set(a) & set(b) or x.size == 0 or not a.size or not b.size
    if same(x.shape, one, other):
        np.testing.assert_array_equal(x[one], x[other])


@given(st.data())
def test_an_index_in_full(data):
    x = positions(data.draw(SHAPES))
    index = data.draw(basic_indices(x.shape, allow_newaxis=True))
    np.testing.assert_array_equal(x[as_index(x.shape, in_full(x.shape, index))], x[index])


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        (1, slice(1, None), (1, slice(1, None))),
        ((slice(None), 2), (Ellipsis, 0), (slice(None), 2, 0)),
        (slice(1, None), slice(1, None), (slice(2, None),)),
        ((Ellipsis, slice(None, None, 2)), Ellipsis, (Ellipsis, slice(None, None, 2))),
        ((None, 1), (0, -1), (1, 3)),
        (slice(None, None, -1), slice(1, None), (slice(2, None, -1),)),
    ],
)
def test_indices_in_few_words(first, second, both):
    assert composed((4, 4, 4), first, second) == both


def test_whole():
    assert is_whole(...) and is_whole((slice(None), ...)) and is_whole(())
    assert not is_whole((slice(None), None)) and not is_whole(slice(0, 2))

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

from omniloader.data._names import CompactNames
from omniloader.data._values import as_column, decoded, handed_out, storable
from omniloader.errors import SampleError


@pytest.mark.parametrize(
    ("stored", "held"),
    [
        (">f4", "float32"),
        (">i8", "int64"),
        ("<f2", "float16"),
        ("?", "bool"),
        ("u1", "uint8"),
        ("<u2", "int32"),
        (">u4", "int64"),
        ("<u8", "int64"),
        ("<c8", "complex64"),
    ],
)
def test_values_stay_and_torch_holds_the_dtype(stored: str, held: str) -> None:
    array = np.array([0, 1, 1], dtype=stored)
    ready = storable(array, "here")
    assert ready.dtype == np.dtype(held)
    assert np.array_equal(ready, array)
    torch.from_numpy(ready)


def test_layout_is_made_plain() -> None:
    base = np.arange(6.0).reshape(2, 3)
    assert storable(base, "here") is base
    for view in (base.T, base[:, ::-1], np.broadcast_to(base, (2, 2, 3))):
        ready = storable(view, "here")
        assert np.array_equal(ready, view)
        assert ready.flags.c_contiguous
        assert ready.flags.writeable


def test_unsigned_beyond_int64_is_refused() -> None:
    with pytest.raises(
        SampleError, match="key 'x': values must fit int64, got uint64 up to 184467"
    ):
        storable(np.array([2**64 - 1], dtype=np.uint64), "key 'x'")


@pytest.mark.parametrize(
    "array",
    [
        np.ones(1, np.longdouble),
        np.array([object()]),
        np.zeros(1, [("a", "i4")]),
        np.array(["2020-01-01"], "M8[D]"),
        np.array(["a"]),
    ],
)
def test_what_torch_cannot_hold_is_refused(array: np.ndarray) -> None:
    with pytest.raises(SampleError, match="here: values must be numbers, bool or text"):
        storable(array, "here")


def test_text_is_decoded() -> None:
    assert decoded(b"caf\xc3\xa9", "here") == "café"
    assert decoded(np.bytes_(b"ab"), "here") == "ab"
    assert decoded(np.array(["a", "b"]), "here") == ["a", "b"]
    assert decoded(np.array([[b"a"], ["b"]], dtype=object), "here") == [["a"], ["b"]]


def test_text_that_is_none_is_refused() -> None:
    with pytest.raises(
        SampleError, match=r"here: text must be UTF-8, got b'\\xff' \(invalid start"
    ):
        decoded(b"\xff", "here")
    with pytest.raises(SampleError, match="here: every item must be text, got int"):
        decoded(["a", 1], "here")


def test_shared_values_are_copied() -> None:
    array, texts = np.zeros(2), [["a"]]
    handed_out(array, shared=True).add_(1)
    handed_out(texts, shared=True)[0].append("b")
    assert array.tolist() == [0, 0]
    assert texts == [["a"]]
    assert handed_out(array, shared=False).data_ptr() == array.ctypes.data


def test_columns_stack_only_equal_rows() -> None:
    assert torch.equal(
        as_column([np.ones(2), np.zeros(2)], shared=False),
        torch.tensor([[1.0, 1], [0, 0]]).double(),
    )
    ragged = as_column([np.ones(2), None, np.ones(3)], shared=False)
    assert isinstance(ragged, list)
    assert [None if row is None else len(row) for row in ragged] == [2, None, 3]
    mixed = as_column([np.ones(2), np.ones(2, np.float32)], shared=False)
    assert [row.dtype for row in mixed] == [torch.float64, torch.float32]
    assert as_column(["a", None], shared=False) == ["a", None]
    assert as_column([], shared=False) == []


def test_names_read_like_a_tuple() -> None:
    texts = ["b", "", "añ", "b\udcff"]
    names = CompactNames(texts)
    assert list(names) == texts
    assert names == texts
    assert names == tuple(texts)
    assert names == CompactNames(texts)
    assert names != texts[:3]
    assert names != "b"
    assert names[-1] == texts[-1]
    assert names[1:3] == ("", "añ")
    assert "añ" in names
    with pytest.raises(IndexError):
        names[4]
    assert repr(names) == "CompactNames(['b', '', 'añ', …], n=4)"
    assert pickle.loads(pickle.dumps(names)) == texts  # noqa: S301
    assert len(CompactNames()) == 0


def test_names_are_compact() -> None:
    names = CompactNames(f"{i:06}" for i in range(10_000))
    assert len(pickle.dumps(names)) < 16 * 10_000

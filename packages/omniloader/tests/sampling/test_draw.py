from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest

from omniloader.sampling.draw import DrawBatch, DrawIndex


def test_a_draw_is_an_int_everywhere() -> None:
    draw = DrawIndex(5, epoch=2, visit=1)
    assert isinstance(draw, int)
    assert draw == 5
    assert f"{draw}" == repr(draw) == "5"
    assert ["a", "b", "c", "d", "e", "f"][draw] == "f"
    assert json.dumps([draw]) == "[5]"
    assert {draw: 1}[5] == 1


def test_a_draw_that_says_nothing_is_the_first_of_epoch_0() -> None:
    draw = DrawIndex(5)
    assert (draw.epoch, draw.visit) == (0, 0)


def _pickled(draw: DrawIndex) -> DrawIndex:
    return pickle.loads(pickle.dumps(draw))  # type: ignore[no-any-return]  # noqa: S301


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, _pickled])
def test_a_draw_survives_copies(again: object) -> None:
    draw = again(DrawIndex(5, epoch=2, visit=1))  # type: ignore[operator]
    assert type(draw) is DrawIndex
    assert (int(draw), draw.epoch, draw.visit) == (5, 2, 1)


def batch() -> DrawBatch:
    return DrawBatch(np.array([4, 7, 4]), np.array([0, 0, 1]), epoch=3)


def test_a_batch_is_a_sequence_of_draws() -> None:
    assert len(batch()) == 3
    assert [(int(d), d.epoch, d.visit) for d in batch()] == [(4, 3, 0), (7, 3, 0), (4, 3, 1)]
    assert (batch()[-1], batch()[-1].visit, batch()[-1].epoch) == (4, 1, 3)
    assert batch()[1:] == DrawBatch(np.array([7, 4]), np.array([0, 1]), epoch=3)
    assert 7 in batch()
    assert batch().count(4) == 2
    with pytest.raises(IndexError):
        batch()[3]


def test_a_batch_equals_its_like() -> None:
    assert batch() == batch()
    assert batch() == [4, 7, 4]
    assert batch() != [4, 7]
    assert batch() != DrawBatch(np.array([4, 7, 4]), np.array([0, 0, 1]), epoch=2)
    assert batch() != DrawBatch(np.array([4, 7, 4]), np.array([0, 0, 0]), epoch=3)
    assert batch() != "474"
    assert repr(batch()) == "DrawBatch([4, 7, 4], epoch=3)"


def test_a_batch_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(batch())) == batch()  # noqa: S301

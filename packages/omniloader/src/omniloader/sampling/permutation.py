"""Shuffles that are functions: the item at any position, without the list.

A *keyed permutation* of ``[0, n)`` is a Feistel network on the two halves of a position, with
cycle walking (Black & Rogaway 2002, "Ciphers with arbitrary finite domains"): a position whose
image falls outside ``[0, n)`` is sent through again. It costs no memory and is evaluated at any
positions in any order. On few items such a network is visibly not uniform, so up to ``SMALL``
items are really shuffled, by sorting random words.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from omniloader._types import IntArray
from omniloader.utils.seeding import derive_keys

SMALL = 128
"""Up to this many items are shuffled by sorting."""

Keys = npt.NDArray[np.uint64]
_Words = npt.NDArray[np.uint32]

# One odd constant a round turns a key into round keys: the fractional bits of the golden ratio
# times odd numbers, so that no two are alike.
_ROUND_CONSTANTS = tuple(
    np.uint64((0x9E3779B97F4A7C15 * (2 * number + 1)) & ((1 << 64) - 1)) for number in range(6)
)
_MIX = np.uint32(0x7FEB352D)
_SPREAD = np.uint32(0x9E3779B1)
_MAX_ITEMS = 1 << 62


def permute(positions: IntArray, size: int, keys: Keys | np.uint64) -> IntArray:
    """The items at ``positions`` of the shuffle of ``[0, size)`` that ``keys`` names.

    ::

        >>> permute(np.arange(5), 5, np.uint64(7)).tolist()
        [3, 1, 0, 2, 4]

    Args:
        positions: int64 ``(n,)``, each in ``[0, size)``.
        size: Number of items, up to 2**62.
        keys: One key for all positions, or uint64 ``(n,)`` with a key for each: positions of
            different shuffles at once.

    Returns:
        int64 ``(n,)``; over all positions of one key, each item exactly once.
    """
    apply = _look_up if size <= SMALL else _walk
    return apply(positions, size, np.atleast_1d(keys), inverse=False)


def unpermute(items: IntArray, size: int, keys: Keys | np.uint64) -> IntArray:
    """The positions at which ``items`` stand: the inverse of :func:`permute`.

    Args:
        items: int64 ``(n,)``, each in ``[0, size)``.
        size: Number of items.
        keys: As for :func:`permute`.

    Returns:
        int64 ``(n,)``.
    """
    apply = _look_up if size <= SMALL else _walk
    return apply(items, size, np.atleast_1d(keys), inverse=True)


def _look_up(values: IntArray, size: int, keys: Keys, *, inverse: bool) -> IntArray:
    """Shuffle by sorting: one row of random words for each different key."""
    distinct, row = (keys, 0) if len(keys) == 1 else np.unique(keys, return_inverse=True)
    words = derive_keys(0, distinct.view(np.int64)[:, None], np.arange(size)[None, :])
    table = np.argsort(words, axis=1, kind="stable")
    if inverse:
        table = np.argsort(table, axis=1, kind="stable")
    return np.asarray(table[row, values], dtype=np.int64)


def _walk(values: IntArray, size: int, keys: Keys, *, inverse: bool) -> IntArray:
    """Apply the network until every value is back below ``size``."""
    if size > _MAX_ITEMS:
        raise ValueError(f"size must be at most 2**62, got {size}")
    out = _feistel(values, size, keys, inverse=inverse)
    outside = np.flatnonzero(out >= size)
    while len(outside):
        some = keys if len(keys) == 1 else keys[outside]
        again = _feistel(out[outside], size, some, inverse=inverse)
        out[outside] = again
        outside = outside[again >= size]
    return out


def _feistel(values: IntArray, size: int, keys: Keys, *, inverse: bool) -> IntArray:
    """Six rounds on a low half of whole bits and a high half below a limit.

    The limit keeps the domain within one low half of ``size``, so that hardly a value has to
    walk. Both halves fit 32 bits, so the rounds run on uint32 words.
    """
    bits = (size - 1).bit_length() // 2
    limit = np.uint64(-(-size >> bits))
    low = (values & ((1 << bits) - 1)).astype(np.uint32)
    high = (values >> bits).astype(np.uint32)
    rounds = range(len(_ROUND_CONSTANTS))
    for number in reversed(rounds) if inverse else rounds:
        if number % 2:
            word = _round(high, number, keys)
            word >>= np.uint32(32 - bits)
            low ^= word
        else:
            high = _turn(high, _round(low, number, keys), limit, back=inverse)
    out = high.astype(np.int64)
    out <<= bits
    out |= low
    return out


def _turn(high: _Words, word: _Words, limit: np.uint64, *, back: bool) -> _Words:
    """Move a half by a hash scaled to the limit, around the circle of ``limit`` values."""
    step = word * limit
    step >>= np.uint64(32)
    moved = high + (limit - step if back else step)
    moved -= limit * (moved >= limit)
    return moved.astype(np.uint32)


def _round(half: _Words, number: int, keys: Keys) -> _Words:
    """A 32-bit hash of one half and the round's key."""
    # Arrays of one element, not scalars: those would warn when they overflow, as they must.
    round_key = keys * _ROUND_CONSTANTS[number]
    word = half * _SPREAD
    word += (round_key >> np.uint64(32)).astype(np.uint32)
    word ^= word >> np.uint32(15)
    word *= _MIX
    word ^= round_key.astype(np.uint32)
    word ^= word >> np.uint32(15)
    word *= _SPREAD
    return word

"""Saved states: where a run stands in its order, and of which mix."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from omniloader._types import IntArray
from omniloader.errors import StateError
from omniloader.sampling.carry import Carry, cursors_of
from omniloader.sampling.mixing import MixingStrategy
from omniloader.sampling.plan import PLAN_VERSION

State = dict[str, Any]


class Cursor:
    """Where an iteration began, how far it came, and where the next one begins.

    Positions belong to an epoch: in another one they mean nothing, and iterations begin at 0.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self.origin = 0
        self.pending = 0
        self.done = 0

    def begin(self, epoch: int) -> int:
        """Start an iteration; a position to go on from is used once."""
        self.origin = self.pending if epoch == self.epoch else 0
        self.epoch, self.pending, self.done = epoch, 0, 0
        return self.origin

    def jump(self, epoch: int, position: int) -> None:
        """Let the next iteration of ``epoch`` begin at ``position``."""
        self.epoch, self.done = epoch, 0
        self.origin = self.pending = position

    def at(self, epoch: int, consumed: int | None, stride: int) -> int:
        """The position after ``consumed`` items (default: all handed out) of ``stride`` each."""
        if epoch != self.epoch:
            return 0
        return self.origin + (self.done if consumed is None else consumed) * stride


def mix_of(strategy: MixingStrategy) -> State:
    """Everything an order depends on, besides seed and epoch, as plain values."""
    return {
        "names": list(strategy.names),
        "sizes": list(strategy.sizes),
        "strategy": type(strategy).__name__,
        # An option that is off leaves no trace, so that new options do not change old mixes.
        "settings": {k: v for k, v in strategy.settings().items() if v is not None},
        "subsample": [
            {
                "replacement": config.replacement,
                "policy": config.policy.value,
                "effective_size": config.effective_size,
                "sample_weights": config.weights_digest,
            }
            for config in strategy.subsample
        ],
    }


def is_of(state: Mapping[str, Any], strategy: MixingStrategy) -> bool:
    """Whether a state is of this mix."""
    return bool(state.get("fingerprint") == fingerprint_of(mix_of(strategy)))


def fingerprint_of(mix: Mapping[str, Any]) -> str:
    """A short name of a mix: equal for equal ones."""
    text = json.dumps(mix, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def state_of(
    strategy: MixingStrategy, epoch: int, position: int, drawn: IntArray, carry: Carry | None
) -> State:
    """The state of a run after ``position`` draws of an epoch, over all ranks: plain JSON.

    Args:
        strategy: Its mix.
        epoch: Its epoch.
        position: Draws of the epoch so far; those of an earlier mix not counted.
        drawn: The same for each source, int64 ``(S,)``.
        carry: What it brought from an earlier mix.
    """
    mix = mix_of(strategy)
    keys = range(len(drawn)) if carry is None else carry.keys
    if carry is not None and epoch == carry.epoch:
        drawn = drawn + np.asarray(carry.drawn)
    before = strategy.drawn_before(epoch, carry)
    state = {
        "version": PLAN_VERSION,
        "epoch": epoch,
        "position": position,
        "seed": strategy.seed,
        "fingerprint": fingerprint_of(mix),
        "mix": mix,
        "cursors": cursors_of(strategy.names, keys, before.tolist(), drawn.tolist()),
    }
    if carry is not None:
        state["carry"] = carry.to_state(strategy.names)
    return state


def migrated(state: Mapping[str, Any], strategy: MixingStrategy) -> Carry:
    """What a state of another mix carries over: the cursors of the sources that are unchanged."""
    before, after = _by_name(state["mix"]), _by_name(mix_of(strategy))
    cursors = {
        name: cursor
        for name, cursor in state["cursors"].items()
        if name in after and before[name] == after[name]
    }
    # A source that has changed must not share its order with one that is gone, either.
    free = 1 + max(int(cursor["key"]) for cursor in state["cursors"].values())
    for number, name in enumerate(after):
        cursors.setdefault(name, {"key": free + number, "before": 0, "drawn": 0})
    return Carry.from_state({"epoch": state["epoch"], "cursors": cursors}, strategy.names)


def check_state(state: object, strategy: MixingStrategy) -> list[str]:
    """Check that a state is whole and of this version and seed; say how its mix differs.

    Returns:
        One line for each difference between the state's mix and this one; empty if they agree.

    Raises:
        StateError: If the state is not usable at all.
    """
    if not isinstance(state, Mapping):
        raise StateError(f"sampler state must be a mapping, got {type(state).__name__}")
    missing = [
        key
        for key in ("version", "epoch", "position", "seed", "fingerprint", "mix", "cursors")
        if key not in state
    ]
    if missing:
        raise StateError(
            f"sampler state lacks {', '.join(missing)}; it is truncated or not from a sampler "
            "of omniloader"
        )
    if state["version"] != PLAN_VERSION:
        raise StateError(
            f"sampler state is of plan version {state['version']}, this is version "
            f"{PLAN_VERSION}: the order has changed; finish the run with the version that "
            "began it, or start a new epoch"
        )
    for key in ("epoch", "position"):
        value = state[key]
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise StateError(
                f"sampler state: {key} must be a whole number of at least 0, got {value!r}"
            )
    for key in ("mix", "cursors"):
        if not isinstance(state[key], Mapping):
            raise StateError(
                f"sampler state: {key} must be a mapping, got {type(state[key]).__name__}"
            )
    if state["seed"] != strategy.seed:
        raise StateError(
            f"sampler state was saved with seed {state['seed']}, this strategy has seed "
            f"{strategy.seed}; use the same seed to go on with the same order"
        )
    return [] if is_of(state, strategy) else differences(state["mix"], mix_of(strategy))


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What changed between two mixes, a line each."""
    lines = _source_changes(old, new)
    if old.get("strategy") != new["strategy"]:
        lines.append(f"strategy: {old.get('strategy')} is now {new['strategy']}")
    lines += _changes("strategy", old.get("settings", {}), new["settings"])
    return lines or ["the mix"]


def _source_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    before, after = _by_name(old), _by_name(new)
    lines = [f"source '{name}' is gone" for name in before if name not in after]
    lines += [f"source '{name}' is new" for name in after if name not in before]
    for name in before:
        if name in after:
            lines += _changes(f"source '{name}'", before[name], after[name])
    common = [name for name in before if name in after]
    if common != [name for name in after if name in before]:
        lines.append(f"sources stand in another order: {', '.join(after)}")
    return lines


def _by_name(mix: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        name: {"size": size, **config}
        for name, size, config in zip(mix["names"], mix["sizes"], mix["subsample"], strict=True)
    }


def _changes(whose: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    return [
        f"{whose}: {key} was {old.get(key)}, is {new.get(key)}"
        for key in dict.fromkeys([*old, *new])
        if old.get(key) != new.get(key)
    ]

"""Every field of a config has an effect, whichever way a loader is made of it."""

from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import torch
from corpora import SENSORS, SPEECH, write_config, write_corpora

from omniloader.cli import main
from omniloader.config import OmniConfig, OmniDataLoader
from omniloader.config.model import ConfigFields
from omniloader.errors import SampleError

lightning = pytest.importorskip("omniloader.integrations.lightning")

Batches = list[dict[str, Any]]

NATIVE = {"pad_features": False, "collate": "dynamic"}
# Fractions cannot be held by whole numbers: no sample of this source fits.
UNFIT = {
    **SPEECH,
    "schema": {
        "features": [{"name": "audio", "feature_dim": 8, "time_dim": 12, "dtype": "int32"}],
        "targets": SPEECH["schema"]["targets"],
    },
}


class Row(NamedTuple):
    """One field: what it is set to, what must be seen then, and by whom."""

    value: Any
    probe: Callable[[OmniDataLoader], Any]
    seen: Any
    given: Mapping[str, Any] = MappingProxyType({})  # set with the field and without it
    training: bool = True


def batches(loader: OmniDataLoader) -> Batches:
    with warnings.catch_warnings(record=True):  # on_error="mask" says what it masks
        warnings.simplefilter("always")
        return list(loader)


def order(loader: OmniDataLoader) -> list[list[int]]:
    return [batch["index"].tolist() for batch in batches(loader)]


def first(loader: OmniDataLoader) -> list[int]:
    return order(loader)[0]


def sizes(loader: OmniDataLoader) -> list[int]:
    return sorted(map(len, order(loader)))


def draws(loader: OmniDataLoader) -> dict[str, int]:
    found = [name for batch in batches(loader) for name in batch["dataset"]]
    return {name: found.count(name) for name in sorted(set(found))}


def steps(loader: OmniDataLoader) -> list[int]:
    """Numbers of padded steps of ``audio``."""
    return sorted({batch["audio"].shape[1] for batch in batches(loader)})


def padded(loader: OmniDataLoader) -> int:
    return sum(batch["audio"].shape[1] * len(batch["audio"]) for batch in batches(loader))


def most_sources(loader: OmniDataLoader) -> int:
    return max(len(set(batch["dataset"])) for batch in batches(loader))


def holds(name: str) -> Callable[[OmniDataLoader], bool]:
    return lambda loader: name in batches(loader)[0]


def option(name: str) -> Callable[[OmniDataLoader], Any]:
    return lambda loader: getattr(loader, name)


def new_processes(loader: OmniDataLoader) -> int:
    before = set(multiprocessing.active_children())
    iterator = iter(loader)
    next(iterator)
    return len(set(multiprocessing.active_children()) - before)


def outcome(loader: OmniDataLoader) -> str:
    try:
        values = [batch["audio_mask"] for batch in batches(loader)]
    except SampleError:
        return "raised"
    return "some" if any(bool(mask.any()) for mask in values) else "masked"


ROWS = {
    "seed": Row(7, first, [16, 2, 15, 5]),
    "batch_size": Row(5, sizes, [3, 5, 5, 5, 5, 5]),
    "num_workers": Row(2, new_processes, 2),
    "pad_features": Row(False, steps, [8, 9, 10, 11, 12], {"collate": "dynamic"}),
    "strategy": Row("round_robin", draws, {"sensors": 20, "speech": 20}),
    "strategy_kwargs": Row(
        {"temperature": 1e6}, draws, {"sensors": 14, "speech": 14}, {"strategy": "temperature"}
    ),
    "transforms": Row([{"name": "random_crop", "length": 3}], steps, [3]),
    "eval_transforms": Row(
        [{"name": "center_crop", "length": 3}],
        steps,
        [3],
        {"transforms": [{"name": "center_crop", "length": 5}]},
        training=False,
    ),
    "datasets": Row([SPEECH], draws, {"speech": 20}),
    "subsample": Row({"effective_size": 4}, draws, {"sensors": 4, "speech": 4}),
    "collate": Row("mixup", holds("mixup_lambda"), True),
    "collate_kwargs": Row({"keys": ["motion"]}, steps, [12], NATIVE),
    "composition": Row("per_source", most_sources, 1),
    "batch_sizes": Row(
        {"sensors": 2}, sizes, [2, 2, 2, 2, 4, 4, 4, 4, 4], {"composition": "per_source"}
    ),
    "bucketing": Row({"key": "audio"}, padded, 180, NATIVE),
    "num_replicas": Row(2, lambda loader: sum(sizes(loader)), 14),
    "rank": Row(1, first, [10, 18, 20, 9], {"num_replicas": 2}),
    "drop_last": Row(True, sizes, [5] * 5, {"batch_size": 5}),
    "pin_memory": Row(True, option("pin_memory"), True),
    "persistent_workers": Row(True, option("persistent_workers"), True, {"num_workers": 1}),
    "prefetch_factor": Row(3, option("prefetch_factor"), 3, {"num_workers": 1}),
    "metadata": Row(["speaker"], holds("speaker"), True),
    "on_error": Row("mask", outcome, "masked", {"datasets": [UNFIT]}),
    "error_budget": Row(3, outcome, "raised", {"datasets": [UNFIT], "on_error": "mask"}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mix")
    write_corpora(folder)
    return folder


def unwalked(model: type[ConfigFields]) -> set[str]:
    return set(model.model_fields) ^ set(ROWS)


def test_every_field_has_a_row() -> None:
    assert unwalked(ConfigFields) == set()


def test_a_new_field_is_noticed() -> None:
    class Grown(ConfigFields):
        novelty: int = 0

    assert unwalked(Grown) == {"novelty"}


# -- the ways to a loader ------------------------------------------------------------------


def by_config(path: Path, training: bool, monkeypatch: pytest.MonkeyPatch) -> OmniDataLoader:
    return OmniConfig.from_file(path).build_dataloader(training=training)


def by_lightning(path: Path, training: bool, monkeypatch: pytest.MonkeyPatch) -> OmniDataLoader:
    module = lightning.OmniDataModule(OmniConfig.from_file(path))
    module.setup("fit")
    return module.train_dataloader() if training else module.val_dataloader()


def by_command(path: Path, training: bool, monkeypatch: pytest.MonkeyPatch) -> OmniDataLoader:
    """The loader whose batches ``preview`` counts."""
    iterated: list[OmniDataLoader] = []
    iterate = OmniDataLoader.__iter__

    def spied(loader: OmniDataLoader) -> Any:
        iterated.append(loader)
        return iterate(loader)

    with monkeypatch.context() as patch, warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        patch.setattr(OmniDataLoader, "__iter__", spied)
        # 1: a bad sample has ended it.
        assert main(["preview", str(path), "--json", *([] if training else ["--eval"])]) in (0, 1)
    (loader,) = iterated
    return loader


@pytest.mark.filterwarnings("ignore:.*pin_memory.*", "ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("way", [by_config, by_lightning, by_command])
@pytest.mark.parametrize("field", ROWS)
def test_a_field_has_its_effect(
    field: str, way: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = ROWS[field]
    if field == "pin_memory":  # has no effect without an accelerator
        monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
        monkeypatch.setattr(OmniDataLoader, "__iter__", lambda loader: iter(()))
    base = {"datasets": [SPEECH, SENSORS], **row.given}
    plain, changed = (
        row.probe(way(write_config(folder, **options), row.training, monkeypatch))
        for options in (base, {**base, field: row.value})
    )
    assert changed == row.seen
    assert plain != row.seen

"""What a data config may say."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from blinkdata import CEW, RN15, write_configs

from blinklinmult.data.schema import SchemaError
from blinklinmult.train.config import ConfigError, DataConfig


def test_defaults_are_those_of_the_contract() -> None:
    config = DataConfig(datasets=["cew"])
    given = dataclasses.asdict(config)
    assert given == {
        "datasets": ["cew"],
        "eval_datasets": [],
        "window_seconds": 1.5,
        "time_dim": None,
        "image_size": None,
        "stills": False,
        "still_stride": 6,
        "still_open_to_closed": 1.0,
        "fit_fractions": {},
        "embedding_cache": None,
        "embedding_dim": None,
        "strategy": "temperature",
        "strategy_kwargs": {},
        "batch_size": 32,
        "num_workers": 8,
        "pin_memory": True,
        "persistent_workers": True,
        "prefetch_factor": 2,
        "cache_size": 0,
        "preload": False,
        "seed": 42,
        "transforms": [],
    }
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.seed = 3  # type: ignore[misc]
    assert issubclass(ConfigError, ValueError)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"datasets": []}, "datasets: must name at least one corpus of talkingface"),
    ({"datasets": ["cew", "cew"]}, "'cew' stands twice in datasets and eval_datasets"),
    ({"eval_datasets": ["cew"]}, "'cew' stands twice in datasets and eval_datasets"),
    ({"datasets": ["cev"]}, r"unknown corpus 'cev', did you mean 'cew'\?"),
    ({"datasets": "cew"}, "datasets: must be a list, got 'cew'"),
    ({"strategy": "temprature"}, r"strategy: unknown strategy 'temprature', did you mean 'temp"),
    ({"strategy": "scheduled"}, r"unknown strategy 'scheduled'.*; known: .*round_robin$"),
    ({"fit_fractions": {"cew": 1.5}}, r"fit_fractions.cew: must be in \(0, 1\], got 1.5"),
    ({"fit_fractions": {"cew": 0}}, r"fit_fractions.cew: must be in \(0, 1\], got 0"),
    ({"fit_fractions": {"rn30": 0.1}}, r"fit_fractions: 'rn30' is no corpus of datasets \(cew\)"),
    ({"stills": True, "time_dim": 5}, "time_dim: must be 1 or left out with stills"),
    (
        {"embedding_cache": "x", "transforms": [{"name": "gaussian_noise"}]},
        "transforms: must be empty with embedding_cache",
    ),
    ({"embedding_dim": 4}, "embedding_dim: means nothing without embedding_cache"),
    ({"batchsize": 4}, r"batchsize: unknown key, did you mean 'batch_size'\?"),
    ({"batch_size": 0}, "batch_size: must be at least 1, got 0"),
    ({"num_workers": -1}, "num_workers: must be at least 0, got -1"),
    ({"prefetch_factor": 0}, "prefetch_factor: must be at least 1, got 0"),
    ({"window_seconds": -1}, "window_seconds: must be a positive number, got -1"),
    ({"still_open_to_closed": 0}, "still_open_to_closed: must be a positive number, got 0"),
    ({"preload": 1, "seed": "x"}, r"2 problems:\npreload: must be true or false.*\nseed: must be"),
]


@pytest.mark.parametrize(("changes", "text"), BAD, ids=[str(changes) for changes, _ in BAD])
def test_what_cannot_be_used_is_refused(changes: dict[str, Any], text: str) -> None:
    values = {"datasets": ["cew"], **changes}
    with pytest.raises(ConfigError, match=text):
        DataConfig.from_dict(values)
    if "batchsize" not in changes:
        with pytest.raises(ConfigError, match=text):
            DataConfig(**values)


def test_a_config_comes_from_a_file_with_lines_in_its_messages(tmp_path: Path) -> None:
    path = tmp_path / "data.yaml"
    path.write_text("datasets: [cew, rn15]\nfit_fractions: {rn15: 1e-1}\nx-note: mine\n")
    assert DataConfig.from_file(path).fit_fractions == {"rn15": 0.1}
    path.write_text("datasets: [cew]\nbatch: 3\n")
    with pytest.raises(ConfigError, match=r"data.yaml:2: batch: unknown key"):
        DataConfig.from_file(path)
    with pytest.raises(ConfigError, match="there is no such config file"):
        DataConfig.from_file(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="must be a mapping"):
        DataConfig.from_dict(["cew"])  # type: ignore[arg-type]


def test_declarations_are_read_in_the_windows_of_the_run(tmp_path: Path) -> None:
    folder = write_configs(tmp_path, [CEW, RN15])
    config = DataConfig(datasets=["cew"], eval_datasets=["rn15"], window_seconds=0.5)
    specs = config.resolve_specs(folder)
    assert [(spec.name, spec.time_dim) for spec in specs] == [("cew", 1), ("rn15", 2)]
    assert specs[0] == CEW
    assert DataConfig(datasets=["rn15"], window_seconds=None).resolve_specs(folder) == [RN15]


def test_bad_declarations_name_the_corpus_and_the_file(tmp_path: Path) -> None:
    folder = write_configs(tmp_path, [CEW])
    config = DataConfig(datasets=["mrl"])
    with pytest.raises(ConfigError, match=r"corpus 'mrl': .*mrl.yaml: there is no such config"):
        config.resolve_specs(folder)
    (folder / "mrl.yaml").write_text("name: cew\nhas_eye_state: true\n")
    with pytest.raises(ConfigError, match=r"mrl.yaml' declares 'cew'; name the file after its"):
        config.resolve_specs(folder)
    (folder / "mrl.yaml").write_text("has_eye_stat: true\n")
    with pytest.raises(SchemaError, match=r"mrl.yaml': corpus 'mrl': 'has_eye_stat': unknown key"):
        config.resolve_specs(folder)

"""OmniDataModule under a real Trainer on the CPU."""

from __future__ import annotations

import importlib.util
import logging
import sys
import warnings
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

import omniloader.integrations.lightning
from omniloader.config import OmniConfig
from omniloader.data.memory import DictTensorDataset
from omniloader.errors import ConfigError, PlanError, StateError
from omniloader.integrations.lightning import OmniDataModule
from omniloader.schema.spec import DatasetSchema, TensorSpec, UnifiedSchema

pytestmark = pytest.mark.filterwarnings(
    # Lightning's advice on workers, logging folders and devices; not about what is tested.
    "ignore:.*does not have many workers.*",
    "ignore:.*Consider setting `persistent_workers.*",
    "ignore:.*GPU available.*",
    "ignore:.*callbacks used to create the checkpoint.*",
    "ignore:.*Checkpoint directory .* exists.*",
    "ignore:.*fork.*:DeprecationWarning",
    "ignore:.*isinstance.treespec.*",
    "ignore:.*LeafSpec.*",
)

FACES = DatasetSchema(features=[TensorSpec("x", feature_dim=3)], targets=[TensorSpec("y")])
SPEECH = DatasetSchema(features=[TensorSpec("x", feature_dim=3)], targets=[TensorSpec("z")])


def split(faces: int, speech: int) -> tuple[list[Any], list[DatasetSchema]]:
    generator = torch.Generator().manual_seed(faces * 100 + speech)
    sources = [
        DictTensorDataset(
            {"x": torch.randn(size, 3, generator=generator), name: torch.arange(size).float()}
        )
        for size, name in ((faces, "y"), (speech, "z"))
    ]
    return sources, [FACES, SPEECH]


class Recorder(lightning.LightningModule):
    """A model that keeps what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 1)
        self.seen: dict[str, list[tuple[int, list[int], float]]] = {}

    def _keep(self, stage: str, batch: dict[str, Any]) -> None:
        found = (int(batch["epoch"][0]), batch["index"].tolist(), float(batch["x"].sum()))
        self.seen.setdefault(stage, []).append(found)

    def training_step(self, batch: dict[str, Any], index: int) -> torch.Tensor:
        self._keep("train", batch)
        return self.layer(batch["x"]).square().mean()

    def validation_step(self, batch: dict[str, Any], index: int) -> None:
        self._keep("valid", batch)

    def test_step(self, batch: dict[str, Any], index: int) -> None:
        self._keep("test", batch)

    def predict_step(self, batch: dict[str, Any], index: int) -> torch.Tensor:
        self._keep("predict", batch)
        return batch["index"]

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)


def trainer(folder: Path, **options: Any) -> lightning.Trainer:
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    settings: dict[str, Any] = {
        "accelerator": "cpu",
        "devices": 1,
        "max_epochs": 3,
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "num_sanity_val_steps": 0,
        "default_root_dir": folder,
        **options,
    }
    return lightning.Trainer(**settings)


def module(**options: Any) -> OmniDataModule:
    noise = {"name": "gaussian_noise", "std": 0.5, "p": 1.0}
    config = OmniConfig(
        seed=5,
        batch_size=4,
        strategy="temperature",
        transforms=[noise],
        **options,
    )
    return OmniDataModule(config, train=split(20, 10), valid=split(5, 4), test=split(3, 2))


def fit(folder: Path, data: OmniDataModule, **options: Any) -> list[tuple[int, list[int], float]]:
    model = Recorder()
    ckpt_path = options.pop("ckpt_path", None)
    trainer(folder, **options).fit(model, datamodule=data, ckpt_path=ckpt_path)
    return model.seen["train"]


VARIANTS = [
    {},
    {"drop_last": True},
    {"composition": "per_source"},
    {"num_workers": 2, "persistent_workers": True},
]


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_epochs_advance_by_themselves_and_equal_those_of_a_plain_loop(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    seen = fit(tmp_path, module(**options), limit_val_batches=0)
    expected = []
    data = module(**{**options, "num_workers": 0, "persistent_workers": False})
    data.setup()
    for epoch in range(3):
        data.set_epoch(epoch)
        expected += [
            (epoch, batch["index"].tolist(), float(batch["x"].sum()))
            for batch in data.train_dataloader()
        ]
    assert seen == expected
    assert len({tuple(indices) for _, indices, _ in seen}) > len(seen) // 2


def test_validation_test_and_prediction_run_in_full_and_in_order(tmp_path: Path) -> None:
    model, data = Recorder(), module()
    runner = trainer(tmp_path, max_epochs=1)
    runner.fit(model, datamodule=data)
    runner.validate(model, datamodule=data, verbose=False)
    runner.test(model, datamodule=data, verbose=False)
    predicted = runner.predict(model, datamodule=data)
    in_order = {
        stage: [index for _, indices, _ in model.seen[stage] for index in indices]
        for stage in ("valid", "test", "predict")
    }
    assert in_order == {
        "valid": [*range(9), *range(9)],
        "test": list(range(5)),
        "predict": list(range(5)),
    }
    assert predicted is not None
    assert torch.cat(predicted).tolist() == list(range(5))  # type: ignore[arg-type]


@pytest.mark.parametrize("step", [1, 3, 7, 8, 11, 16])
@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_fit_goes_on_in_the_middle_of_an_epoch(
    tmp_path: Path, options: dict[str, Any], step: int
) -> None:
    whole = fit(tmp_path, module(**options), limit_val_batches=0)
    saved = ModelCheckpoint(tmp_path / "saved", every_n_train_steps=step, save_top_k=-1)
    first = fit(
        tmp_path,
        module(**options),
        max_steps=step,
        callbacks=[saved],
        enable_checkpointing=True,
        limit_val_batches=0,
    )
    rest = fit(tmp_path, module(**options), ckpt_path=saved.best_model_path, limit_val_batches=0)
    assert first + rest == whole


def test_fit_goes_on_at_the_end_of_an_epoch(tmp_path: Path) -> None:
    whole = fit(tmp_path, module(), limit_val_batches=0)
    saved = ModelCheckpoint(tmp_path / "saved", save_on_train_epoch_end=True)
    first = fit(
        tmp_path,
        module(),
        max_epochs=1,
        callbacks=[saved],
        enable_checkpointing=True,
        limit_val_batches=0,
    )
    rest = fit(tmp_path, module(), ckpt_path=saved.best_model_path, limit_val_batches=0)
    assert first + rest == whole


def test_a_checkpoint_of_another_mix_is_refused(tmp_path: Path) -> None:
    saved = ModelCheckpoint(tmp_path / "saved", every_n_train_steps=2)
    fit(
        tmp_path,
        module(),
        max_steps=2,
        callbacks=[saved],
        enable_checkpointing=True,
        limit_val_batches=0,
    )
    other = OmniDataModule(module().config, train=split(21, 10))
    with pytest.raises(StateError, match="size"):
        fit(tmp_path, other, ckpt_path=saved.best_model_path, limit_val_batches=0)


def test_without_lightning_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location(
        "copy", omniloader.integrations.lightning.__file__
    )
    assert spec is not None
    assert spec.loader is not None
    monkeypatch.setitem(sys.modules, "lightning", None)
    with pytest.raises(ImportError, match=r"pip install 'omniloader\[lightning\]'"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def test_loaders_and_samplers_are_there_after_setup_and_tolerate_early_creation() -> None:
    data = module()
    assert len(data.train_dataloader()) == 8
    data.setup("fit")
    assert sorted(data.loaders) == sorted(data.samplers) == ["train", "valid"]
    data.set_epoch(2)
    assert data.loaders["train"].epoch == data.samplers["train"].epoch == 2
    data.teardown("fit")
    kept = data.loaders["train"]
    data.setup()
    assert data.loaders["train"] is kept
    assert len(data.loaders["test"]) == 5


def test_an_epoch_told_before_setup_is_the_one_that_is_read() -> None:
    early, late = module(), module()
    early.set_epoch(3)
    late.setup("fit")
    late.set_epoch(3)
    indices = [[b["index"].tolist() for b in m.train_dataloader()] for m in (early, late, module())]
    assert indices[0] == indices[1] != indices[2]


def test_an_epoch_without_a_batch_is_refused_in_setup() -> None:
    data = OmniDataModule(OmniConfig(batch_size=99, drop_last=True), train=split(3, 2))
    with pytest.raises(PlanError, match="drop_last would drop everything"):
        data.setup("fit")


def test_a_loader_made_before_the_processes_joined_is_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = module()
    data.setup("fit")
    assert data.samplers["train"].shard.num_replicas == 1
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)
    early = data.train_dataloader()
    shard = data.samplers["train"].shard
    assert (shard.rank, shard.num_replicas) == (1, 2)
    assert data.train_dataloader() is early


def test_splits_come_from_the_config_where_none_are_given(tmp_path: Path) -> None:
    import numpy as np

    for subset, count in (("train", 4), ("valid", 2)):
        for i in range(count):
            folder = tmp_path / subset / f"s{i}"
            folder.mkdir(parents=True)
            np.save(folder / "x.npy", np.zeros(3, dtype=np.float32))
    entry = {
        "adapter": "npy",
        "path": "train",
        "features": [{"name": "x", "feature_dim": 3}],
    }
    config = OmniConfig.from_dict({"datasets": [entry]}, base_dir=tmp_path)
    data = OmniDataModule(config)
    data.setup("fit")
    assert sorted(data.loaders) == ["train"]
    assert data.val_dataloader() == []
    with pytest.raises(ConfigError, match=r"there is no test split; give it as test=\(datasets"):
        data.test_dataloader()
    evaluated = config.replace(datasets=[{**entry, "eval": {"path": "valid"}}])
    data = OmniDataModule(evaluated)
    data.setup("fit")
    assert [len(data.loaders[name]) for name in ("train", "valid")] == [4, 2]


@pytest.mark.filterwarnings("ignore:Total length of `list` across ranks is zero.*")
def test_a_fit_without_validation_runs(tmp_path: Path) -> None:
    data = OmniDataModule(OmniConfig(batch_size=4), train=split(5, 4))
    assert len(fit(tmp_path, data, max_epochs=1)) == 3


def test_a_real_trainer_over_two_processes_says_that_it_shares_out(tmp_path: Path) -> None:
    data = module()
    data.trainer = trainer(tmp_path, devices=2, strategy="ddp_spawn")
    with pytest.raises(ConfigError, match="use_distributed_sampler must be False"):
        data.setup("fit")
    data.trainer = trainer(tmp_path, devices=2, strategy="ddp_spawn", use_distributed_sampler=False)
    data.setup("fit")
    assert len(data.loaders["train"]) == 30


def test_a_given_union_holds_for_all_splits() -> None:
    union = UnifiedSchema([FACES, SPEECH])
    datasets, _ = split(3, 2)
    data = OmniDataModule(OmniConfig(batch_size=2), train=(datasets[:1], [FACES]), schema=union)
    data.setup("fit")
    batch = next(iter(data.train_dataloader()))
    assert not batch["z_mask"].any()


def test_lightning_has_no_complaints(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(tmp_path, module(num_workers=2, persistent_workers=True), max_epochs=1)
    texts = [str(warning.message) for warning in caught]
    assert not [text for text in texts if "sampler" in text or "resum" in text]

"""BlinkDataModule: what each split serves, under a real Trainer too."""

from __future__ import annotations

import dataclasses
import logging
import pickle
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import pytest
import torch
from blinkdata import CEW, HUST, MRL, RN15, write_configs, write_corpus
from lightning.pytorch.callbacks import ModelCheckpoint

from blinklinmult.data import datamodule, workers
from blinklinmult.data.datamodule import (
    MAX_WORKERS,
    STRATEGIES,
    BlinkDataModule,
    DataModuleError,
    StridedSubset,
    build_strategy,
    pinning_helps,
    worker_count,
)
from blinklinmult.data.embeddings import CacheKey, EmbeddingCacheError, write_shard
from blinklinmult.data.schema import SchemaError
from blinklinmult.data.stills import StillFramesDataset
from blinklinmult.train.config import DataConfig
from omniloader import TemperatureStrategy, unified_collate

SPECS = [RN15, HUST, CEW, MRL]
COUNTS = {"train": 14, "valid": 6, "test": 5}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    for spec in SPECS:
        write_corpus(folder, spec, COUNTS)
    write_configs(folder, SPECS)
    return folder


def module(root: Path, **options: Any) -> BlinkDataModule:
    settings: dict[str, Any] = {
        "datasets": ["rn15", "hust_lebw", "cew"],
        "batch_size": 4,
        "num_workers": 0,
        "persistent_workers": False,
        **options,
    }
    key = settings.pop("embedding_key", None)
    config = DataConfig(**settings)
    return BlinkDataModule(config, config.resolve_specs(root / "configs"), root, key)


def keys_of(loader: Any) -> list[str]:
    return [key for batch in loader for key in batch["key"]]


# -- splits ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stage", "splits"),
    [
        ("fit", ["train", "valid"]),
        ("validate", ["valid"]),
        ("test", ["test"]),
        ("predict", ["test"]),
        (None, ["test", "train", "valid"]),
    ],
)
def test_a_stage_opens_its_splits(root: Path, stage: str | None, splits: list[str]) -> None:
    data = module(root)
    data.setup(stage)
    assert sorted(data.loaders) == splits


def test_training_is_mixed_and_drops_its_last_incomplete_batch(root: Path) -> None:
    data = module(root)
    data.setup("fit")
    batches = list(data.train_dataloader())
    assert [len(batch["key"]) for batch in batches] == [4] * 10
    assert len(data.samplers["train"]) == 42
    sources = [name for batch in batches for name in batch["dataset"]]
    assert set(sources) == {"rn15", "hust_lebw", "cew"}
    assert sources != sorted(sources)


def test_validation_and_test_run_in_full_and_in_order(root: Path) -> None:
    data = module(root, eval_datasets=["mrl"])
    data.setup()
    for split, loader, names in (
        ("valid", data.val_dataloader(), ["rn15", "hust_lebw", "cew"]),
        ("test", data.test_dataloader(), ["rn15", "hust_lebw", "cew", "mrl"]),
    ):
        found = [
            (d, k) for batch in loader for d, k in zip(batch["dataset"], batch["key"], strict=True)
        ]
        assert found == [
            (source.name, key)
            for source in data.loaders[split].sources
            for key in source.dataset.sample_ids  # type: ignore[attr-defined]
        ]
        assert list(dict.fromkeys(name for name, _ in found)) == names
        assert len(found) == COUNTS[split] * len(names)


def test_batches_of_all_splits_have_the_same_keys_and_masks_say_what_is_real(root: Path) -> None:
    data = module(root, datasets=["cew"], eval_datasets=["rn15"])
    data.setup()
    train, test = (next(iter(ld)) for ld in (data.train_dataloader(), data.test_dataloader()))
    assert train.keys() == test.keys()
    assert train["eye_image"].shape == (4, 6, 3, 8, 8)
    assert train["blink_ids"].dtype == torch.int64
    assert not train["blink_presence_mask"].any()
    assert (train["blink_presence"] == -1).all()
    assert (train["blink_ids"] == -1).all()
    assert not train["eye_state_mask"][:, 1:].any()
    *_, last = data.test_dataloader()
    assert last["dataset"] == ["rn15"] * len(last["key"])
    assert last["head_pose_mask"].all()
    assert train["eye_side"] == [key.split("|")[2] for key in train["key"]]
    assert (data.time_dim, data.image_size, data.feature_dim) == (6, 8, 5)


def test_an_absent_or_empty_split_is_skipped_with_a_log_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_corpus(tmp_path, CEW, {"train": 8})
    write_corpus(tmp_path, RN15, {"train": 8, "valid": 4})
    write_configs(tmp_path, SPECS)
    data = module(tmp_path, datasets=["cew", "rn15"])
    with caplog.at_level(logging.INFO, datamodule.logger.name):
        data.setup("fit")
    assert "corpus 'cew': has no valid split, skipped" in caplog.text
    assert data.loaders["valid"].names == ["rn15"]


def test_nothing_to_train_on_is_refused(tmp_path: Path) -> None:
    write_corpus(tmp_path, CEW, {"test": 3})
    write_configs(tmp_path, SPECS)
    data = module(tmp_path, datasets=["cew"])
    data.setup("test")
    with pytest.raises(DataModuleError, match="datasets: none of cew has a sample to train on"):
        data.setup("fit")


def test_nothing_to_test_on_is_refused_when_it_is_asked_for(tmp_path: Path) -> None:
    write_corpus(tmp_path, CEW, {"train": 4})
    write_configs(tmp_path, SPECS)
    data = module(tmp_path, datasets=["cew"])
    data.setup()
    assert data.val_dataloader() == []
    for loader in (data.test_dataloader, data.predict_dataloader):
        with pytest.raises(DataModuleError, match="none of cew has a sample to test on; build"):
            loader()


def test_a_corpus_that_is_not_built_names_the_command(tmp_path: Path) -> None:
    write_configs(tmp_path, SPECS)
    data = module(tmp_path, datasets=["cew"])
    assert data.h5_path(CEW) == tmp_path / "data/processed/cew/cew.h5"
    with pytest.raises(DataModuleError, match=r"is not built; .*`blinklinmult synth --root .*cew"):
        data.setup("fit")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"strategy_kwargs": {"temp": 3}}, r"strategy_kwargs.temp: unknown key"),
        ({"strategy_kwargs": {"temperature": -1.0}}, r"strategy_kwargs.*temperature"),
        ({"batch_size": 999}, r"batch_size: drop_last would drop everything"),
        ({"transforms": [{"name": "noise"}]}, r"transforms\[0\].name: unknown transform 'noise'"),
        ({"image_size": 16}, r"corpus 'rn15': its crops are 8 px, the run's image_size is 16"),
    ],
)
def test_settings_that_cannot_be_served_are_refused(
    root: Path, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(DataModuleError, match=text):
        module(root, **options).setup("fit")


def test_specs_have_to_be_those_of_the_config(root: Path) -> None:
    config = DataConfig(datasets=["cew"])
    with pytest.raises(DataModuleError, match="no corpus is configured; name at least one"):
        BlinkDataModule(config, [], root)
    with pytest.raises(DataModuleError, match=r"specs must be those of .* \(cew\), got cew, mrl"):
        BlinkDataModule(config, [CEW, MRL], root)
    other = dataclasses.replace(MRL, image_size=16)
    both = DataConfig(datasets=["cew", "mrl"])
    with pytest.raises(SchemaError, match="corpora must agree on image_size"):
        BlinkDataModule(both, [CEW, other], root)
    assert issubclass(DataModuleError, RuntimeError)


# -- strides, stills, embeddings -------------------------------------------------------------


def test_fractions_thin_train_and_valid_and_never_test(root: Path) -> None:
    data = module(root, fit_fractions={"rn15": 0.25})
    data.setup()
    sizes = {split: loader.dataset_sizes for split, loader in data.loaders.items()}
    assert sizes == {"train": [4, 14, 14], "valid": [2, 6, 6], "test": [5, 5, 5]}
    train, valid = (data.loaders[split].datasets[0] for split in ("train", "valid"))
    assert isinstance(train, StridedSubset)
    assert isinstance(valid, StridedSubset)
    assert (train.shifting, valid.shifting) == (True, False)


@pytest.mark.parametrize("count", [0, 2])
def test_every_window_is_met_in_enough_epochs(root: Path, count: int) -> None:
    data = module(
        root,
        datasets=["rn15"],
        fit_fractions={"rn15": 0.3},
        num_workers=count,
        persistent_workers=count > 0,
        batch_size=2,
    )
    data.setup("fit")
    loader, met, valid = data.train_dataloader(), set(), []
    for epoch in range(4):
        data.set_epoch(epoch)
        keys = keys_of(loader)
        assert len(set(keys)) == len(keys) == 4
        met.update(keys)
        valid.append(keys_of(data.val_dataloader()))
    assert met == set(data.loaders["train"].datasets[0].dataset.sample_ids)  # type: ignore[attr-defined]
    assert valid == valid[:1] * 4


def test_stills_are_balanced_in_training_alone(root: Path) -> None:
    data = module(root, stills=True, still_stride=1, eval_datasets=["mrl"])
    data.setup()
    assert data.time_dim == 1
    train, valid = (data.loaders[split].datasets[0] for split in ("train", "valid"))
    assert isinstance(train, StillFramesDataset)
    states = [float(train[i]["eye_state"][0]) for i in range(len(train))]
    assert states.count(1.0) * 2 == len(states)
    assert len(valid) > COUNTS["valid"]
    batch = next(iter(data.train_dataloader()))
    assert batch["eye_image"].shape == (4, 1, 3, 8, 8)
    assert batch["eye_image_mask"].all()


def test_a_corpus_whose_frames_are_all_masked_is_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from blinklinmult.data.presets import corpus_path
    from blinklinmult.data.writer import H5Writer

    write_corpus(tmp_path, RN15, {"train": 8})
    write_configs(tmp_path, SPECS)
    with H5Writer(CEW, corpus_path(tmp_path, "cew")) as writer:
        images = np.zeros((1, 3, 8, 8))
        masks = {"eye_state_mask": [False], "eye_image_mask": [True]}
        writer.add("train", "v", "0", "left", images, eye_state=[0.0], **masks)
    data = module(tmp_path, datasets=["rn15", "cew"], stills=True)
    data.setup("fit")
    assert data.loaders["train"].names == ["rn15"]
    assert "corpus 'cew': train has no usable frame, skipped" in caplog.text


KEY = CacheKey("ab" * 32, "tiny", 4, 8)


@pytest.fixture(scope="module")
def cache(root: Path) -> Path:
    data, folder = module(root), root / "cache"
    data.setup()
    for split, loader in data.loaders.items():
        for source in loader.sources:
            keys = list(source.dataset.sample_ids)[::-1]  # type: ignore[attr-defined]
            steps = {"rn15": 6, "hust_lebw": 12, "cew": 1}[source.name]
            numbers = np.array([hash_of(key) for key in keys], dtype=np.float16)
            embedding = np.broadcast_to(numbers[:, None, None], (len(keys), steps, 4))
            mask = np.ones((len(keys), steps), dtype=bool)
            write_shard(folder, KEY, source.name, split, embedding=embedding, mask=mask, keys=keys)
    return folder


def hash_of(key: str) -> int:
    return sum(key.encode()) % 1000


@pytest.mark.parametrize("options", [{}, {"stills": True}, {"fit_fractions": {"rn15": 0.5}}])
def test_cached_embeddings_arrive_with_their_sample(
    root: Path, cache: Path, options: dict[str, Any]
) -> None:
    data = module(root, embedding_cache=cache.name, **options)  # from the root of the run
    data.setup()
    for loader in (data.train_dataloader(), data.test_dataloader()):
        for batch in loader:
            assert batch["eye_embedding"].shape[2:] == (4,)
            for key, row in zip(batch["key"], batch["eye_embedding"], strict=True):
                if not options.get("stills"):
                    assert float(row[0, 0]) == hash_of(key)
            assert batch["eye_embedding_mask"][:, 0].all()


def test_spawned_workers_read_the_same_in_every_epoch(root: Path, cache: Path) -> None:
    options = {"stills": True, "fit_fractions": {"rn15": 0.4}, "embedding_cache": str(cache)}
    here, there = module(root, **options), module(root, **options)
    there.config = there.config.replace(num_workers=1, persistent_workers=True)
    loader = there.train_dataloader()
    loader.multiprocessing_context = "spawn"
    for epoch in (1, 2):
        here.set_epoch(epoch)
        loader.set_epoch(epoch)
        for one, two in zip(here.train_dataloader(), loader, strict=True):
            assert one["key"] == two["key"]
            assert torch.equal(one["eye_embedding"], two["eye_embedding"])
            assert torch.equal(one["eye_image"], two["eye_image"])


def test_all_wrappers_can_be_pickled(root: Path, cache: Path) -> None:
    options = {"stills": True, "fit_fractions": {"rn15": 0.5}}
    data = module(root, embedding_cache=str(cache), **options)
    data.setup("fit")
    omni = data.loaders["train"]
    omni[0]  # a handle is open that must not travel
    copy = pickle.loads(pickle.dumps(omni))  # noqa: S301
    for epoch in range(2):
        for loader in (omni, copy):
            loader.set_epoch(epoch)
        one, two = (unified_collate(each.__getitems__([0, 3, 20])) for each in (omni, copy))
        assert one["key"] == two["key"]
        assert torch.equal(one["eye_image"], two["eye_image"])
        assert torch.equal(one["eye_embedding"], two["eye_embedding"])


def test_caches_that_do_not_fit_the_run_are_refused(root: Path, cache: Path) -> None:
    with pytest.raises(EmbeddingCacheError, match="are 4 wide, embedding_dim says 5"):
        module(root, embedding_cache=str(cache), embedding_dim=5)
    other = dataclasses.replace(KEY, encoder_digest="cd" * 32)
    with pytest.raises(EmbeddingCacheError, match="there is no finished shard"):
        module(root, embedding_cache=str(cache), embedding_key=other).setup("fit")
    big = dataclasses.replace(KEY, image_size=64)
    with pytest.raises(EmbeddingCacheError, match="image_size must be the run's 8, got 64"):
        module(root, embedding_cache=str(cache), embedding_key=big)


def test_embeddings_of_shorter_windows_are_refused(tmp_path: Path) -> None:
    keys = write_corpus(tmp_path, RN15, {"train": 4})["train"]
    write_configs(tmp_path, SPECS)
    arrays = {"embedding": np.zeros((4, 5, 4)), "mask": np.ones((4, 5), dtype=bool)}
    write_shard(tmp_path / "cache", KEY, "rn15", "train", keys=keys, **arrays)
    data = module(tmp_path, datasets=["rn15"], embedding_cache="cache")
    text = r"corpus 'rn15', train: cached embeddings must have the 6 frames of its windows, got 5"
    with pytest.raises(EmbeddingCacheError, match=text):
        data.setup("fit")


# -- Lightning -------------------------------------------------------------------------------


class Recorder(lightning.LightningModule):
    """Keeps a digest of every training batch."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))
        self.seen: list[tuple[int, list[str], float]] = []

    def training_step(self, batch: dict[str, Any], index: int) -> torch.Tensor:
        image = batch["eye_image"]
        self.seen.append((int(batch["epoch"][0]), batch["key"], float(image.double().sum())))
        return (image * self.scale).mean()

    def validation_step(self, batch: dict[str, Any], index: int) -> None:
        assert (batch["dataset_index"].diff() >= 0).all()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.0)


pytestmark = pytest.mark.filterwarnings(
    # Lightning's advice and its use of old torch; not about what is tested.
    "ignore:.*does not have many workers.*",
    "ignore:.*isinstance.treespec.*",
    "ignore:.*LeafSpec.*",
    "ignore:.*fork.*:DeprecationWarning",
    "ignore:.*callbacks used to create the checkpoint.*",
)


def fit(data: BlinkDataModule, folder: Path, **options: Any) -> list[tuple[int, list[str], float]]:
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    model, ckpt_path = Recorder(), options.pop("ckpt_path", None)
    settings: dict[str, Any] = {
        "accelerator": "cpu",
        "devices": 1,
        "max_epochs": 2,
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "default_root_dir": folder,
        **options,
    }
    lightning.Trainer(**settings).fit(model, datamodule=data, ckpt_path=ckpt_path)
    return model.seen


def test_two_epochs_are_equal_for_any_number_of_workers(root: Path, tmp_path: Path) -> None:
    seen = []
    for count in (0, 1, 2):
        # worker_count would clamp to the cores of the machine that tests run on.
        data = module(root, fit_fractions={"rn15": 0.5, "cew": 0.5})
        data.config = data.config.replace(num_workers=count, persistent_workers=count > 0)
        seen.append(fit(data, tmp_path))
    assert seen[0] == seen[1] == seen[2]
    epochs = [{key for e, keys, _ in seen[0] if e == epoch for key in keys} for epoch in (0, 1)]
    assert epochs[0] != epochs[1]


@pytest.mark.parametrize("options", [{}, {"stills": True, "fit_fractions": {"rn15": 0.5}}], ids=str)
def test_a_fit_goes_on_in_the_middle_of_an_epoch(
    root: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    whole = fit(module(root, **options), tmp_path)
    steps = len(whole) // 2 + 2
    saved = ModelCheckpoint(tmp_path / "saved", every_n_train_steps=steps)
    first = fit(
        module(root, **options),
        tmp_path,
        max_steps=steps,
        callbacks=[saved],
        enable_checkpointing=True,
    )
    rest = fit(module(root, **options), tmp_path, ckpt_path=saved.best_model_path)
    assert first + rest == whole


# -- helpers ---------------------------------------------------------------------------------


def test_workers_are_capped_by_the_ceiling_and_by_the_cores_with_a_log_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(workers, "available_cores", lambda: 64)
    assert MAX_WORKERS == 8
    with caplog.at_level(logging.INFO, workers.logger.name):
        assert [worker_count(n) for n in (0, 4, 8)] == [0, 4, 8]
        assert not caplog.records
        assert worker_count(12) == 8
        assert "num_workers: 12 asked for, 8 used (at most 8, and 64 cores" in caplog.text
    monkeypatch.setattr(workers, "available_cores", lambda: 2)
    assert worker_count(6) == 2


def test_cores_are_those_given_to_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    assert workers.available_cores() >= 1
    monkeypatch.delattr("os.sched_getaffinity", raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: None)
    assert workers.available_cores() == 1


@pytest.mark.parametrize("present", [True, False])
def test_pinning_helps_with_cuda_alone(
    root: Path, monkeypatch: pytest.MonkeyPatch, present: bool
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: present)
    assert pinning_helps() is present
    assert module(root, pin_memory=True).config.pin_memory is present
    assert module(root, pin_memory=False).config.pin_memory is False


def test_strategies_come_by_name() -> None:
    assert (
        *("proportional", "temperature", "annealed_temperature", "fixed", "round_robin"),
    ) == STRATEGIES
    made = build_strategy("temperature", [100, 4], {"temperature": 1.0})
    assert isinstance(made, TemperatureStrategy)
    assert made.target_counts(0) == [100, 4]
    for name in STRATEGIES:
        assert len(build_strategy(name, [5, 3])) > 0


@pytest.mark.parametrize(
    ("name", "kwargs", "text"),
    [
        ("random", None, r"strategy: unknown strategy 'random'; known: proportional, temperature"),
        ("temperature", {"temp": 2}, r"strategy_kwargs.temp: unknown key"),
        ("temperature", {"temperature": 0.0}, r"strategy_kwargs: .*temperature"),
        ("fixed", {"weights": [1.0]}, r"strategy_kwargs: .*weights"),
    ],
)
def test_impossible_strategies_name_the_config_key(
    name: str, kwargs: dict[str, Any] | None, text: str
) -> None:
    with pytest.raises(DataModuleError, match=text):
        build_strategy(name, [5, 3], kwargs)


def test_a_process_that_reads_for_itself_inflates_in_two_threads(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "available_cores", lambda: 4)
    assert [workers.inflating_threads(count) for count in (0, 1, 8)] == [2, 0, 0]
    batches = []
    for threads in (0, 2):
        monkeypatch.setattr(datamodule, "inflating_threads", lambda _, n=threads: n)
        data = module(root)
        data.setup("fit")
        batches.append([float(b["eye_image"].double().sum()) for b in data.train_dataloader()])
    assert batches[0] == batches[1]

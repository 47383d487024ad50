import pytest
import torch
from corpora import SENSORS, SPEECH, write_config, write_corpora
from torch.utils.data import DataLoader, SequentialSampler

from omniloader import (
    FixedWeightStrategy,
    OmniConfig,
    OmniSampler,
    SubsampleConfig,
    TemperatureStrategy,
    UnifiedSchema,
)
from omniloader.collate import DynamicCollator, unified_collate
from omniloader.config import OmniDataLoader
from omniloader.errors import ConfigError, SourceError, StateError, StatsError
from omniloader.sampling.bucketing import LengthBucketBatchSampler
from omniloader.transforms.mix import MixupCollator


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("größe")
    write_corpora(folder)
    return folder


@pytest.fixture
def make(folder):
    def build(**changes):
        return OmniConfig.from_file(write_config(folder, **changes))

    return build


def indices(loader):
    return [batch["index"].tolist() for batch in loader]


def flat(loader):
    return [index for batch in indices(loader) for index in batch]


class TestDataLoader:
    def test_training_draws_through_the_strategy(self, make):
        config = make(strategy="temperature", strategy_kwargs={"temperature": 2.0})
        loader = config.build_dataloader()
        strategy = config.build_strategy([20, 8])
        assert isinstance(loader, DataLoader)
        assert isinstance(strategy, TemperatureStrategy)
        assert isinstance(loader.sampler, OmniSampler)
        assert (loader.batch_size, len(loader)) == (4, 7)
        assert flat(loader) == strategy.epoch_indices(0)

    def test_a_batch_holds_the_union(self, make):
        batch = next(iter(make().build_dataloader()))
        assert batch["audio"].shape == (4, 12, 8)
        assert batch["effort_mask"].shape == (4, 6)
        assert set(batch["dataset"]) <= {"speech", "sensors"}

    def test_evaluation_is_the_other_subset_in_order(self, make):
        loader = make(drop_last=True, strategy="fixed").build_dataloader(training=False)
        assert indices(loader) == [[0, 1, 2, 3], [4, 5, 6, 7]]
        assert next(batch["subset"] for batch in loader) == ["valid"] * 4

    def test_without_eval_options_the_same_data_is_evaluated(self, make):
        entries = [{key: value for key, value in SPEECH.items() if key != "eval"}]
        loader = make(datasets=entries).build_dataloader(training=False)
        assert flat(loader) == list(range(20))

    def test_set_epoch_changes_the_order_and_reaches_the_samples(self, make):
        config = make(num_workers=1, persistent_workers=True)
        loader = config.build_dataloader()
        first = indices(loader)
        loader.set_epoch(1)
        second = list(loader)
        assert [batch["index"].tolist() for batch in second] != first
        assert {int(epoch) for batch in second for epoch in batch["epoch"]} == {1}
        assert [index for batch in first for index in batch] != config.build_strategy(
            [20, 8]
        ).epoch_indices(1)

    def test_the_first_epoch_can_be_given(self, make):
        config = make()
        loader = config.build_dataloader(epoch=3)
        assert flat(loader) == config.build_strategy([20, 8]).epoch_indices(3)

    def test_drop_last(self, make):
        config = make(batch_size=5, drop_last=True)
        assert [len(rows) for rows in indices(config.build_dataloader())] == [5] * 5

    def test_ranks_share_the_plan(self, make):
        parts = [flat(make(num_replicas=2, rank=rank).build_dataloader()) for rank in (0, 1)]
        plan = make().build_strategy([20, 8]).epoch_indices(0)
        assert parts == [plan[0::2], plan[1::2]]

    def test_ranks_evaluate_nothing_twice(self, make):
        parts = [
            flat(make(num_replicas=3, rank=rank).build_dataloader(training=False))
            for rank in range(3)
        ]
        assert sorted(index for part in parts for index in part) == list(range(8))

    @pytest.mark.parametrize("options", [{}, {"persistent_workers": True, "prefetch_factor": 4}])
    def test_worker_knobs_have_no_effect_without_workers(self, make, options):
        loader = make(num_workers=0, **options).build_dataloader()
        assert not loader.persistent_workers
        assert len(indices(loader)) == 7

    def test_worker_knobs_reach_the_loader(self, make):
        config = make(num_workers=2, persistent_workers=True, prefetch_factor=3)
        loader = config.build_dataloader()
        assert (loader.num_workers, loader.persistent_workers, loader.prefetch_factor) == (
            2,
            True,
            3,
        )

    def test_workers_change_nothing(self, make):
        noise = [{"name": "gaussian_noise", "p": 1.0}]
        alone, two = (
            list(make(num_workers=number, transforms=noise).build_dataloader()) for number in (0, 2)
        )
        for left, right in zip(alone, two, strict=True):
            assert all(
                torch.equal(left[key], right[key]) for key in left if torch.is_tensor(left[key])
            )

    def test_pinning_needs_an_accelerator(self, make):
        loader = make(pin_memory=True).build_dataloader()
        assert loader.pin_memory is torch.accelerator.is_available()

    def test_metadata_and_error_options_reach_the_loader(self, make):
        omni = make(metadata=["speaker"], on_error="mask", error_budget=3).build_loader()
        assert omni[0]["speaker"] is None
        assert omni.metadata == ("speaker",)

    def test_a_second_pass_of_one_epoch_is_warned_of(self, make):
        loader = make().build_dataloader()
        first = indices(loader)
        with pytest.warns(UserWarning, match=r"iterated again at epoch 0: .* loader\.set_epoch"):
            assert indices(loader) == first
        loader.set_epoch(1)
        next(iter(loader))  # a look is no pass
        assert indices(loader) != first
        valid = make().build_dataloader(training=False)
        assert indices(valid) == indices(valid)

    def test_one_composition_a_batch(self, make):
        loader = make(composition="per_source", batch_sizes={"sensors": 2}).build_dataloader()
        for batch in loader:
            assert len(set(batch["dataset"])) == 1
        loader.set_epoch(1)
        sizes = {batch["dataset"][0]: len(batch["dataset"]) for batch in loader}
        assert sizes == {"speech": 4, "sensors": 2}

    def test_exact_ratio(self, make):
        loader = make(composition="exact_ratio", batch_size=7).build_dataloader()
        assert [batch["dataset"].count("speech") for batch in loader] == [5, 5, 5, 5]


class TestBucketing:
    def test_batches_of_like_lengths(self, make):
        config = make(
            pad_features=False,
            collate="dynamic",
            bucketing={"key": "audio", "bucket_multiplier": 100},
        )
        loader = config.build_dataloader()
        assert isinstance(loader.batch_sampler, LengthBucketBatchSampler)
        assert isinstance(loader.collate_fn, DynamicCollator)
        plain = config.replace(bucketing=None).build_dataloader()
        steps = [sum(batch["audio"].shape[1] for batch in one) for one in (loader, plain)]
        assert steps[0] < steps[1]
        loader.set_epoch(1)
        assert sorted(flat(loader)) == list(range(28))

    def test_evaluation_stays_in_order(self, make):
        config = make(pad_features=False, collate="dynamic", bucketing={"key": "audio"})
        assert flat(config.build_dataloader(training=False)) == list(range(8))

    def test_a_key_that_is_no_sequence(self, make):
        config = make(pad_features=False, collate="dynamic", bucketing={"key": "emotion"})
        with pytest.raises(ValueError, match="key must be a sequence of the schema, got 'emotion'"):
            config.build_dataloader()


class TestState:
    @pytest.mark.parametrize("workers", [0, 2])
    @pytest.mark.parametrize("consumed", [0, 1, 4])
    def test_it_is_exact_in_the_middle(self, make, workers, consumed):
        config = make(num_workers=workers)
        loader = config.build_dataloader()
        loader.set_epoch(2)
        whole = indices(loader)
        loader.set_epoch(2)
        iterator = iter(loader)
        for _ in range(consumed):
            next(iterator)
        state = loader.state_dict()
        again = config.replace(num_workers=0).build_dataloader()
        again.load_state_dict(state)
        assert indices(again) == whole[consumed:]

    def test_a_resumed_epoch_can_be_saved_again(self, make):
        whole = indices(make().build_dataloader())
        state = make().build_dataloader().state_dict()
        seen = []
        for _ in whole:
            loader = make().build_dataloader()
            loader.load_state_dict(state)
            seen.append(next(iter(loader))["index"].tolist())
            state = loader.state_dict()
        assert seen == whole
        loader.load_state_dict(state)
        assert indices(loader) == []

    def test_a_new_epoch_starts_at_its_start(self, make):
        loader = make().build_dataloader()
        indices(loader)
        loader.sampler.set_epoch(1)
        assert loader.state_dict()["position"] == 0

    def test_another_mix_is_refused(self, make):
        state = make().build_dataloader().state_dict()
        with pytest.raises(StateError, match="another mix"):
            make(datasets=[SPEECH]).build_dataloader().load_state_dict(state)

    def test_a_foreign_sampler_cannot_be_resumed(self):
        loader = OmniDataLoader([1, 2], sampler=SequentialSampler([1, 2]))
        with pytest.raises(StateError, match="this is over a BatchSampler"):
            loader.state_dict()


class TestTransforms:
    def test_stats_come_from_a_file_beside_the_config(self, make, folder):
        from omniloader.cli import main

        path = write_config(folder)
        assert main(["compute-stats", str(path), "-o", str(folder / "stats.json")]) == 0
        config = make(transforms=[{"name": "normalize", "stats_path": "stats.json"}])
        values = [batch["audio"][batch["audio_mask"]] for batch in config.build_dataloader()]
        assert abs(float(torch.cat(values).mean())) < 0.05
        evaluated = next(iter(config.build_dataloader(training=False)))
        plain = next(iter(make().build_dataloader(training=False)))
        assert not torch.equal(evaluated["audio"], plain["audio"])

    def test_a_missing_stats_file_names_the_entry(self, make):
        config = make(transforms=[{"name": "normalize", "stats_path": "no.json"}])
        with pytest.raises(StatsError, match=r"^transforms\[0\]: .*no\.json: no such statistics"):
            config.build_loader()

    def test_an_option_out_of_range_names_the_entry(self, make):
        config = make(transforms=[{"name": "time_warp"}, {"name": "gaussian_noise", "p": 2}])
        with pytest.raises(
            ConfigError, match=r"^transforms\[1\]: GaussianNoise: p must be a number"
        ):
            config.build_loader()

    def test_augmentation_is_for_training(self, make):
        config = make(transforms=[{"name": "gaussian_noise", "p": 1.0}])
        plain = make().build_loader(training=False)[0]["audio"]
        assert torch.equal(config.build_loader(training=False)[0]["audio"], plain)
        assert not torch.equal(config.build_loader()[0]["audio"], make().build_loader()[0]["audio"])

    def test_eval_transforms_take_the_place_of_transforms(self, make):
        config = make(
            transforms=[{"name": "instance_normalize"}],
            eval_transforms=[{"name": "center_crop", "length": 3}],
        )
        assert config.build_loader(training=False)[0]["audio"].shape == (3, 8)
        assert (
            make(transforms=[{"name": "instance_normalize"}], eval_transforms=[]).build_transform(
                None, training=False
            )
            is None
        )

    def test_no_transforms(self, make):
        assert make().build_transform(None) is None


class TestParts:
    def test_collate(self, make):
        schema = UnifiedSchema(make().build_datasets()[1])
        assert make().build_collate(schema) is unified_collate
        dynamic = make(collate="dynamic", collate_kwargs={"keys": ["audio"], "x-a": 1})
        assert dynamic.build_collate(schema).keys == ["audio"]

    def test_mixup_is_for_training(self, make):
        config = make(
            collate="mixup",
            collate_kwargs={"alpha": 0.5, "base": "dynamic", "base_kwargs": {"keys": ["audio"]}},
            pad_features=False,
        )
        loader = config.build_dataloader()
        assert isinstance(loader.collate_fn, MixupCollator)
        assert "mixup_lambda" in next(iter(loader))
        evaluation = config.build_dataloader(training=False)
        assert isinstance(evaluation.collate_fn, DynamicCollator)

    @pytest.mark.parametrize(
        "subsample",
        [
            {"effective_size": "4", "policy": "exhaust"},
            [{"effective_size": 4}, None],
            {"speech": {"effective_size": 4}, "x-note": 1},
        ],
    )
    def test_subsample_for_all_for_each_and_by_name(self, make, subsample):
        config = make(subsample=subsample)
        counts = config.build_strategy([20, 8], names=["speech", "sensors"]).target_counts(0)
        assert counts[0] == 4

    def test_subsample_is_none_by_default_and_can_be_given(self, make):
        assert make().build_subsample() is None
        strategy = make().build_strategy([20, 8], SubsampleConfig(effective_size=3))
        assert strategy.target_counts(0) == [3, 3]

    def test_strategy_options_and_seed(self, make):
        config = make(
            seed=5, strategy="fixed", strategy_kwargs={"weights": {"speech": 3, "sensors": 1}}
        )
        strategy = config.build_strategy([20, 8], names=["speech", "sensors"])
        assert isinstance(strategy, FixedWeightStrategy)
        assert strategy.target_counts(0) == [21, 7]
        assert strategy.seed == 5

    def test_given_datasets_keep_the_names_of_the_config(self, make):
        config = make()
        datasets, schemas = config.build_datasets()
        assert config.build_loader(datasets, schemas).names == ["speech", "sensors"]
        assert config.build_loader(datasets[:1], schemas[:1]).names == ["speech"]

    def test_datasets_need_their_schemas(self, make):
        with pytest.raises(ConfigError, match="datasets and schemas must be given together"):
            make().build_loader(make().build_datasets()[0])

    def test_a_config_without_datasets(self):
        with pytest.raises(ConfigError, match="datasets: is empty; list at least one dataset"):
            OmniConfig().build_dataloader()

    def test_relative_paths_start_at_the_file(self, make, monkeypatch, tmp_path):
        config = make()
        monkeypatch.chdir(tmp_path)
        assert len(config.build_loader()) == 28
        again = OmniConfig.from_dict(config.to_dict(), base_dir=config.base_dir)
        assert len(again.build_loader()) == 28
        with pytest.raises(SourceError, match=r"speech\.h5"):
            OmniConfig.from_dict(config.to_dict()).build_loader()

    def test_user_keys_of_an_entry_are_not_options(self, make):
        entry = {**SENSORS, "x-note": "why", "eval": {"subset": "valid", "x-note": 1}}
        assert len(make(datasets=[entry]).build_loader(training=False)) == 3

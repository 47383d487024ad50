"""Every wrong value of a config, and what is said about it."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omniloader.config import COLLATES, STRATEGIES, OmniConfig
from omniloader.config.model import ConfigFields
from omniloader.errors import ConfigError

SCHEMA = {"features": [{"name": "audio", "feature_dim": 8, "time_dim": 4}]}
ENTRY = {"adapter": "npy", "path": "a", "schema": SCHEMA}


def refusal(**values):
    with pytest.raises(ConfigError) as caught:
        OmniConfig(**values)
    return str(caught.value)


WRONG = [
    ({"seeed": 1}, "seeed: unknown key, did you mean 'seed'?"),
    ({"seed": True}, "seed: must be a whole number, got true"),
    ({"seed": "1.5"}, "seed: must be a whole number, got '1.5'"),
    ({"batch_size": 0}, "batch_size: must be at least 1, got 0"),
    ({"num_workers": -1}, "num_workers: must be at least 0, got -1"),
    ({"pad_features": "yes"}, "pad_features: must be true or false, got 'yes'"),
    ({"pin_memory": None}, "pin_memory: must be true or false, got nothing"),
    ({"strategy": 3}, "strategy: must be text, got 3"),
    ({"strategy_kwargs": []}, "strategy_kwargs: must be a mapping, got []"),
    ({"strategy_kwargs": {1: 2}}, "strategy_kwargs: must be a mapping whose keys are text, got "),
    (
        {"strategy": "temprature"},
        "strategy: unknown strategy 'temprature', did you mean 'temperature'?; known: "
        "proportional, temperature, annealed_temperature, fixed, round_robin",
    ),
    (
        {"strategy": "temperature", "strategy_kwargs": {"temprature": 1}},
        "strategy_kwargs.temprature: unknown key, did you mean 'temperature'?",
    ),
    (
        {"strategy": "fixed", "strategy_kwargs": {"weights": "ab"}},
        "strategy_kwargs.weights: must be a list of numbers or a mapping, got 'ab'",
    ),
    ({"transforms": {}}, "transforms: must be a list, got {}"),
    ({"transforms": [3]}, "transforms[0]: must be a mapping, got 3"),
    ({"transforms": [{"p": 1}]}, "transforms[0]: 'name' is required; known: normalize, "),
    ({"transforms": [{"name": None}]}, "transforms[0].name: must be text, got nothing"),
    (
        {"transforms": [{"name": "gausian_noise"}]},
        "transforms[0].name: unknown transform 'gausian_noise', did you mean 'gaussian_noise'?",
    ),
    (
        {"transforms": [{"name": "time_warp"}, {"name": "gaussian_noise", "stdd": 1}]},
        "transforms[1].stdd: unknown key, did you mean 'std'?",
    ),
    (
        {"transforms": [{"name": "gaussian_noise", "std": "big"}]},
        "transforms[0].std: must be a number, got 'big'",
    ),
    ({"transforms": [{"name": "random_crop"}]}, "transforms[0].length: is required"),
    (
        {"transforms": [{"name": "normalize"}]},
        "transforms[0]: normalize needs stats or stats_path; make the file with 'omniloader "
        "compute-stats CONFIG -o stats.json'",
    ),
    (
        {"transforms": [{"name": "normalize", "stats": {}, "stats_path": "a"}]},
        "transforms[0]: stats and stats_path exclude each other; keep one of them",
    ),
    (
        {"eval_transforms": [{"name": "gaussian_noise"}]},
        "eval_transforms[0]: gaussian_noise works in training only and would never run here",
    ),
    ({"datasets": [{}]}, "datasets[0]: 'adapter' is required; known: hdf5, npy"),
    (
        {"datasets": [{**ENTRY, "adapter": "hdf"}]},
        "datasets[0].adapter: unknown adapter 'hdf', did you mean 'hdf5'?; known: hdf5, npy, "
        "columnar; your own is made known with register_adapter",
    ),
    (
        {"datasets": [{**ENTRY, "mmapp": True}]},
        "datasets[0].mmapp: unknown key, did you mean 'mmap'?",
    ),
    ({"datasets": [{**ENTRY, "adapter": "hdf5"}]}, "datasets[0].subset: is required"),
    ({"datasets": [{**ENTRY, "name": ""}]}, "datasets[0].name: must be a non-empty text, got ''"),
    ({"datasets": [{**ENTRY, "name": False}]}, "datasets[0].name: must be text, got false"),
    (
        {"datasets": [{**ENTRY, "name": "a"}, {**ENTRY, "name": "a"}]},
        "datasets[1].name: 'a' is the name of datasets[0] too; names must differ",
    ),
    (
        {"datasets": [{"adapter": "npy", "path": "a"}]},
        "datasets[0]: needs a schema with features and targets",
    ),
    (
        {"datasets": [{**ENTRY, "features": []}]},
        "datasets[0]: has schema and features side by side; move all under schema",
    ),
    (
        {"datasets": [{**ENTRY, "schema": {"feature": []}}]},
        "datasets[0].schema.feature: unknown key, did you mean 'features'?",
    ),
    (
        {"datasets": [{**ENTRY, "schema": {"features": [{"name": "a", "dim": 1}]}}]},
        "datasets[0].schema.features[0].dim: unknown key",
    ),
    (
        {"datasets": [{**ENTRY, "schema": {"features": [{"name": "a", "dtype": "float"}]}}]},
        "datasets[0].schema.features[0].dtype: must be one of float32, float64",
    ),
    (
        {"datasets": [{**ENTRY, "schema": {"features": [{"name": "a_mask"}]}}]},
        "datasets[0]: schema.features[0]: spec 'a_mask': a name must not end in '_mask'",
    ),
    (
        {"datasets": [{**ENTRY, "eval": {"subste": "x"}}]},
        "datasets[0].eval.subste: unknown key, did you mean 'subset'?",
    ),
    ({"datasets": [{**ENTRY, "eval": 3}]}, "datasets[0].eval: must be a mapping, got 3"),
    (
        {"subsample": 3},
        "subsample: must be a mapping of options for all datasets, or a list of one a dataset, "
        "got 3",
    ),
    (
        {"subsample": {"policy": "fres"}},
        "subsample.policy: must be one of 'fresh', 'exhaust', got 'fres'",
    ),
    (
        {"subsample": [{"replacment": True}]},
        "subsample[0].replacment: unknown key, did you mean 'replacement'?",
    ),
    (
        {"subsample": [None, None], "datasets": [ENTRY]},
        "subsample: must have one entry a dataset (1), got 2; write null for a dataset without one",
    ),
    (
        {"subsample": {"vocies": {"policy": "fresh"}}, "datasets": [{**ENTRY, "name": "voices"}]},
        "subsample.vocies: unknown dataset 'vocies', did you mean 'voices'?; known: voices",
    ),
    ({"collate": "mix"}, "collate: unknown collate 'mix'"),
    (
        {"collate": "mixup", "collate_kwargs": {"mode": "cut"}},
        "collate_kwargs.mode: must be one of 'mixup', 'cutmix', got 'cut'",
    ),
    (
        {"collate": "mixup", "collate_kwargs": {"base": "mixup"}},
        "collate_kwargs.base: must be one of 'unified', 'dynamic', got 'mixup'",
    ),
    (
        {"pad_features": False},
        "pad_features: false keeps native lengths, which 'unified' cannot stack; set 'collate",
    ),
    (
        {"pad_features": False, "collate": "mixup"},
        "pad_features: false keeps native lengths, which 'unified' cannot stack; set 'collate",
    ),
    ({"bucketing": {}, "pad_features": False}, "bucketing.key: is required"),
    ({"bucketing": {"key": "audio"}}, "bucketing: needs 'pad_features: false'"),
    (
        {"bucketing": {"key": "a"}, "pad_features": False, "composition": "per_source"},
        "composition: must be 'mixed' with bucketing",
    ),
    ({"composition": "mixd"}, "composition: must be one of 'mixed', 'exact_ratio', 'per_source'"),
    ({"batch_sizes": {"a": 2}}, "batch_sizes: needs 'composition: per_source', got 'mixed'"),
    ({"batch_sizes": {"a": 0}}, "batch_sizes.a: must be at least 1, got 0"),
    ({"num_replicas": 0}, "num_replicas: must be at least 1, got 0"),
    ({"rank": 0}, "rank: needs num_replicas; leave both out"),
    ({"rank": 2, "num_replicas": 2}, "rank: must be under num_replicas=2, got 2"),
    ({"prefetch_factor": 0}, "prefetch_factor: must be at least 1, got 0"),
    ({"drop_last": 1}, "drop_last: must be true or false, got 1"),
    ({"persistent_workers": "on"}, "persistent_workers: must be true or false, got 'on'"),
    ({"metadata": "speaker"}, "metadata: must be a list, got 'speaker'"),
    ({"on_error": "skip"}, "on_error: must be one of 'raise', 'mask', got 'skip'"),
    ({"error_budget": "many"}, "error_budget: must be a whole number, got 'many'"),
]


@pytest.mark.parametrize(("values", "text"), WRONG, ids=[text[:50] for _, text in WRONG])
def test_what_is_wrong_is_said(values, text):
    assert text in refusal(**values)


def test_every_field_is_among_them():
    assert {key for values, _ in WRONG for key in values} >= set(ConfigFields.model_fields)


def test_all_findings_are_said_at_once():
    lines = refusal(seed=True, batch_size=0, transforms=[{"name": "nosie"}]).splitlines()
    assert lines[0] == "3 problems:"
    assert [line.split(":")[0] for line in lines[1:]] == [
        "seed",
        "batch_size",
        "transforms[0].name",
    ]


def test_findings_in_a_file_have_name_and_line(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text(
        "seed: 1\ntransforms:\n  - {name: gaussian_noise}\n  - {name: time_warp,\n     rate: 3}\n"
    )
    with pytest.raises(ConfigError) as caught:
        OmniConfig.from_file(path)
    assert str(caught.value).startswith(f"{path}:5: transforms[1].rate: unknown key")


def test_a_dataset_named_no(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text(
        "datasets:\n  - {name: no, adapter: npy, path: a, schema: {features: [{name: on}]}}\n"
    )
    with pytest.raises(ConfigError) as caught:
        OmniConfig.from_file(path)
    text = str(caught.value)
    assert (
        'datasets[0].name: must be text, got false (YAML reads no as a boolean; write "no"' in text
    )
    assert "datasets[0].schema.features[0].name: must be text, got true (YAML reads on" in text


def test_a_boolean_that_is_written_as_one_gets_no_hint(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("strategy: true\n")
    with pytest.raises(ConfigError, match=r"strategy: must be text, got true$"):
        OmniConfig.from_file(path)


def test_a_long_value_is_shown_short():
    assert len(refusal(seed="x" * 500)) < 120


def test_numbers_written_as_text_are_read():
    config = OmniConfig(
        seed="1e3",
        strategy="temperature",
        strategy_kwargs={"temperature": "1e-3"},
        transforms=[{"name": "gaussian_noise", "std": "1e-3"}],
        datasets=[{**ENTRY, "schema": {"features": [{"name": "a", "placeholder": "-1e-2"}]}}],
    )
    assert config.seed == 1000
    assert config.strategy_kwargs == {"temperature": 0.001}
    assert config.transforms[0]["std"] == 0.001
    assert config.datasets[0]["schema"]["features"][0]["placeholder"] == -0.01


def test_user_keys_are_free_and_kept_everywhere():
    values = {
        "x-top": {1: [None]},
        "strategy_kwargs": {"x-a": 1},
        "transforms": [{"name": "gaussian_noise", "x-b": "why"}],
        "datasets": [
            {
                **ENTRY,
                "x-c": 1,
                "eval": {"x-d": 1, "subset": "b"},
                "schema": {"x-e": 1, "features": [{"name": "a", "x-f": 1}]},
            }
        ],
        "subsample": [{"x-g": 2, "replacement": True}],
        "collate_kwargs": {"x-h": 1},
    }
    written = OmniConfig(**values).to_dict()
    assert {key: written[key] for key in values} == values


def test_a_feature_may_be_called_like_a_user_key():
    stats = {"x-ray": {"mean": 0.0, "std": 1.0}}
    config = OmniConfig(transforms=[{"name": "normalize", "stats": stats}])
    assert config.transforms[0]["stats"] == stats


def test_defaults_are_those_of_the_document():
    config = OmniConfig()
    assert (config.seed, config.batch_size, config.num_workers) == (0, 32, 0)
    assert (config.pad_features, config.strategy, config.collate) == (
        True,
        "proportional",
        "unified",
    )
    off = ("subsample", "bucketing", "num_replicas", "rank", "prefetch_factor", "eval_transforms")
    assert [getattr(config, name) for name in off] == [None] * len(off)
    assert config.transforms == config.datasets == config.metadata == []
    assert not any((config.drop_last, config.pin_memory, config.persistent_workers))


def test_a_config_is_frozen():
    with pytest.raises(ValueError, match="frozen"):
        OmniConfig().seed = 3


def test_from_dict_wants_a_mapping():
    with pytest.raises(
        ConfigError, match=r"a config must be a mapping of keys to values, got \[\]"
    ):
        OmniConfig.from_dict([])


def test_to_dict_is_a_copy():
    config = OmniConfig(strategy_kwargs={"epoch_size": 3})
    config.to_dict()["strategy_kwargs"]["epoch_size"] = 4
    assert config.strategy_kwargs == {"epoch_size": 3}


def test_equality_is_that_of_the_values():
    assert OmniConfig(seed=1) == OmniConfig(seed="1")
    assert OmniConfig(seed=1) != OmniConfig(seed=2)
    assert OmniConfig() != 3


def test_replace_checks_and_keeps_the_folder(tmp_path):
    (tmp_path / "c.yaml").write_text("seed: 3\n")
    config = OmniConfig.from_file(tmp_path / "c.yaml").replace(batch_size=4)
    assert (config.seed, config.batch_size, config.base_dir) == (3, 4, tmp_path)
    with pytest.raises(ConfigError, match="batch_size: must be at least 1"):
        config.replace(batch_size=0)


def test_the_fingerprint_is_of_what_decides_the_data():
    one = OmniConfig(datasets=[ENTRY])
    assert one.fingerprint == OmniConfig(datasets=[ENTRY], num_workers=3, seed=4).fingerprint
    assert one.fingerprint != OmniConfig(datasets=[{**ENTRY, "path": "b"}]).fingerprint


def test_registries_have_the_documented_names():
    documented = {"proportional", "temperature", "annealed_temperature", "fixed", "round_robin"}
    assert documented <= set(STRATEGIES)
    assert {"unified", "dynamic", "mixup"} <= set(COLLATES)


NAMES = st.sampled_from(["a", "b", "no", "größe"])
CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "seed": st.integers(),
        "batch_size": st.integers(1, 1000),
        "pad_features": st.booleans(),
        "strategy": st.sampled_from(sorted(STRATEGIES)),
        "transforms": st.lists(
            st.fixed_dictionaries(
                {"name": st.just("gaussian_noise")},
                optional={
                    "std": st.floats(0, 10).map(lambda x: x if x % 2 else str(x)),
                    "keys": st.none() | st.lists(NAMES, max_size=2),
                    "x-note": st.none() | st.lists(st.integers(), max_size=2),
                },
            ),
            max_size=3,
        ),
        "datasets": st.lists(
            st.fixed_dictionaries(
                {
                    "adapter": st.just("hdf5"),
                    "path": st.text(min_size=1, max_size=5),
                    "subset": NAMES,
                    "schema": st.fixed_dictionaries(
                        {"features": st.just([{"name": "a", "time_dim": "3"}])}
                    ),
                },
                optional={"preload": st.booleans(), "eval": st.just({"subset": "v"})},
            ),
            max_size=2,
        ),
        "collate": st.sampled_from(list(COLLATES)),
        "subsample": st.none()
        | st.fixed_dictionaries({"policy": st.sampled_from(["fresh", "exhaust"])}),
        "num_replicas": st.none() | st.integers(1, 8),
        "drop_last": st.booleans(),
        "metadata": st.lists(NAMES, max_size=2),
        "x-mine": st.none() | st.dictionaries(NAMES, st.integers(), max_size=2),
    },
)


@settings(max_examples=60, deadline=None)
@given(CONFIGS)
def test_to_dict_round_trips(values):
    if not values.get("pad_features", True):
        values = {**values, "collate": "dynamic"}
    config = OmniConfig.from_dict(values)
    again = OmniConfig.from_dict(config.to_dict())
    assert again == config
    assert again.to_dict() == config.to_dict()


def test_to_dict_survives_yaml_and_json(tmp_path):
    import json

    import yaml

    config = OmniConfig(datasets=[ENTRY], transforms=[{"name": "gaussian_noise", "std": 1e-3}])
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(config.to_dict()))
    (tmp_path / "c.json").write_text(json.dumps(config.to_dict()))
    assert OmniConfig.from_yaml(tmp_path / "c.yaml") == config
    assert OmniConfig.from_json(tmp_path / "c.json") == config


def test_a_nan_placeholder_is_possible():
    spec = {"name": "a", "placeholder": math.nan}
    config = OmniConfig(datasets=[{**ENTRY, "schema": {"features": [spec]}}])
    assert math.isnan(config.datasets[0]["schema"]["features"][0]["placeholder"])


def test_tuples_are_lists():
    config = OmniConfig(subsample=({"replacement": True}, None), metadata=("speaker",))
    assert config.subsample == [{"replacement": True}, None]
    assert config.metadata == ["speaker"]


def test_an_adapter_of_the_user(monkeypatch):
    from omniloader.data.factory import ADAPTERS

    def open_table(path: str, delimiter: "Unknown" = ",", **options: object):  # noqa: F821
        return path, delimiter, options

    monkeypatch.setitem(ADAPTERS, "table", open_table)
    entry = {"adapter": "table", "path": "a", "delimiter": ";", "schema": SCHEMA}
    assert OmniConfig(datasets=[entry]).datasets == [entry]
    text = refusal(datasets=[{**entry, "delimitr": ";"}])
    assert text == "datasets[0].delimitr: unknown key, did you mean 'delimiter'?"

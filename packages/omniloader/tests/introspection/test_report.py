import json
import math

import numpy as np
import pytest
import torch
from rich.console import Console

from omniloader import DatasetSchema, DictTensorDataset, OmniLoader, TensorSpec
from omniloader.errors import ConfigError, SampleError
from omniloader.introspection import describe, forecast, validate
from omniloader.introspection.describe import spread
from omniloader.introspection.render import render
from omniloader.introspection.subject import labels_of
from omniloader.introspection.tally import KeyTally


class Rows:
    """A source of given samples; an exception among them is raised when it is read."""

    def __init__(self, rows, sample_ids=None, **attributes):
        self.rows = rows
        if sample_ids is not None:
            self.sample_ids = sample_ids
        for name, value in attributes.items():
            setattr(self, name, value)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        if isinstance(self.rows[index], BaseException):
            raise self.rows[index]
        return self.rows[index]


class Mix:
    """The part of a loader that introspection looks at, names not made unique."""

    def __init__(self, loader, names):
        self.loader, self.names = loader, names

    def __getattr__(self, name):
        return getattr(self.loader, name)


def loader_of(rows, *specs, targets=(), **options):
    return OmniLoader(
        [rows if hasattr(rows, "__getitem__") and not isinstance(rows, list) else Rows(rows)],
        [DatasetSchema(list(specs), list(targets))],
        **options,
    )


def facts(report, key, source=0):
    return report.sources[source].keys[key]


def texts(report):
    return [str(finding) for finding in report.findings]


X = TensorSpec("x", feature_dim=2, time_dim=4)
Y = TensorSpec("y")
LABEL = TensorSpec("label", dtype=torch.int64, placeholder=-1)


def test_a_narrow_window_folds_the_spec_and_no_number() -> None:
    rows = [{"x": torch.full((length, 2), -9.5)} for length in (11, 51, 80)]
    clean = validate(loader_of(rows, TensorSpec("x", feature_dim=2, time_dim=80)))
    console = Console(width=80)
    with console.capture() as capture:
        console.print(render(clean))
    text = capture.get()
    assert " 11/51/80 " in text
    assert " -9.5 … -9.5" in text
    assert "misfits" not in text
    assert "NaN" not in text


class TestDescribe:
    def test_coverage_shares_and_classes(self):
        omni = OmniLoader(
            [
                DictTensorDataset({"x": torch.randn(10, 2, 2), "label": torch.arange(10) % 3}),
                DictTensorDataset({"y": torch.randn(4)}),
            ],
            [DatasetSchema([X], [LABEL]), DatasetSchema([], [Y])],
            names=["a", "b"],
        )
        report = omni.describe()
        assert report.names == ["a", "b"]
        assert report.sizes == [10, 4]
        assert report.union_keys == ["x", "label", "y"]
        assert report.coverage["a"] == {"x": True, "label": True, "y": False}
        assert report.valid_fraction == {
            "a": {"x": 0.5, "label": 1.0, "y": 0.0},
            "b": {"x": 0.0, "label": 0.0, "y": 1.0},
        }
        assert report.class_distributions == {"a": {"label": {0: 4, 1: 3, 2: 3}}, "b": {}}
        assert report.ok
        assert report.findings == ()

    def test_native_lengths_do_not_count_padding(self):
        rows = [{"x": torch.zeros(length, 2)} for length in (1, 2, 9)]
        padded = facts(describe(loader_of(rows, X)), "x")
        native = facts(describe(loader_of(rows, X, pad_features=False)), "x")
        assert padded.lengths == native.lengths == (1, 2.0, 9)
        assert padded.valid_fraction == pytest.approx((1 + 2 + 4) / 12)
        assert native.valid_fraction == 1.0

    def test_masks_and_missing_values(self):
        rows = [
            {"x": torch.ones(4, 2), "x_mask": torch.tensor([1, 1, 0, 0])},
            {"x": None},
            {},
            {"x": torch.ones(4, 2)},
        ]
        found = facts(describe(loader_of(rows, X)), "x")
        assert (found.present, found.valid_fraction) == (2, 6 / 16)

    def test_nonfinite_values_are_counted_where_they_are_real(self):
        value = torch.tensor([[math.nan, 1], [math.inf, -math.inf], [2, 3], [math.nan, 0]])
        rows = [{"x": value, "x_mask": torch.tensor([True, True, True, False])}]
        report = describe(loader_of(rows, X))
        found = facts(report, "x")
        assert (found.nan, found.posinf, found.neginf) == (1, 1, 1)
        assert (found.minimum, found.maximum) == (1.0, 3.0)
        assert texts(report) == [
            "warning: source 'dataset_0', 'x': 1 NaN, 1 +inf, 1 -inf among its real values; "
            'declare nonfinite="mask" to mask such steps, or clean the source'
        ]

    def test_masked_nonfinite_steps_are_not_real(self):
        spec = TensorSpec("x", feature_dim=2, time_dim=4, nonfinite="mask")
        value = torch.ones(4, 2)
        value[0, 1] = math.nan
        report = describe(loader_of([{"x": value}], spec))
        assert facts(report, "x").valid_fraction == 0.75
        assert report.findings == ()

    def test_nonfinite_values_that_will_raise_are_errors(self):
        spec = TensorSpec("y", nonfinite="raise")
        report = describe(loader_of([{"y": math.nan}], spec))
        assert "1 NaN or infinite values, and its spec says nonfinite='raise'" in texts(report)[0]
        assert not report.ok

    def test_sentinels_are_counted_and_not_real(self):
        spec = TensorSpec("x", feature_dim=2, time_dim=4, sentinel=-9)
        value = torch.tensor([[-9.0, -9], [1, 2], [3, -9], [5, 6]])
        found = facts(describe(loader_of([{"x": value}], spec)), "x")
        assert (found.sentinel, found.valid_fraction) == (2, 0.5)
        assert (found.minimum, found.maximum) == (1.0, 6.0)

    def test_a_sentinel_of_a_number(self):
        spec = TensorSpec("y", sentinel=-1)
        found = facts(describe(loader_of([{"y": -1.0}, {"y": 2.0}], spec)), "y")
        assert (found.sentinel, found.valid_fraction) == (1, 0.5)

    def test_bool_and_complex_values(self):
        flag, wave = TensorSpec("flag", dtype=torch.bool), TensorSpec("wave", dtype=torch.complex64)
        rows = [{"flag": True, "wave": 1j}, {"flag": False, "wave": 2.0}]
        report = describe(loader_of(rows, wave, targets=[flag]))
        assert report.class_distributions["dataset_0"] == {"flag": {0: 1, 1: 1}}
        assert facts(report, "wave").minimum is None

    def test_samples_are_spread_over_the_source(self):
        rows = [{"label": number} for number in range(100)]
        report = describe(loader_of(rows, targets=[LABEL]), 5)
        assert list(report.class_distributions["dataset_0"]["label"]) == [0, 24, 49, 74, 99]
        assert report.sources[0].read == 5

    def test_all_samples_with_workers_are_the_same_report(self):
        rows = [{"x": torch.full((1 + n % 4, 2), float(n)), "label": n % 7} for n in range(150)]
        omni = loader_of(rows, X, targets=[LABEL])
        alone = describe(omni, None)
        assert describe(omni, None, num_workers=2) == alone
        assert alone.sources[0].read == 150

    def test_progress_is_told_of_every_source(self):
        seen = []

        def track(items, *, total, description):
            seen.append((description, total))
            return items

        describe(loader_of([{"y": 1.0}] * 70, Y), None, track=track)
        assert seen == [("dataset_0", 2)]

    def test_transforms_are_left_out(self):
        from omniloader import InstanceNormalize

        omni = loader_of(
            [{"y": 5.0, "x": torch.full((4, 2), 7.0)}], X, Y, transform=InstanceNormalize()
        )
        assert facts(omni.describe(), "x").maximum == 7.0

    @pytest.mark.parametrize("limit", [0, -1, True])
    def test_a_limit_that_is_none(self, limit):
        with pytest.raises(ConfigError, match="max_samples must be at least 1, or None for all"):
            describe(loader_of([{"y": 1.0}], Y), limit)

    def test_two_sources_of_one_name_stay_apart(self):
        omni = OmniLoader(
            [Rows([{"y": 1.0}]), Rows([{"y": 2.0}])], [DatasetSchema([Y]), DatasetSchema([Y])]
        )
        report = describe(Mix(omni, ["a", "a"]))
        assert report.names == ["a[0]", "a[1]"]
        assert [facts(report, "y", source).maximum for source in (0, 1)] == [1.0, 2.0]

    def test_storage(self, tmp_path):
        path = tmp_path / "file"
        path.write_bytes(b"12345")
        rows = Rows([{"y": 1.0}], path=path, storage=lambda: {"filters": "gzip"})
        assert describe(loader_of(rows, Y)).sources[0].storage == {
            "type": "Rows",
            "path": str(path),
            "bytes": 5,
            "filters": "gzip",
        }
        folder = Rows([{"y": 1.0}], root=tmp_path)
        assert describe(loader_of(folder, Y)).sources[0].storage == {
            "type": "Rows",
            "path": str(tmp_path),
        }


class TestValidate:
    def test_good_data(self):
        report = loader_of([{"x": torch.zeros(3, 2)}], X).validate(strict=True)
        assert report.ok

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (torch.zeros(3, 5), "sample 0 must be a sequence of shape (t, 2), got shape (3, 5)"),
            (torch.zeros(2), "sample 0 must be a sequence of shape (t, 2), got shape (2,)"),
            ("abc", "sample 0 must be numeric, got str 'abc'"),
            ([[1, 2], [3]], "sample 0 must be one rectangular array"),
        ],
    )
    def test_values_that_do_not_fit(self, value, text):
        report = validate(loader_of([{"x": value}, {"x": torch.zeros(1, 2)}], X))
        assert texts(report)[0].startswith(f"error: source 'dataset_0', 'x': {text}")
        assert "(1 of 2 samples read)" in texts(report)[0]
        assert facts(report, "x").misfits == 1

    def test_a_cast_that_loses(self):
        report = validate(loader_of([{"label": 1.5}], targets=[LABEL]))
        assert "must hold numbers that torch.int64 can represent, got 1.5" in texts(report)[0]

    def test_a_mask_that_does_not_fit(self):
        rows = [{"x": torch.zeros(3, 2), "x_mask": torch.ones(2)}]
        assert "mask must have shape (3,)" in texts(validate(loader_of(rows, X)))[0]

    def test_a_declared_key_that_no_sample_has(self):
        assert texts(validate(loader_of([{"y": 1.0}], X, Y))) == [
            "error: source 'dataset_0', 'x': is declared, but none of the 1 samples read has it; "
            "correct the name, or leave it out of the schema"
        ]

    def test_keys_that_nothing_declares(self):
        rows = [{"y": 1.0, "y_mask": True, "z": 1, "speaker": "a", "key": "k", "mood": "b"}]
        report = validate(loader_of(rows, Y, metadata=("speaker",)))
        assert texts(report) == [
            "warning: source 'dataset_0': holds 'mood', 'z', which its schema does not declare: "
            "never in a batch; declare what you need, or carry text by metadata"
        ]
        assert report.ok

    def test_metadata_that_no_source_has(self):
        rows = [{"y": 1.0}, {"y": 1.0, "speaker": "a"}]
        report = validate(loader_of(rows, Y, metadata=("speaker", "speeker")))
        assert texts(report) == [
            "warning: source 'dataset_0', 'speeker': is asked for as metadata, but none of the 2 "
            "samples read has it; correct the name, or leave it out"
        ]
        assert describe(loader_of(rows, Y, metadata=("speeker",))).findings == ()

    def test_samples_that_cannot_be_read(self):
        rows = [{"y": 1.0}, OSError("truncated"), StopIteration(), 3]
        report = validate(loader_of(rows, Y))
        assert texts(report) == [
            "error: source 'dataset_0': 3 of 4 samples read cannot be read, first sample 1: "
            "OSError: truncated"
        ]

    def test_what_is_no_error_of_the_data_is_not_caught(self):
        with pytest.raises(KeyboardInterrupt):
            validate(loader_of([KeyboardInterrupt()], Y))

    def test_a_sample_that_is_no_dict(self):
        assert "must be a dict, got int" in texts(validate(loader_of([3], Y)))[0]

    def test_doubled_sample_ids(self):
        rows = Rows([{"y": 1.0}] * 3, sample_ids=["a", "b", "a"])
        assert (
            "1 sample ids stand more than once: 'a'; make them unique"
            in texts(validate(loader_of(rows, Y)))[0]
        )
        good = Rows([{"y": 1.0}] * 2, sample_ids=["a", "b"])
        assert validate(loader_of(good, Y)).ok

    def test_what_a_source_says_of_its_storage(self):
        rows = Rows([{"y": 1.0}], storage_problems=lambda: ["link to a file that is gone"])
        assert texts(validate(loader_of(rows, Y))) == [
            "error: source 'dataset_0': link to a file that is gone"
        ]

    def test_no_real_value(self):
        rows = [{"x": torch.ones(2, 2), "x_mask": torch.zeros(2)}]
        assert (
            "no real value in the 1 samples read: its masks are all False"
            in texts(validate(loader_of(rows, X)))[0]
        )

    def test_an_empty_source(self):
        omni = OmniLoader([Rows([]), Rows([{"y": 1.0}])], [DatasetSchema([Y])] * 2)
        report = validate(omni)
        assert texts(report) == [
            "warning: source 'dataset_0': holds no samples; it never contributes to a mix"
        ]
        assert facts(report, "y").valid_fraction == 0.0

    def test_strict_raises_with_every_error(self):
        omni = loader_of([{"x": 1, "z": 2}], X, Y)
        with pytest.raises(
            SampleError, match="the data does not fit its schemas, 2 errors:\n"
        ) as got:
            omni.validate(strict=True)
        assert "'x': sample 0 must be a sequence" in str(got.value)
        assert "'y': is declared" in str(got.value)
        assert "warning" not in str(got.value)

    def test_errors_come_first(self):
        report = validate(loader_of([{"y": "a", "z": 1}], Y))
        assert [finding.level for finding in report.findings] == ["error", "warning"]
        assert report.errors == [report.findings[0]]

    def test_a_number_of_samples_that_is_none(self):
        with pytest.raises(ConfigError, match="num_samples must be at least 1, or None for all"):
            validate(loader_of([{"y": 1.0}], Y), 0)


class TestForms:
    @pytest.fixture
    def report(self):
        rows = [{"x": torch.zeros(3, 2), "label": n % 20, "z": math.nan, "w": 1} for n in range(60)]
        z = TensorSpec("z")
        return describe(loader_of(rows, X, z, targets=[LABEL]))

    def test_json(self, report):
        data = json.loads(report.to_json())
        assert data == json.loads(json.dumps(report.to_dict()))
        assert data["names"] == ["dataset_0"]
        assert data["coverage"]["dataset_0"]["x"] is True
        assert data["class_distributions"]["dataset_0"]["label"]["0"] == 3
        assert data["findings"][0]["level"] == "warning"

    def test_text(self, report):
        text = str(report)
        assert "dataset_0" in text
        assert "75%" in text
        assert "label *" in text
        assert "… 8 more" in text
        assert "60 NaN" in text
        assert "\x1b" not in text

    def test_no_findings_and_no_classes(self):
        text = str(describe(loader_of([{"y": 1.0}], Y)))
        assert "no findings" in text
        assert "Classes" not in text

    def test_misfits_stand_in_the_table(self):
        assert "misfits" in str(describe(loader_of([{"x": 1}], X)))

    def test_rich_prints_it(self, report):
        console = Console(width=200, force_terminal=True, color_system="truecolor")
        with console.capture() as capture:
            console.print(report)
        assert "Valid share by source and key" in capture.get()
        assert "\x1b" in capture.get()


@pytest.mark.parametrize(
    ("size", "limit", "indices"),
    [
        (0, 3, []),
        (3, None, [0, 1, 2]),
        (3, 5, [0, 1, 2]),
        (9, 1, [4]),
        (9, 2, [0, 8]),
        (9, 3, [0, 4, 8]),
    ],
)
def test_spread(size, limit, indices):
    assert spread(size, limit).tolist() == indices


def test_labels():
    assert labels_of(["a", "b", "a"]) == ["a[0]", "b", "a[2]"]


def test_tallies_of_parts_add_up():
    rows = [{"x": torch.full((1 + n % 3, 2), float(n))} for n in range(7)] + [{"x": 1}, {}]
    whole, left, right = (KeyTally(spec=X) for _ in range(3))
    for number, row in enumerate(rows):
        whole.add(number, row)
        (left if number < 4 else right).add(number, row)
    left.merge(right)
    assert left == whole


class TestForecast:
    def mix(self):
        rows = [{"x": torch.zeros(1 + n % 4, 2), "label": 0} for n in range(8)]
        other = [{"y": 1.0} for _ in range(2)]
        return OmniLoader(
            [Rows(rows), Rows(other), Rows([])],
            [DatasetSchema([X], [LABEL]), DatasetSchema([], [Y]), DatasetSchema([], [Y])],
            names=["a", "b", "empty"],
        )

    def test_counts_targets_and_padding(self):
        batches = [[0, 1, 8], [2, 3, 3], [8, 9]]
        found = forecast(self.mix(), [5, 3, 0], batches, epoch=2)
        assert [(s.count, s.passes, s.share) for s in found.sources] == [
            (5, 0.625, 0.625),
            (3, 1.5, 0.375),
            (0, 0.0, 0.0),
        ]
        assert (found.epoch, found.samples, found.batches, found.examined) == (2, 8, 3, 3)
        label, y = found.targets
        assert (label.key, label.labels, label.empty_batches) == ("label", 5, 1 / 3)
        assert (y.labels, y.per_batch, y.empty_batches) == (3, 1.0, 1 / 3)
        assert found.padding == {"x": pytest.approx(1 - (1 + 2 + 3 + 4 + 4) / 20)}

    def test_dynamic_padding(self):
        found = forecast(self.mix(), [4, 0, 0], [[0, 1], [2, 3]], dynamic_keys=["x"])
        assert found.padding == {"x": pytest.approx(1 - (1 + 2 + 3 + 4) / (4 + 8))}

    def test_only_some_batches_are_examined(self):
        found = forecast(self.mix(), [8, 0, 0], [[n] for n in range(8)], max_batches=2)
        assert (found.batches, found.examined) == (8, 2)
        assert found.targets[0].labels == 8

    def test_batches_of_known_number_need_not_all_be_made(self):
        made = []

        class Batches(list):
            def __iter__(self):
                for batch in super().__iter__():
                    made.append(batch)
                    yield batch

        batches = Batches([[n, 9] for n in range(8)])
        found = forecast(self.mix(), [8, 8, 0], batches, max_batches=3, draws=16)
        assert (found.samples, found.batches, found.examined, len(made)) == (16, 8, 3, 3)
        assert found.targets[1].labels == 8

    def test_warnings(self):
        found = forecast(self.mix(), [0, 50, 0], [[8, 9]])
        assert [text.split(";")[0] for text in found.warnings] == [
            "source 'a' is seen 0 times an epoch: most of it is not used",
            "source 'b' is seen 25 times an epoch: it will be learnt by heart",
            "target 'label' has no label in 100% of the batches",
        ]

    def test_an_epoch_without_batches(self):
        found = forecast(self.mix(), [0, 0, 0], [])
        assert (found.samples, found.targets[0].per_batch, found.padding) == (0, 0.0, {})

    def test_plain_values(self):
        assert json.dumps(forecast(self.mix(), np.array([1, 1, 0]), [[0, 8]]).to_dict())


def test_what_marks_a_missing_value_is_counted_although_the_dtype_cannot_hold_it():
    label = TensorSpec("label", dtype=torch.int64, nonfinite="mask")
    grade = TensorSpec("grade", dtype=torch.uint8, sentinel=-1)
    rows = [{"label": 1.0, "grade": 3}, {"label": math.nan, "grade": -1}]
    report = describe(loader_of([*rows, {"label": 2.5, "grade": 300}], label, grade))
    assert facts(report, "label").nan == 1
    assert facts(report, "grade").sentinel == 1
    assert facts(report, "label").valid_fraction == facts(report, "grade").valid_fraction == 1 / 3
    assert (facts(report, "label").misfits, facts(report, "grade").misfits) == (1, 1)
    assert (facts(report, "grade").minimum, facts(report, "grade").maximum) == (3, 3)


@pytest.mark.parametrize("pad", [True, False])
def test_sequences_that_lose_their_end_are_said(pad):
    schema = DatasetSchema([TensorSpec("x", time_dim=3)])
    data = [{"x": torch.zeros(n)} for n in (2, 3, 5, 7)]
    report = validate(OmniLoader([data], [schema], pad_features=pad, names=["a"]))
    texts = [str(finding) for finding in report.findings]
    said = (
        "warning: source 'a', 'x': 2 of 4 samples read are longer than time_dim=3 (up to 7 steps) "
        "and lose their end; raise time_dim, or keep native lengths (pad_features: false) and "
        "crop at random"
    )
    assert texts == ([said] if pad else [])

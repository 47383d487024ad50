"""From declarations to omniloader schemas."""

from __future__ import annotations

import dataclasses
import logging

import pytest
import torch
from blinkdata import CEW, HUST, RN15

from blinklinmult.data import omni
from blinklinmult.data.omni import build_schemas, dataset_schema, eye_image_shape, unified_specs
from blinklinmult.data.schema import SchemaError
from omniloader import UnifiedSchema


def test_every_declared_value_becomes_a_spec_in_order() -> None:
    schema = dataset_schema(RN15, time_dim=9, image_size=8, feature_dim=5, embedding_dim=7)
    shapes = {spec.name: spec.value_shape for spec in schema.features}
    assert list(shapes.items()) == [
        ("eye_image", (9, 3, 8, 8)),
        ("eye_embedding", (9, 7)),
        ("eye_feature", (9, 5)),
        ("head_pose", (9, 3)),
        ("eye_blur", (9,)),
        ("eye_exposure", (9,)),
        ("eye_contour_fit", (9,)),
        ("eye_jitter", (9,)),
        ("blink_ids", (9,)),
    ]
    ids = schema.features[-1]
    assert (ids.dtype, ids.placeholder) == (torch.int64, -1)
    targets = [(spec.name, spec.value_shape, spec.placeholder) for spec in schema.targets]
    assert targets == [("blink_presence", (9,), -1.0), ("eye_state", (9,), -1.0)]


def test_what_a_corpus_lacks_is_absent() -> None:
    schema = dataset_schema(CEW, time_dim=9, image_size=8, feature_dim=5)
    assert schema.keys == {"eye_image", "eye_state"}


def test_the_image_has_its_native_shape() -> None:
    assert eye_image_shape(64) == (3, 64, 64)


def test_a_descriptor_of_another_width_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"corpus 'rn15': feature_dim must be the run's, .* 6"):
        dataset_schema(RN15, 9, 8, 6)


def test_the_longest_window_is_shared_and_shorter_ones_are_padded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, omni.logger.name):
        assert unified_specs([CEW, RN15, HUST]) == (12, 8, 5)
    assert [record.levelname for record in caplog.records] == ["INFO", "INFO"]
    assert "corpus 'rn15': windows of 6 frames are padded to the run's time_dim 12" in caplog.text


def test_a_cropped_window_is_warned_of_but_not_for_stills(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert unified_specs([RN15], time_dim=1, stills=True) == (1, 8, 5)
    assert unified_specs([RN15], stills=True)[0] == 1
    assert not caplog.records
    unified_specs([RN15], time_dim=4)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "windows of 6 frames are cropped to the run's time_dim 4" in record.getMessage()


def test_schemas_unpack_in_the_order_of_the_corpora_and_agree() -> None:
    schemas, time_dim, image_size, feature_dim = build_schemas([CEW, RN15], embedding_dim=4)
    assert (len(schemas), time_dim, image_size, feature_dim) == (2, 6, 8, 5)
    assert UnifiedSchema(schemas).feature_keys[:2] == ["eye_image", "eye_embedding"]
    assert build_schemas([CEW]).feature_dim is None


@pytest.mark.parametrize(
    ("changes", "options", "text"),
    [
        ({"image_size": 16}, {}, r"corpora must agree on image_size, got cew=8, rn15=16; build"),
        ({"feature_dim": 9, "name": "rn30"}, {}, r"corpora must agree on feature_dim"),
        ({}, {"time_dim": 0}, r"time_dim must be at least 1, got 0"),
    ],
)
def test_corpora_that_disagree_are_refused(
    changes: dict[str, object], options: dict[str, int], text: str
) -> None:
    other = dataclasses.replace(RN15, **changes)  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match=text):
        unified_specs([CEW, RN15, other] if "name" in changes else [CEW, other], **options)


def test_no_corpus_is_refused_and_a_given_size_settles_a_dispute() -> None:
    with pytest.raises(SchemaError, match="specs must hold at least one corpus, got none"):
        unified_specs([])
    big = dataclasses.replace(CEW, image_size=16)
    assert unified_specs([big, RN15], image_size=8)[1] == 8

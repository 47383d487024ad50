"""The vocabulary, keys, and the declaration of a corpus."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blinklinmult.data import schema
from blinklinmult.data.schema import (
    DATASETS,
    EYE_SIDES,
    IMAGE_DATASETS,
    VIDEO_DATASETS,
    DatasetSpec,
    SchemaError,
    build_sample_id,
    frames_for,
    parse_sample_id,
)

parts = st.text(min_size=1, max_size=8).filter(lambda text: not set("|/") & set(text))


def test_names_are_those_of_the_format() -> None:
    assert (*VIDEO_DATASETS, *IMAGE_DATASETS) == DATASETS
    assert VIDEO_DATASETS == ("talkingface", "rn15", "rn30", "hust_lebw", "mpeblink")
    assert IMAGE_DATASETS == ("cew", "mrl")
    values = {name: getattr(schema, name) for name in schema.__all__}
    assert values["SCHEMA_VERSION"] == 3
    assert values["SUBSETS"] == ("train", "valid", "test")
    assert (values["NO_BLINK"], values["INVALID_BLINK"]) == (-1, -2)
    assert values["TARGET_PLACEHOLDER"] == -1.0
    assert (values["SAMPLE_KEY"], values["SOURCE_KEY"]) == ("key", "dataset")
    assert issubclass(SchemaError, ValueError)


@pytest.mark.parametrize(
    ("fps", "seconds", "frames"),
    [(25, 0.5, 13), (30, 1.5, 45), (15, 1.5, 23), (30, 0.01, 1), (25, 1.5, 38), (2.5, 1, 3)],
)
def test_half_a_frame_is_rounded_up(fps: float, seconds: float, frames: int) -> None:
    assert frames_for(fps, seconds) == frames


@pytest.mark.parametrize(("fps", "seconds"), [(0, 1), (25, -1), (float("nan"), 1), (25, None)])
def test_a_window_needs_positive_numbers(fps: float, seconds: float) -> None:
    with pytest.raises(SchemaError, match=r"(fps|window_seconds) must be a positive number, got"):
        frames_for(fps, seconds)


@settings(deadline=None, max_examples=60)
@given(parts, parts, st.sampled_from(EYE_SIDES))
def test_a_key_comes_apart_as_it_was_put_together(video: str, group: str, side: str) -> None:
    assert parse_sample_id(build_sample_id(video, group, side)) == (video, group, side)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("a|b", "0", "left"), r"video_id must be a text without '\|' and '/', got 'a\|b'"),
        (("a/b", "0", "left"), r"video_id must be a text without"),
        (("a", "", "left"), r"frame_group must be a text"),
        (("a", "0", "middle"), r"eye_side must be one of left, right, unknown, got 'middle'"),
    ],
)
def test_impossible_keys_are_refused(arguments: tuple[str, str, str], text: str) -> None:
    with pytest.raises(SchemaError, match=text):
        build_sample_id(*arguments)


@pytest.mark.parametrize("key", ["", "a", "a|b", "a||left", "a|b|c", "a|b|left|d"])
def test_a_key_without_three_parts_is_refused(key: str) -> None:
    with pytest.raises(SchemaError, match=r"must be '<video_id>\|<frame_group>\|<eye_side>'"):
        parse_sample_id(key)


def test_a_declaration_says_what_a_corpus_has() -> None:
    spec = DatasetSpec(
        "rn30",
        fps=30,
        feature_dim=160,
        has_blink_presence=True,
        has_eye_state=True,
        has_head_pose=True,
        has_blink_ids=True,
        quality_signals=("eye_jitter", "eye_blur"),
    )
    assert (spec.is_video, spec.time_dim, spec.has_eye_feature) == (True, 45, True)
    assert spec.has_quality_signals
    assert spec.feature_keys == (
        "eye_image",
        "eye_feature",
        "head_pose",
        "eye_blur",
        "eye_jitter",
        "blink_ids",
    )
    assert spec.target_keys == ("blink_presence", "eye_state")
    assert spec.with_window(0.5).time_dim == 15
    assert spec.with_window(None) is spec
    still = DatasetSpec("cew", has_eye_state=True)
    assert (still.is_video, still.time_dim, still.has_eye_feature) == (False, 1, False)
    assert still.with_window(3.0) is still
    with pytest.raises(dataclasses.FrozenInstanceError):
        still.fps = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"name": "cev"}, r"unknown corpus 'cev', did you mean 'cew'\?; known: talkingface"),
        (
            {"image_size": 0},
            r"corpus 'cew': image_size must be a whole number of at least 1, got 0",
        ),
        ({"image_size": True}, r"image_size must be a whole number"),
        ({"feature_dim": -3}, r"feature_dim must be a whole number of at least 1, got -3"),
        ({"fps": 0}, r"fps must be a positive number or None, got 0"),
        ({"window_seconds": -1}, r"window_seconds must be a positive number or None, got -1"),
        ({"quality_signals": ("eye_blr",)}, r"quality_signals must be a list of eye_blur"),
        ({"quality_signals": None}, r"quality_signals must be a list of .*, got None"),
        ({"quality_signals": "eye_blur"}, r"quality_signals must be a list"),
        ({"has_eye_state": False}, r"must annotate at least one target; set has_blink_presence"),
        ({"has_eye_state": "yes"}, r"has_eye_state must be True or False, got 'yes'"),
        ({"has_blink_presence": True}, r"has blink presence, so it must have fps"),
        ({"fps": 25, "window_seconds": None}, r"is video \(fps=25\), so window_seconds must be"),
    ],
)
def test_impossible_corpora_are_refused(options: dict[str, object], text: str) -> None:
    with pytest.raises(SchemaError, match=text):
        DatasetSpec(**{"name": "cew", "has_eye_state": True, **options})  # type: ignore[arg-type]


def test_a_declaration_that_is_no_mapping_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"declared by keys and values, got \['cew'\]"):
        DatasetSpec.from_dict(["cew"])  # type: ignore[arg-type]


def test_a_declaration_comes_from_plain_values() -> None:
    values = {"name": "rn15", "fps": 15, "has_blink_presence": True, "quality_signals": []}
    assert DatasetSpec.from_dict(values) == DatasetSpec("rn15", fps=15, has_blink_presence=True)
    with pytest.raises(SchemaError, match=r"corpus 'cew': 'has_eye_stat': unknown key, did you"):
        DatasetSpec.from_dict({"name": "cew", "has_eye_stat": True})
    with pytest.raises(SchemaError, match="'name' is required; known: talkingface"):
        DatasetSpec.from_dict({"has_eye_state": True})

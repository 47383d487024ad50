"""From the declaration of a corpus to the schema omniloader reads it under.

The schema is made of the same :class:`~blinklinmult.data.schema.DatasetSpec` that the file was
written under, so the two cannot drift apart. Images travel in their native form
``(T, 3, H, W)``. Corpora of other frame rates have windows of other lengths; a run brings all of
them to the longest, with the padded frames masked.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

import torch

from blinklinmult.data.names import (
    BLINK_IDS,
    EYE_EMBEDDING,
    EYE_FEATURE,
    EYE_IMAGE,
    HEAD_POSE,
    HEAD_POSE_DIM,
    IMAGE_CHANNELS,
    NO_BLINK,
    TARGET_PLACEHOLDER,
)
from blinklinmult.data.spec import DatasetSpec
from blinklinmult.errors import SchemaError
from omniloader.schema.spec import DatasetSchema, TensorSpec

logger = logging.getLogger(__name__)


class RunSchemas(NamedTuple):
    """The schemas of a run's corpora, and the shape they share.

    Args:
        schemas: One a corpus, in the order of the corpora.
        time_dim: Frames T of a window.
        image_size: Side of a crop in pixels.
        feature_dim: Width of the descriptor; None if no corpus has one.
    """

    schemas: list[DatasetSchema]
    time_dim: int
    image_size: int
    feature_dim: int | None


def eye_image_shape(image_size: int) -> tuple[int, int, int]:
    """Trailing shape ``(C, H, W)`` of one frame's eye crop.

    Args:
        image_size: Side of the square crop in pixels.
    """
    return (IMAGE_CHANNELS, image_size, image_size)


def dataset_schema(
    spec: DatasetSpec,
    time_dim: int,
    image_size: int,
    feature_dim: int | None,
    embedding_dim: int | None = None,
) -> DatasetSchema:
    """The omniloader schema of one corpus.

    What the corpus lacks is absent from the schema, and that is how it comes to be masked.

    Args:
        spec: The corpus.
        time_dim: Frames T of the run's windows.
        image_size: Side of the run's crops in pixels.
        feature_dim: Width of the run's descriptors; None if no corpus has them.
        embedding_dim: Width of embeddings read from a cache; None if the run has none.

    Raises:
        SchemaError: If the corpus has descriptors of another width than the run.
    """
    if spec.feature_dim is not None and spec.feature_dim != feature_dim:
        raise SchemaError(
            f"corpus '{spec.name}': feature_dim must be the run's, which is {feature_dim}, got "
            f"{spec.feature_dim}; build its file with that width, or leave the corpus out"
        )
    features = [TensorSpec(EYE_IMAGE, shape=eye_image_shape(image_size), time_dim=time_dim)]
    if embedding_dim is not None:
        # Only declared keys reach a batch, and no corpus file holds embeddings: this line is
        # what lets them through.
        features.append(TensorSpec(EYE_EMBEDDING, feature_dim=embedding_dim, time_dim=time_dim))
    if spec.has_eye_feature:
        features.append(TensorSpec(EYE_FEATURE, feature_dim=feature_dim, time_dim=time_dim))
    if spec.has_head_pose:
        features.append(TensorSpec(HEAD_POSE, feature_dim=HEAD_POSE_DIM, time_dim=time_dim))
    features += [TensorSpec(signal, time_dim=time_dim) for signal in spec.quality_signals]
    if spec.has_blink_ids:
        # Identities: float32 would merge neighbours past 2**24, and 0 is the number of a blink.
        features.append(
            TensorSpec(BLINK_IDS, time_dim=time_dim, dtype=torch.int64, placeholder=NO_BLINK)
        )
    targets = [
        TensorSpec(target, time_dim=time_dim, placeholder=TARGET_PLACEHOLDER)
        for target in spec.target_keys
    ]
    return DatasetSchema(features=features, targets=targets)


def unified_specs(
    specs: list[DatasetSpec],
    time_dim: int | None = None,
    image_size: int | None = None,
    stills: bool = False,
) -> tuple[int, int, int | None]:
    """The shape a joint run brings every corpus to.

    Args:
        specs: The corpora, in windows of the run's length.
        time_dim: Frames T of a window. None: the longest any corpus needs, so that none is
            cropped; 1 with ``stills``.
        image_size: Side of the crops. None: the corpora must agree, because resizing a crop
            would resample it a second time.
        stills: The run serves single frames, chosen before omniloader sees them: nothing is
            cropped, and no warning says so.

    Returns:
        (time_dim, image_size, feature_dim).

    Raises:
        SchemaError: If there is no corpus, or they disagree on the size of crops (with none
            given) or the width of descriptors.
    """
    if not specs:
        raise SchemaError("unified_specs: specs must hold at least one corpus, got none")
    if time_dim is None:
        time_dim = 1 if stills else max(spec.time_dim for spec in specs)
    for label, value in (("time_dim", time_dim), ("image_size", image_size)):
        if value is not None and value < 1:
            raise SchemaError(f"unified_specs: {label} must be at least 1, got {value}")
    if not stills:
        _report_lengths(specs, time_dim)
    if image_size is None:
        _agreed(specs, "image_size")
        image_size = specs[0].image_size
    return time_dim, image_size, _agreed(specs, "feature_dim")


def build_schemas(
    specs: list[DatasetSpec],
    time_dim: int | None = None,
    image_size: int | None = None,
    stills: bool = False,
    embedding_dim: int | None = None,
) -> RunSchemas:
    """Resolve the run's shape and make every corpus's schema.

    Args:
        specs: The corpora, in windows of the run's length.
        time_dim: Frames of a window; None as in :func:`unified_specs`.
        image_size: Side of the crops; None as in :func:`unified_specs`.
        stills: The run serves single frames.
        embedding_dim: Width of embeddings read from a cache; None if the run encodes live.

    Returns:
        A tuple ``(schemas, time_dim, image_size, feature_dim)``.

    Raises:
        SchemaError: As :func:`unified_specs`.
    """
    shape = unified_specs(specs, time_dim, image_size, stills)
    return RunSchemas([dataset_schema(spec, *shape, embedding_dim) for spec in specs], *shape)


def _report_lengths(specs: Sequence[DatasetSpec], time_dim: int) -> None:
    for spec in specs:
        if spec.time_dim > time_dim:
            logger.warning(
                "corpus '%s': windows of %d frames are cropped to the run's time_dim %d",
                spec.name,
                spec.time_dim,
                time_dim,
            )
        elif spec.time_dim < time_dim:
            logger.info(
                "corpus '%s': windows of %d frames are padded to the run's time_dim %d and masked",
                spec.name,
                spec.time_dim,
                time_dim,
            )


def _agreed(specs: Sequence[DatasetSpec], attribute: str) -> int | None:
    """The one value that all corpora with this attribute have."""
    found = {spec.name: getattr(spec, attribute) for spec in specs}
    given = {name: value for name, value in found.items() if value is not None}
    if len(set(given.values())) > 1:
        listed = ", ".join(f"{name}={value}" for name, value in given.items())
        raise SchemaError(
            f"corpora must agree on {attribute}, got {listed}; build them anew with one "
            f"{attribute}, or leave out those that differ"
        )
    return next(iter(given.values()), None)

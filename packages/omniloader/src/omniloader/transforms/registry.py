"""Transforms by the names a config calls them, and how to make them from plain data."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from omniloader.errors import ConfigError
from omniloader.schema.spec import DatasetSchema, UnifiedSchema
from omniloader.transforms.augment import (
    FeatureDropout,
    FeatureMasking,
    GaussianNoise,
    SpanMasking,
    TimeWarp,
)
from omniloader.transforms.base import Compose, Transform
from omniloader.transforms.crop import CenterCrop, RandomCrop
from omniloader.transforms.image import ImageJitter
from omniloader.transforms.normalize import (
    InstanceNormalize,
    MinMaxNormalize,
    Normalize,
    PerDatasetNormalize,
    RobustNormalize,
)
from omniloader.transforms.stats import load_stats

TRANSFORMS: dict[str, type[Transform]] = {
    "normalize": Normalize,
    "min_max_normalize": MinMaxNormalize,
    "robust_normalize": RobustNormalize,
    "instance_normalize": InstanceNormalize,
    "per_dataset_normalize": PerDatasetNormalize,
    "gaussian_noise": GaussianNoise,
    "feature_dropout": FeatureDropout,
    "span_masking": SpanMasking,
    "feature_masking": FeatureMasking,
    "time_warp": TimeWarp,
    "random_crop": RandomCrop,
    "center_crop": CenterCrop,
    "image_jitter": ImageJitter,
}
"""Config names to transforms. Register your own here to use it from a config."""

# The assembly gives it; a config cannot.
_GIVEN = "schema"
# Options that may be named by the path of their file.
_FILES = {"stats", "union_stats"}


def build_transform(
    spec: Mapping[str, Any] | Sequence[Any] | Transform,
    schema: UnifiedSchema | DatasetSchema | None = None,
) -> Transform:
    """Make a transform of plain data, as a config holds it.

    ::

        build_transform([{"name": "span_masking", "p": 0.2}, {"name": "center_crop", "length": 8}])

    Args:
        spec: A mapping with ``name`` and options, a list of such (a :class:`Compose`, nested as
            it is), or a transform. Figures may be given by path: ``stats_path``,
            ``union_stats_path``.
        schema: The union schema, so that keys are checked now.

    Raises:
        ConfigError: If a name or option is not known, or one is missing or wrong.
        StatsError: If figures do not fit.
    """
    union = UnifiedSchema([schema]) if isinstance(schema, DatasetSchema) else schema
    built = _build(spec, "transform")
    return built if union is None else built.bind(union)


def _build(spec: Any, path: str) -> Transform:
    if isinstance(spec, Transform):
        return spec
    if isinstance(spec, Mapping):
        return _make(spec, path)
    if isinstance(spec, Sequence) and not isinstance(spec, str):
        return Compose([_build(child, f"{path}[{i}]") for i, child in enumerate(spec)])
    raise ConfigError(
        f"{path}: must be a mapping with 'name' or a list of them, got {spec!r}; "
        "write {'name': 'gaussian_noise', …}"
    )


def _make(spec: Mapping[str, Any], path: str) -> Transform:
    options = {key: value for key, value in spec.items() if not str(key).startswith("x-")}
    name = options.pop("name", None)
    if not isinstance(name, str) or name not in TRANSFORMS:
        hint = _nearest(str(name), TRANSFORMS)
        raise ConfigError(
            f"{path}.name: unknown transform {name!r}{hint}; known: {', '.join(TRANSFORMS)}"
        )
    cls = TRANSFORMS[name]
    parameters = inspect.signature(cls).parameters
    for option in _FILES & parameters.keys():
        if option + "_path" in options:
            options[option] = load_stats(options.pop(option + "_path"))
    known = [option for option in parameters if option != _GIVEN]
    for option in options:
        if option not in known:
            near = _nearest(str(option), known) or f"; known: {', '.join(known) or 'none'}"
            raise ConfigError(f"{path}.{option}: unknown key of '{name}'{near}")
    for option in known:
        parameter = parameters[option]
        if option not in options and parameter.default is parameter.empty:
            raise ConfigError(f"{path}.{option}: '{name}' must be given '{option}', got nothing")
    return cls(**options)


def _nearest(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f", did you mean '{near[0]}'?" if near else ""

"""Normalise each sample by the figures of the source it comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, get_args

import numpy as np

from omniloader.errors import ConfigError, StatsError
from omniloader.schema.spec import DatasetSchema, UnifiedSchema
from omniloader.transforms.batched import BatchTransform, Keys, Stack
from omniloader.transforms.draws import as_rows
from omniloader.transforms.figures import Affine, chosen_stats, read_figures, spread, standardise
from omniloader.transforms.instance import normalize_each
from omniloader.transforms.options import number
from omniloader.transforms.select import Form, Needs
from omniloader.transforms.valid import change_steps, valid_index

Fallback = Literal["instance", "union", "identity"]


class PerDatasetNormalize(BatchTransform):
    """``(x - mean) / std`` with the figures of the sample's own source.

    Where a source has no figures for a value that a sample of it holds, a source never seen
    before for instance, the fallback decides; another source's figures are never used.

    Args:
        stats: Sources to keys to mappings with ``mean`` and ``std``, as ``compute_dataset_stats``
            returns them.
        fallback: ``"instance"`` normalises a sequence by itself (see
            :class:`InstanceNormalize`), ``"union"`` takes ``union_stats``, ``"identity"`` leaves
            the value as it is.
        union_stats: Figures of all sources together, as ``compute_stats`` returns them.
        dataset_key: Metadata that names a sample's source.
        eps: A ``std`` of this or less counts as 0: the value is only shifted.
        keys: Which of the keys to normalise; default all that any source has figures for.
        schema: The union schema, to refuse keys that do not fit when the transform is made.

    Raises:
        ConfigError: If the fallback is not one of the three.
        StatsError: If figures are missing, not finite, or of another width; if a key is not in
            the schema or not floating; with ``fallback="instance"``, at a vector of a source
            without figures.
    """

    needs = Needs(floating=True, features_only=False)
    random = False
    refusal = StatsError

    def __init__(
        self,
        stats: Mapping[str, Mapping[str, Any]],
        fallback: Fallback = "instance",
        union_stats: Mapping[str, Any] | None = None,
        dataset_key: str = "dataset",
        eps: float = 1e-6,
        keys: Sequence[str] | None = None,
        schema: UnifiedSchema | DatasetSchema | None = None,
    ) -> None:
        self.fallback = _checked_fallback(fallback, union_stats)
        self.dataset_key = dataset_key
        self.eps = number("PerDatasetNormalize", "eps", eps, 0.0)
        self._affine = self._read(stats)
        known = dict.fromkeys(key for own in self._affine.values() for key in own)
        chosen = tuple(known if keys is None else keys)
        missing = [key for key in chosen if key not in known]
        if missing:
            raise StatsError(
                f"PerDatasetNormalize: stats must hold the key '{missing[0]}' for some source, "
                f"they hold: {', '.join(known)}; compute stats for it, or leave it out of keys"
            )
        self._union = {}
        if fallback == "union":
            entries = chosen_stats("PerDatasetNormalize", union_stats or {}, chosen)
            self._union = {key: self._figure(key, entry) for key, entry in entries.items()}
        super().__init__(chosen, schema)

    def apply_batch(self, stack: Stack, keys: Keys) -> None:
        """Normalise source by source."""
        column = stack.metadata.get(self.dataset_key) or [None] * stack.size
        sources = np.array(["" if name is None else str(name) for name in column], dtype=object)
        for form in self.forms(stack):
            _, mask = stack.pair(form.name)
            real = mask.reshape(stack.size, -1).any(1).numpy()
            for source in dict.fromkeys(sources[real].tolist()):
                self._normalize(stack, form, source, (sources == source) & real)

    def _normalize(self, stack: Stack, form: Form, source: str, rows: Any) -> None:
        """Normalise one value in the samples of one source."""
        value, mask = stack.pair(form.name)
        index = valid_index(mask, as_rows(rows))
        affine = self._affine.get(source, {}).get(form.name)
        if affine is None and self.fallback == "instance":
            if mask.ndim == 1:
                raise StatsError(
                    f"PerDatasetNormalize: stats must hold '{form.name}' for source '{source}', "
                    f"got sources {', '.join(self._affine)}; a vector cannot be normalised by "
                    "itself: use fallback='union' or 'identity'"
                )
            normalize_each(stack, form.name, index, self.eps)
        affine = affine or self._union.get(form.name)
        if affine is not None:
            trailing = tuple(value.shape[mask.ndim :])
            whose = form.name if form.name in self._affine.get(source, {}) else f"union/{form.name}"
            fitted = affine.fitted(trailing, value.dtype, whose, f"PerDatasetNormalize ({source})")
            change_steps(stack, form.name, index, partial(standardise, *fitted))

    def _read(self, stats: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Affine]]:
        sources = chosen_stats("PerDatasetNormalize", stats, None)
        for source, own in sources.items():
            if not isinstance(own, Mapping):
                raise StatsError(
                    f"PerDatasetNormalize: stats of source '{source}' must map keys to figures, "
                    f"got {type(own).__name__}; pass what compute_dataset_stats returns"
                )
            if any(figure in own for figure in ("mean", "std")):
                raise StatsError(
                    f"PerDatasetNormalize: stats must map sources to keys to figures, got figures "
                    f"for '{source}' itself, as of compute_stats; make them by source with "
                    "compute_dataset_stats (omniloader compute-stats --per-dataset)"
                )
        return {
            str(source): {key: self._figure(f"{source}/{key}", entry) for key, entry in own.items()}
            for source, own in sources.items()
        }

    def _figure(self, label: str, entry: Any) -> Affine:
        figures = read_figures("PerDatasetNormalize", label, entry, ("mean", "std"))
        scale = spread("PerDatasetNormalize", label, figures["std"], self.eps)
        return Affine(figures["mean"], scale)


def _checked_fallback(fallback: Fallback, union_stats: Mapping[str, Any] | None) -> Fallback:
    known = get_args(Fallback)
    if fallback not in known:
        raise ConfigError(
            f"PerDatasetNormalize: fallback must be one of {', '.join(known)}, got {fallback!r}"
        )
    if fallback == "union" and union_stats is None:
        raise StatsError(
            "PerDatasetNormalize: union_stats must be given with fallback='union', got nothing; "
            "pass what compute_stats returns for all sources"
        )
    return fallback

"""Open the split of a corpus file, checked against the corpus's declaration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
from torch.utils.data import Dataset

from blinklinmult.data.attributes import DAMAGE, mismatches, read_attributes, splits_of
from blinklinmult.data.keys import SampleId, parse_sample_id
from blinklinmult.data.labels import first_wrong, labels_of
from blinklinmult.data.names import (
    BLINK_ID,
    EYE_SIDE,
    FRAME_GROUP,
    MASKED,
    NO_BLINK,
    SAMPLE_KEY,
    SCHEMA_VERSION,
    TARGETS,
    VIDEO_ID,
)
from blinklinmult.data.spec import DatasetSpec
from blinklinmult.errors import DataModuleError, SchemaError
from omniloader._types import Column, IntArray, PathLike, Sample
from omniloader.data.datasets import HDF5Dataset
from omniloader.errors import SampleError, SourceError
from omniloader.masks import mask_name

KEY_METADATA = (VIDEO_ID, FRAME_GROUP, EYE_SIDE)
"""Metadata that is in the key of a sample, so that it costs no reading."""

METADATA = (*KEY_METADATA, BLINK_ID)
"""Metadata of every sample, beside its key, corpus and split."""


class CorpusDataset(Dataset[Sample]):
    """Samples of one split of a corpus: what it declares, the parts of the key, and ``blink_id``.

    Labels are checked as they are read.

    Args:
        spec: The corpus.
        h5_path: Its file.
        subset: The split.
        keys: Values to read; None: all that the corpus declares, and their masks.
        cache_size: Decoded samples each process keeps.
        preload: Decode all samples now.
        threads: Threads of each process that inflate.

    Raises:
        SourceError: If the file is missing, damaged, or lacks the split or a value.
        SchemaError: If a sample's key has not three parts.
    """

    def __init__(
        self,
        spec: DatasetSpec,
        h5_path: PathLike,
        subset: str,
        keys: Sequence[str] | None = None,
        cache_size: int = 0,
        preload: bool = False,
        threads: int = 0,
    ) -> None:
        self.spec = spec
        self.name = spec.name
        self.subset = subset
        own = declared_keys(spec) if keys is None else list(keys)
        self._is_whole = keys is None
        # A label can only be judged together with its mask.
        self._judged = [target for target in TARGETS if mask_name(target) in own]
        self._data = HDF5Dataset(
            h5_path,
            subset,
            keys=[*own, BLINK_ID] if self._is_whole and _names_blinks(h5_path, subset) else own,
            cache_size=cache_size,
            preload=preload,
            name=spec.name,
            threads=threads,
        )
        self.sample_ids: Sequence[str] = self._data.sample_ids
        for key in self.sample_ids:
            self._parsed(key)

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, index: int) -> Sample:
        """One sample.

        Raises:
            SampleError: If a label is outside [0, 1].
        """
        sample = self._data[index]
        key = self.sample_ids[index]
        self._check({name: value[None] for name, value in labels_of(sample).items()}, [key])
        if self._is_whole:
            sample.setdefault(BLINK_ID, NO_BLINK)
        return {**sample, SAMPLE_KEY: key, **self._metadata(key)}

    def read_batch(self, indices: IntArray | Sequence[int]) -> dict[str, Column]:
        """Columns of many samples.

        Args:
            indices: Positions, ``(n,)``.

        Raises:
            SampleError: If a label is outside [0, 1].
        """
        columns = self._data.read_batch(indices)
        keys = [self.sample_ids[int(i)] for i in indices]
        self._check(labels_of(columns), keys)
        parsed = [self._metadata(key) for key in keys]
        if self._is_whole:
            columns[BLINK_ID] = _with_default(columns.get(BLINK_ID), NO_BLINK, len(keys))
        columns[SAMPLE_KEY] = keys
        for name in KEY_METADATA:
            columns[name] = [parts[name] for parts in parsed]
        return columns

    def sequence_lengths(self, key: str) -> IntArray:
        """Native number of steps of a value in all samples, from shapes."""
        return self._data.sequence_lengths(key)

    def with_keys(self, names: Sequence[str]) -> CorpusDataset:
        """The same split, of which only some values are read; those it lacks are left out."""
        known = declared_keys(self.spec)
        return CorpusDataset(
            self.spec, self._data.h5_path, self.subset, [name for name in names if name in known]
        )

    def reset_for_worker(self) -> None:
        """Drop handles inherited from another process."""
        self._data.reset_for_worker()

    def close(self) -> None:
        """Release the file; the next read opens it again."""
        self._data.close()

    def _metadata(self, key: str) -> dict[str, str]:
        return self._parsed(key)._asdict()

    def _parsed(self, key: str) -> SampleId:
        try:
            return parse_sample_id(key)
        except SchemaError as error:
            raise SchemaError(
                f"corpus '{self.name}', {self.subset} in '{self._data.h5_path}': {error}"
            ) from error

    def _check(self, labels: Mapping[str, Any], keys: Sequence[str]) -> None:
        """Refuse labels outside [0, 1] where their mask is True; NaN is outside."""
        for target in self._judged:
            if target not in labels:
                continue
            found = first_wrong(labels[target], labels.get(mask_name(target)))
            if found is not None:
                row, value = found
                raise SampleError(
                    f"corpus '{self.name}', {self.subset} sample '{keys[row]}': '{target}' must "
                    f"be in [0, 1] where '{mask_name(target)}' is True, got {value:g}; build the "
                    "file again"
                )


def _names_blinks(h5_path: PathLike, subset: str) -> bool:
    """Whether samples say which blink they belong to; the first speaks for all."""
    try:
        with h5py.File(h5_path, "r") as file:
            first = next(iter(file[subset].values()), None)
            return isinstance(first, h5py.Group) and BLINK_ID in first
    except (*DAMAGE, AttributeError):  # for the reader to say what is wrong
        return False


def _with_default(column: Column | None, default: int, count: int) -> Column:
    if column is None:
        return [default] * count
    if isinstance(column, list):
        return [default if value is None else value for value in column]
    return column


def declared_keys(spec: DatasetSpec) -> list[str]:
    """Names of all arrays of a sample that a corpus declares, masks included."""
    values = (*spec.feature_keys, *spec.target_keys)
    return [*values, *(mask_name(name) for name in values if name in MASKED)]


def check_file(spec: DatasetSpec, path: Path, build_hint: str) -> tuple[str, ...]:
    """Check that a corpus's file is there, whole, and as the declaration says.

    Args:
        spec: The corpus.
        path: Its file.
        build_hint: How to build it, for messages.

    Returns:
        The splits that hold any sample.

    Raises:
        DataModuleError: If the file cannot serve the corpus.
    """
    whose = f"corpus '{spec.name}'"
    if not path.is_file():
        raise DataModuleError(f"{whose}: its file '{path}' is not built; {build_hint}")
    try:
        with h5py.File(path, "r") as file:
            attributes = read_attributes(file)
            filled = tuple(
                name
                for name, node in splits_of(file).items()
                if not isinstance(node, h5py.Group) or len(node)  # opening says what it is
            )
    except DAMAGE as error:
        raise DataModuleError(
            f"{whose}: '{path}' is damaged or not HDF5 ({error}); {build_hint}"
        ) from error
    version = attributes.get("schema_version")
    if version != SCHEMA_VERSION:
        raise DataModuleError(
            f"{whose}: '{path}' must be of schema version {SCHEMA_VERSION}, got {version}; "
            f"{build_hint}"
        )
    wrong = mismatches(attributes, spec)
    if wrong:
        raise DataModuleError(
            f"{whose}: '{path}' is not what its spec declares: {'; '.join(wrong)}; mend the spec, "
            f"or {build_hint}"
        )
    return filled


def open_corpus(spec: DatasetSpec, path: Path, subset: str, **options: Any) -> CorpusDataset:
    """Open one split whose file :func:`check_file` has passed.

    Args:
        spec: The corpus.
        path: Its file.
        subset: The split.
        **options: Of :class:`CorpusDataset`.

    Raises:
        DataModuleError: If the file cannot be read after all.
        SchemaError: If a sample's key has not three parts.
    """
    try:
        return CorpusDataset(spec, path, subset, **options)
    except SourceError as error:
        raise DataModuleError(f"corpus '{spec.name}', {subset}: {error}") from error
    except DAMAGE as error:
        raise DataModuleError(
            f"corpus '{spec.name}', {subset}: '{path}' is damaged ({error}); build the file again"
        ) from error

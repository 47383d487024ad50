"""A corpus whose samples carry an embedding from a cache, paired by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from blinklinmult.data.columns import lengths_of, read_columns
from blinklinmult.data.names import EYE_EMBEDDING, EYE_EMBEDDING_MASK, SAMPLE_KEY
from blinklinmult.data.wrapper import SourceWrapper
from blinklinmult.errors import EmbeddingCacheError
from omniloader._types import Column, Gather, IntArray


class CachedEmbeddingDataset(SourceWrapper):
    """Serves a dataset's samples with a precomputed embedding attached.

    Labels, masks and metadata are the wrapped dataset's. Rows are paired by key, never by
    position, so a corpus built in another order cannot get the wrong embeddings. A sample without
    a row is an error: to encode it live would mix two encoders in one batch.

    Args:
        dataset: The corpus split.
        shard: A loaded cache shard: ``embedding (N, T, D)``, ``mask (N, T)``, ``keys (N,)``.
        name: Corpus name, for error messages.

    Raises:
        EmbeddingCacheError: If the shard is malformed, or does not cover the dataset.
    """

    def __init__(self, dataset: Any, shard: Mapping[str, npt.NDArray[Any]], name: str) -> None:
        super().__init__(dataset)
        self._name = name
        self._embedding, self._mask, keys = _checked(shard, name)
        # Sorted fixed-width arrays: shared by forked workers, unlike a dict of strings.
        order = np.argsort(keys, kind="stable")
        self._keys, self._order = keys[order], order.astype(np.int64)
        twice = np.flatnonzero(self._keys[1:] == self._keys[:-1])
        if len(twice):
            raise EmbeddingCacheError(
                f"corpus '{name}': the shard must hold one row a key, got two of "
                f"'{self._keys[twice[0]]}'; encode the split again"
            )
        ids = getattr(dataset, "sample_ids", None)
        if ids is None and len(keys) < len(dataset):
            raise EmbeddingCacheError(
                f"corpus '{name}': the shard must cover all {len(dataset)} samples, got "
                f"{len(keys)} rows; encode the split again"
            )
        self._rows = None if ids is None else self._rows_of([str(key) for key in ids])

    @property
    def steps(self) -> int:
        """Frames of an embedding."""
        return int(self._embedding.shape[1])

    @property
    def name(self) -> str:
        """Name of the corpus."""
        return self._name

    def __len__(self) -> int:
        """Number of samples of the wrapped dataset."""
        return len(self.dataset)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """One sample, with its cached embedding attached.

        Args:
            index: Sample index.

        Returns:
            The sample plus ``eye_embedding`` and its mask.

        Raises:
            EmbeddingCacheError: If the sample has no cached row.
        """
        sample = dict(self.dataset[index])
        row = int(self._lookup([index], [sample.get(SAMPLE_KEY)])[0])
        sample[EYE_EMBEDDING] = self._embedding[row].clone()
        sample[EYE_EMBEDDING_MASK] = self._mask[row].clone()
        return sample

    def read_batch(self, indices: IntArray | Sequence[int]) -> dict[str, Column]:
        """Columns of many samples, embeddings as rows of the shard not copied yet."""
        at = np.asarray(indices, dtype=np.int64)
        columns = read_columns(self.dataset, at)
        given = columns.get(SAMPLE_KEY)
        own: Sequence[Any] = given if isinstance(given, list) else [None] * len(at)
        rows = self._lookup(at.tolist(), own)
        columns[EYE_EMBEDDING] = Gather(self._embedding, rows)
        columns[EYE_EMBEDDING_MASK] = Gather(self._mask, rows)
        return columns

    def sequence_lengths(self, key: str) -> IntArray:
        """Native lengths of a sequence in all samples."""
        if key == EYE_EMBEDDING:
            return np.full(len(self), self.steps, dtype=np.int64)
        return lengths_of(self.dataset, key)

    def with_keys(self, names: Sequence[str]) -> Any:
        """The wrapped dataset, of which only some values are read."""
        narrow = getattr(self.dataset, "with_keys", None)
        return narrow(names) if callable(narrow) else self.dataset

    @property
    def sample_ids(self) -> Sequence[str] | None:
        """Names of the wrapped dataset's samples."""
        return getattr(self.dataset, "sample_ids", None)

    def _lookup(self, indices: Sequence[int], keys: Sequence[Any]) -> IntArray:
        """Rows of the shard: by each sample's own key, else by the dataset's list of names."""
        if all(key is not None for key in keys):
            return self._rows_of([str(key) for key in keys])
        if self._rows is None:
            raise EmbeddingCacheError(
                f"corpus '{self._name}': samples must carry '{SAMPLE_KEY}' to be paired with "
                "cached embeddings, got none"
            )
        rows: IntArray = self._rows[np.asarray(indices, dtype=np.int64)]
        return rows

    def _rows_of(self, keys: list[str]) -> IntArray:
        wanted = np.array(keys, dtype=np.str_)
        if not len(wanted):
            return np.zeros(0, dtype=np.int64)
        at = np.minimum(np.searchsorted(self._keys, wanted), max(len(self._keys) - 1, 0))
        found = self._keys[at] == wanted if len(self._keys) else np.zeros(len(wanted), np.bool_)
        if not found.all():
            first = keys[int(np.flatnonzero(~found)[0])]
            raise EmbeddingCacheError(
                f"corpus '{self._name}': {int((~found).sum())} of {len(keys)} samples have no "
                f"cached embedding, the first is '{first}'; encode the split again"
            )
        rows: IntArray = self._order[at]
        return rows


def _checked(
    shard: Mapping[str, npt.NDArray[Any]], name: str
) -> tuple[torch.Tensor, torch.Tensor, npt.NDArray[np.str_]]:
    """The three arrays of a shard, once their shapes agree."""
    missing = [key for key in ("embedding", "mask", "keys") if key not in shard]
    if missing:
        raise EmbeddingCacheError(f"corpus '{name}': the shard lacks {', '.join(missing)}")
    embedding, mask = np.asarray(shard["embedding"]), np.asarray(shard["mask"])
    keys = np.array([_text(key) for key in shard["keys"]], dtype=np.str_)
    if embedding.ndim != 3 or mask.shape != embedding.shape[:2] or len(keys) != len(embedding):
        raise EmbeddingCacheError(
            f"corpus '{name}': the shard must hold embedding (N, T, D), mask (N, T) and keys "
            f"(N,), got {embedding.shape}, {mask.shape}, {keys.shape}"
        )
    return torch.from_numpy(embedding), torch.from_numpy(mask.astype(np.bool_)), keys


def _text(key: Any) -> str:
    return key.decode() if isinstance(key, bytes) else str(key)

"""A cache of eye embeddings on disk: one shard a corpus and split, bound to its encoder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

import h5py
import numpy as np
import numpy.typing as npt
import torch

from blinklinmult.data.atomic import replacing
from blinklinmult.data.cached import CachedEmbeddingDataset
from blinklinmult.errors import EmbeddingCacheError
from omniloader._types import PathLike

Shard = dict[str, npt.NDArray[Any]]
"""``embedding (N, T, D)`` float16, ``mask (N, T)`` bool, ``keys (N,)`` text."""

DIGEST_IN_PATH = 12
MANIFEST_VERSION = 1


@dataclass(frozen=True)
class CacheKey:
    """What embeddings depend on besides the images: a shard of another key is refused.

    Args:
        encoder_digest: From :func:`encoder_digest`.
        backbone: Name of the architecture.
        output_dim: Width D of an embedding.
        image_size: Side of the crops it was given, in pixels.
    """

    encoder_digest: str
    backbone: str
    output_dim: int
    image_size: int

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str) -> Self:
        """The key in a manifest.

        Raises:
            EmbeddingCacheError: If a field is missing.
        """
        missing = [field.name for field in fields(cls) if field.name not in data]
        if missing:
            raise EmbeddingCacheError(f"{where}: lacks {', '.join(missing)}; write the shard again")
        return cls(**{field.name: data[field.name] for field in fields(cls)})


def encoder_digest(module: torch.nn.Module) -> str:
    """SHA-256 over the names and float32 bytes of a module's state, in order of names.

    Args:
        module: The encoder; a digest does not depend on its device or dtype.
    """
    digest = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().to("cpu", torch.float32).contiguous().numpy().tobytes())
    return digest.hexdigest()


def shard_path(root: PathLike, key: CacheKey, corpus: str, subset: str) -> Path:
    """``<root>/<first 12 of the digest>/<corpus>/<subset>.h5``.

    Args:
        root: The cache's root.
        key: The encoder.
        corpus: Name of the corpus.
        subset: The split.
    """
    return Path(root) / key.encoder_digest[:DIGEST_IN_PATH] / corpus / f"{subset}.h5"


def manifest_path(shard: Path) -> Path:
    """The manifest beside a shard: ``<subset>.manifest.json``."""
    return shard.with_suffix(".manifest.json")


def write_shard(
    root: PathLike,
    key: CacheKey,
    corpus: str,
    subset: str,
    *,
    embedding: npt.ArrayLike,
    mask: npt.ArrayLike,
    keys: npt.ArrayLike,
) -> Path:
    """Write the embeddings of one split, complete or not at all.

    Args:
        root: The cache's root.
        key: The encoder.
        corpus: Name of the corpus.
        subset: The split.
        embedding: ``(N, T, D)``; stored as float16.
        mask: Bool ``(N, T)``, True where a frame was encoded.
        keys: Keys of the samples ``(N,)``.

    Returns:
        Path of the shard.

    Raises:
        EmbeddingCacheError: If shapes do not agree, or a number is not finite in float16.
    """
    where = f"embeddings of '{corpus}', {subset}"
    names = [str(name) for name in np.asarray(keys).tolist()]
    masks = np.asarray(mask, dtype=np.bool_)
    with np.errstate(over="ignore"):
        values = np.asarray(embedding).astype(np.float16)
    if values.ndim != 3 or values.shape[-1] != key.output_dim or len(values) != len(names):
        raise EmbeddingCacheError(
            f"{where}: embedding must have shape (N={len(names)}, T, D={key.output_dim}), got "
            f"{values.shape}"
        )
    if masks.shape != values.shape[:2]:
        raise EmbeddingCacheError(
            f"{where}: mask must have shape {values.shape[:2]}, got {masks.shape}"
        )
    if len(set(names)) != len(names):
        raise EmbeddingCacheError(f"{where}: keys must be unique, got one twice")
    if not np.isfinite(values[masks]).all():
        raise EmbeddingCacheError(f"{where}: embeddings must be finite in float16")
    path = shard_path(root, key, corpus, subset)
    manifest = {
        "version": MANIFEST_VERSION,
        **asdict(key),
        "corpus": corpus,
        "subset": subset,
        "samples": len(names),
    }
    # The manifest comes last: a shard without one was not finished.
    manifest_path(path).unlink(missing_ok=True)
    with replacing(path) as temporary, h5py.File(temporary, "w") as file:
        file.create_dataset("embedding", data=values)
        file.create_dataset("mask", data=masks)
        file.create_dataset("keys", data=names, dtype=h5py.string_dtype())
    with replacing(manifest_path(path)) as temporary:
        temporary.write_text(json.dumps(manifest, indent=2), encoding="utf-8")
    return path


def read_shard(root: PathLike, key: CacheKey, corpus: str, subset: str) -> Shard:
    """Read the embeddings of one split.

    Args:
        root: The cache's root.
        key: The encoder they must be of.
        corpus: Name of the corpus.
        subset: The split.

    Raises:
        EmbeddingCacheError: If there is no finished shard, or it is of another key, naming the
            field that differs.
    """
    path = shard_path(root, key, corpus, subset)
    where = f"embeddings of '{corpus}', {subset}"
    if not path.is_file() or not manifest_path(path).is_file():
        raise EmbeddingCacheError(
            f"{where}: there is no finished shard '{path}'; encode the split and write_shard it"
        )
    held = read_key(manifest_path(path))
    for field in fields(CacheKey):
        wanted, got = getattr(key, field.name), getattr(held, field.name)
        if wanted != got:
            raise EmbeddingCacheError(
                f"{where}: '{path}' is of another encoder: {field.name} must be {wanted!r}, got "
                f"{got!r}; encode the split again, or name the cache of this encoder"
            )
    try:
        with h5py.File(path, "r") as file:
            shard: Shard = {name: file[name][()] for name in ("embedding", "mask")}
            shard["keys"] = file["keys"].asstr()[()]
    except (OSError, KeyError) as error:
        raise EmbeddingCacheError(
            f"{where}: '{path}' is damaged ({error}); encode the split again"
        ) from error
    return shard


def read_key(manifest: Path) -> CacheKey:
    """The key in a manifest.

    Raises:
        EmbeddingCacheError: If it is no manifest.
    """
    try:
        data = json.loads(manifest.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EmbeddingCacheError(f"'{manifest}': is no manifest ({error})") from error
    if not isinstance(data, dict):
        raise EmbeddingCacheError(f"'{manifest}': is no manifest, it must hold a mapping")
    return CacheKey.from_dict(data, f"'{manifest}'")


def find_key(root: PathLike) -> CacheKey:
    """The one encoder that a cache holds embeddings of.

    Raises:
        EmbeddingCacheError: If the cache holds those of none or of several.
    """
    found = {read_key(path) for path in sorted(Path(root).glob("*/*/*.manifest.json"))}
    if len(found) != 1:
        held = ", ".join(sorted(key.encoder_digest[:DIGEST_IN_PATH] for key in found)) or "none"
        raise EmbeddingCacheError(
            f"cache '{root}': must hold embeddings of one encoder, holds {held}; give the data "
            "module embedding_key=CacheKey(...)"
        )
    return found.pop()


__all__ = [
    "CacheKey",
    "CachedEmbeddingDataset",
    "EmbeddingCacheError",
    "Shard",
    "encoder_digest",
    "find_key",
    "manifest_path",
    "read_key",
    "read_shard",
    "shard_path",
    "write_shard",
]

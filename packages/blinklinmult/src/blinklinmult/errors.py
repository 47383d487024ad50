"""Every error blinklinmult raises, one class a situation.

Each is an :class:`~omniloader.errors.OmniError`, so it keeps its class on the way through an
``OmniLoader`` and out of a worker, and one ``except OmniError`` catches all::

    SchemaError          (ValueError)    a corpus that cannot be as it is declared
    ConfigError          (ValueError)    a key or value of a run's data config
    WriterError          (ValueError)    a window that does not fit the corpus being written
    EmbeddingCacheError  (RuntimeError)  a cache of embeddings that is missing, stale or partial
    DataModuleError      (RuntimeError)  corpora that cannot be served
    SourceVideoError     (ValueError)    a video or annotation that no corpus can be built from
"""

from __future__ import annotations

from omniloader import errors


class SchemaError(errors.SchemaError):
    """A corpus, a window or a sample key cannot be as declared."""


class ConfigError(errors.ConfigError):
    """A key or value of a data config cannot be used."""


class WriterError(errors.OmniError, ValueError):
    """A window does not fit the corpus that is being written."""


class EmbeddingCacheError(errors.OmniError, RuntimeError):
    """Cached embeddings are missing, belong to another encoder, or do not cover the data."""


class DataModuleError(errors.OmniError, RuntimeError):
    """Raised when the configured datasets cannot be served."""


class SourceVideoError(errors.OmniError, ValueError):
    """A video or its annotation cannot be read as what it should be."""

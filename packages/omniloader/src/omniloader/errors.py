"""Every error omniloader raises, one class a situation.

Each class is also a built-in that users already catch, takes exactly one text, and therefore
survives the trip out of a ``DataLoader`` worker (PyTorch rebuilds it from its text)::

    OmniError
    ├── SchemaError   (ValueError)   declarations that contradict each other
    ├── ConfigError   (ValueError)   a config file or option that cannot be used
    │   └── MissingConfigError (FileNotFoundError)  a config file that is not there
    ├── SampleError   (ValueError)   one sample that does not fit its declaration
    ├── SourceError   (OSError)      a file that is missing, truncated or unreadable
    │   ├── MissingFileError (FileNotFoundError)  a file or folder that is not there
    │   └── MissingGroupError (KeyError)  a group that the file does not hold
    ├── PlanError     (ValueError)   sizes, weights or shards no order can be made of
    ├── StateError    (ValueError)   a saved state that does not belong to this run
    ├── StatsError    (ValueError)   figures that are missing or belong to other data
    └── EngineError   (RuntimeError) a cluster that is not there or that lost its work
"""

from __future__ import annotations


class OmniError(Exception):
    """Base of all errors of this package; its text says what, whose, and the next step."""

    def __str__(self) -> str:
        # KeyError would show the repr of the text, quotes and escapes included.
        return str(self.args[0]) if self.args else ""


class SchemaError(OmniError, ValueError):
    """A declaration is impossible, or two declarations of one name disagree."""


class ConfigError(OmniError, ValueError):
    """A config key, value or file cannot be used."""


class MissingConfigError(ConfigError, FileNotFoundError):
    """There is no config file of this name."""


class SampleError(OmniError, ValueError):
    """A sample does not fit what its source declares."""


class SourceError(OmniError, OSError):
    """A file or folder of a source is missing, truncated or unreadable."""


class MissingFileError(SourceError, FileNotFoundError):
    """A file or folder of a source does not exist."""


class MissingGroupError(SourceError, KeyError):
    """A file does not hold the group it is asked for."""


class PlanError(OmniError, ValueError):
    """No order can be made of these sizes, weights or shards."""


class StateError(OmniError, ValueError):
    """A saved state does not belong to this run."""


class StatsError(OmniError, ValueError):
    """Statistics are missing, malformed or belong to other data."""


class EngineError(OmniError, RuntimeError):
    """A cluster cannot be reached, or gave up a part of a pass."""

"""The switch of the fast readers, and the folder where what they learn is kept."""

from __future__ import annotations

import json
import logging
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from omniloader.utils.atomic import replacing

_log = logging.getLogger(__name__)

SWITCH = "OMNILOADER_FAST"
CACHE = "OMNILOADER_CACHE"

_META = "meta"


def fast_paths() -> bool:
    """Whether files are read past their library where that is known to give the same values.

    ``OMNILOADER_FAST=0`` in the environment turns it off for datasets made from then on.
    """
    return os.environ.get(SWITCH, "1") != "0"


def cache_file(name: str) -> Path:
    """Where a sidecar of this name lies: ``$OMNILOADER_CACHE``, else ``~/.cache/omniloader``."""
    folder = os.environ.get(CACHE)
    return Path(folder or "~/.cache/omniloader").expanduser() / name


def save_sidecar(
    path: Path, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
) -> None:
    """Write a sidecar, whole or not at all. A folder that cannot be written is no error."""
    text = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as draft, draft.open("wb") as file:
            np.savez(file, allow_pickle=False, **{_META: text}, **arrays)
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home folder
        _log.debug("'%s' is not kept (%s); it is made again next time", path, error)


def load_sidecar(path: Path) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]] | None:
    """Read a sidecar; None when there is none that can be read."""
    try:
        # Opened here: NumPy leaves a file open that turns out to be damaged.
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        return json.loads(arrays.pop(_META).tobytes()), arrays
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        _log.debug("'%s' cannot be used (%s); it is made again", path, error)
        return None

"""The files of a columnar store: an index in JSON, and plain arrays beside it.

::

    columns.json      samples, sample_ids, subset, and per column: name, kind, files
    000.npy           the values of the first column, one after another
    000.starts.npy    where each sample's values start, int64 (N + 1,); of ragged columns and texts
    000.rows.npy      row of each sample, -1 where it lacks the key, int64 (N,); where some lack it
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias

import numpy as np

from omniloader.errors import MissingFileError, SourceError

INDEX = "columns.json"
FORMAT = 1
HEADER_BYTES = 256

Kind: TypeAlias = Literal["rows", "ragged", "text", "json"]


@dataclass(frozen=True)
class ColumnEntry:
    """One column of a store.

    Args:
        name: The key.
        kind: ``rows`` of one shape, ``ragged`` sequences, ``text``, or other values as ``json``.
        file: What its files start with.
        complete: Whether every sample has it.
    """

    name: str
    kind: Kind
    file: str
    complete: bool


def write_header(file: BinaryIO, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Write the head of an npy file over the bytes that were left for it."""
    fields = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    text = repr(fields).encode("latin-1").ljust(HEADER_BYTES - 11) + b"\n"
    file.seek(0)
    file.write(b"\x93NUMPY\x01\x00" + (HEADER_BYTES - 10).to_bytes(2, "little") + text)


def write_index(folder: Path, about: Mapping[str, Any], columns: list[ColumnEntry]) -> None:
    """Write what is in a store."""
    text = {"format": FORMAT, **about, "columns": [asdict(column) for column in columns]}
    (folder / INDEX).write_text(json.dumps(text, ensure_ascii=True), encoding="utf-8")


def read_index(folder: Path) -> tuple[dict[str, Any], list[ColumnEntry]]:
    """Read what is in a store.

    Raises:
        MissingFileError: If there is no store.
        SourceError: If it is one of another format.
    """
    path = folder / INDEX
    if not path.is_file():
        raise MissingFileError(
            f"'{folder}' is no columnar store, '{INDEX}' is not there; make one with "
            "omniloader.data.convert.to_columnar, or name its subset"
        )
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        if about["format"] != FORMAT:
            raise ValueError(f"its format is {about['format']}, known is {FORMAT}")
        columns = [ColumnEntry(**entry) for entry in about["columns"]]
        if not all(entry.file.isdigit() for entry in columns):
            raise ValueError("a column's file has a name that no store gives")
        return {"samples": int(about["samples"]), **about}, columns
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SourceError(
            f"'{path}' cannot be used ({error}); make the store again with to_columnar"
        ) from error

"""Facts and names as the page writes them."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("matplotlib", reason="the extra 'report' is not installed")
pytest.importorskip("jinja2", reason="the extra 'report' is not installed")

from omniloader.report.words import breakable, plain, size


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (934_153, "934 kB"),
        (999_700, "1 MB"),
        (123_456_789, "123 MB"),
        (7_000_000_000, "7 GB"),
        (4_200_000_000_000_000, "4,200.0 TB"),
    ],
)
def test_bytes_are_a_size(count: int, text: str) -> None:
    assert size(count) == text
    assert plain("bytes", count) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12_345, "12,345"),
        (True, "True"),
        ("/data/a.h5", "/data/a.h5"),
        ([1, 2], "1, 2"),
        ({"a": "float32, gzip 4", "bytes": 2000}, "a: float32, gzip 4; bytes: 2 kB"),
    ],
)
def test_facts_are_text(value: Any, text: str) -> None:
    assert plain("fact", value) == text


def test_names_break_after_an_underscore_and_are_escaped() -> None:
    assert breakable("left_<eye>") == "left_<wbr>&lt;eye&gt;"

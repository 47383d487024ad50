"""Import time: what ``import omniloader`` costs on top of ``import torch``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from harness import Row, compare


def rows() -> Iterator[Row]:
    """All rows of this workload."""

    def importing(name: str) -> None:
        subprocess.run([sys.executable, "-c", f"import {name}"], check=True)

    yield compare(
        "import omniloader against import torch",
        lambda: importing("torch"),
        lambda: importing("omniloader"),
        target=1 / 1.3,
        note="at most 1.3 times as long",
    )

from __future__ import annotations

import doctest
import importlib
import pkgutil

import numpy as np

import omniloader.sampling
from omniloader.sampling import strategies


def test_every_example_of_a_docstring_is_right() -> None:
    names = {**vars(strategies), "np": np}
    attempted = 0
    for info in pkgutil.iter_modules(omniloader.sampling.__path__, "omniloader.sampling."):
        result = doctest.testmod(importlib.import_module(info.name), extraglobs=names)
        assert result.failed == 0, info.name
        attempted += result.attempted
    assert attempted >= 6

"""The import paths that users of the documents rely on, and what ``__all__`` says about them."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import pytest
from promised import PROMISED

import omniloader

PATHS = [(module, name) for module, names in PROMISED.items() for name in names.split()]

EXTRAS = ("lightning", "ray", "matplotlib", "jinja2", "torchdata", "deflate")


def public_modules() -> list[str]:
    """Every importable module of the package without an underscore in its path."""
    walked = pkgutil.walk_packages(omniloader.__path__, "omniloader.")
    names = ["omniloader", *(info.name for info in walked)]
    return [name for name in names if not any(p.startswith("_") for p in name.split("."))]


def imported(name: str) -> ModuleType:
    """The module, or a skip where an extra that it needs is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as missing:
        lacking = getattr(missing.__cause__ or missing, "name", None) or ""
        if lacking.partition(".")[0] not in EXTRAS:
            raise
        pytest.skip(f"{name} needs {lacking}")


@pytest.mark.parametrize(("module", "name"), PATHS, ids=[f"{m}.{n}" for m, n in PATHS])
def test_promised_path_imports(module: str, name: str) -> None:
    assert hasattr(imported(module), name), f"{module} promises {name} and has it no longer"


@pytest.mark.parametrize("module", public_modules())
def test_all_is_real_and_without_doubles(module: str) -> None:
    # ruff sorts it (RUF022): constants, classes, then functions.
    names = list(getattr(imported(module), "__all__", ()))
    assert len(names) == len(set(names)), f"{module}.__all__ holds a name twice"
    absent = [name for name in names if not hasattr(imported(module), name)]
    assert not absent, f"{module}.__all__ names what is not there: {absent}"


def test_top_level_all_is_the_public_names() -> None:
    assert omniloader.OmniConfig  # comes with the first use, so that importing stays light
    real = {
        name
        for name, value in vars(omniloader).items()
        if not name.startswith("_") and not isinstance(value, ModuleType) and name != "annotations"
    }
    assert set(omniloader.__all__) == real | {"__version__"}


def test_a_name_at_the_top_is_the_object_of_its_module() -> None:
    for module, name in PATHS:
        if module != "omniloader" and name in omniloader.__all__:
            assert getattr(imported(module), name) is getattr(omniloader, name), f"{module}.{name}"


def test_the_command_lines_main_returns_its_exit_code() -> None:
    from omniloader.cli import main

    assert main(["--help"]) == 0
    assert main(["no-such-command"]) == 2

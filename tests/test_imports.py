"""Which way imports go: the layer contract, no cycles, nothing heavy on ``import omniloader``."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("omniloader", "blinklinmult")

# Extras, and what only tools or tests use. `import omniloader` must work without any of them.
HEAVY = [
    *("aeon", "cv2", "datasets", "deflate", "jinja2", "lightning", "matplotlib", "pandas"),
    *("pytorch_lightning", "ray", "scipy", "sklearn", "torchdata"),
]

# The command line is a program of its own: its libraries load when it runs, not on import.
EDGE = ["rich", "typer", "omniloader.cli", "omniloader.integrations", "omniloader.report"]


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """The contract check over the copy of both packages in ``folder``."""
    paths = [str(folder / "packages" / name / "src") for name in PACKAGES]
    program = (
        f"import sys; sys.path[:0] = {paths!r}; from importlinter.cli import lint_imports_command;"
        "lint_imports_command(['--no-cache', '--no-logo'])"
    )
    return subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the sources and of the contract, to be spoilt."""
    for name in PACKAGES:
        source = Path("packages") / name / "src"
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / source, tmp_path / source, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def append(file: Path, text: str) -> None:
    file.write_text(file.read_text(encoding="utf-8") + text, encoding="utf-8")


def test_the_layer_contract_holds(checkout: Path) -> None:
    done = lint_imports(checkout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 kept, 0 broken" in done.stdout


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("masks.py", "from omniloader.schema.spec import TensorSpec\n"),
        ("collate/__init__.py", "def late():\n    import omniloader.sampling\n"),
        (
            "utils/padding.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import omniloader.loader\n",
        ),
        ("errors.py", "import blinklinmult\n"),
    ],
    ids=["upwards", "sideways and lazy", "for typing only", "the application"],
)
def test_a_forbidden_import_breaks_the_contract(checkout: Path, module: str, line: str) -> None:
    append(checkout / "packages/omniloader/src/omniloader" / module, "\n\n" + line)
    done = lint_imports(checkout)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "BROKEN" in done.stdout


def test_a_module_without_a_layer_breaks_the_contract(checkout: Path) -> None:
    (checkout / "packages/omniloader/src/omniloader/stray.py").write_text("", encoding="utf-8")
    done = lint_imports(checkout)
    assert done.returncode != 0
    assert "stray" in done.stdout + done.stderr


def import_graph() -> dict[str, set[str]]:
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    return {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}


def test_there_are_no_import_cycles() -> None:
    try:
        TopologicalSorter(import_graph()).prepare()
    except CycleError as found:
        pytest.fail("import cycle: " + " -> ".join(found.args[1]))


def test_the_cycle_check_can_fail() -> None:
    graph = import_graph()
    assert "omniloader.schema.spec" in graph["omniloader.schema.unify"]
    graph["omniloader.schema.spec"].add("omniloader.schema.unify")
    with pytest.raises(CycleError):
        TopologicalSorter(graph).prepare()


def loaded_by(statement: str, names: list[str]) -> list[str]:
    """Which of ``names`` a fresh interpreter holds after ``statement``, and not before it."""
    program = (
        f"import sys, torch\nnames = {names!r}\n"
        "before = {name for name in names if name in sys.modules}\n"
        f"{statement}\n"
        "print(*(name for name in names if name in sys.modules and name not in before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_importing_the_package_loads_no_extra() -> None:
    assert loaded_by("import omniloader", HEAVY + EDGE) == []


def test_the_check_for_extras_can_fail() -> None:
    assert "scipy" in loaded_by("import omniloader, scipy", HEAVY)
    assert "omniloader.cli" in loaded_by("import omniloader.cli", EDGE)


def test_the_application_uses_no_private_name_of_omniloader() -> None:
    private = []
    for file in sorted((ROOT / "packages/blinklinmult/src").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("omniloader"):
                # `_types` holds what a source may hand over: a part of the contract.
                path = (node.module or "").replace("omniloader._types", "omniloader")
                parts = [*path.split("."), *(alias.name for alias in node.names)]
                private += [
                    f"{file.name}:{node.lineno} {part}" for part in parts if is_private(part)
                ]
    assert private == []


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")

"""What lies in the repository and in the wheels: short modules, typing marker, templates."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("omniloader", "blinklinmult")
SOURCES = sorted(
    file for name in PACKAGES for file in (ROOT / "packages" / name).rglob("src/**/*.py")
)
CEILING = 300


def test_there_are_modules_to_look_at() -> None:
    assert len(SOURCES) > 20


@pytest.mark.parametrize("file", SOURCES, ids=[str(f.relative_to(ROOT)) for f in SOURCES])
def test_a_module_holds_one_idea(file: Path) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= CEILING, f"{file} has {len(lines)} lines: split it by idea"
    assert lines, f"{file} is empty: even an __init__ says in one line what the package holds"


@pytest.mark.parametrize("name", PACKAGES)
def test_each_package_has_its_papers(name: str) -> None:
    folder = ROOT / "packages" / name
    assert (folder / "src" / name / "py.typed").read_text(encoding="utf-8") == ""
    assert "## [Unreleased]" in (folder / "CHANGELOG.md").read_text(encoding="utf-8")
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert len((folder / "README.md").read_text(encoding="utf-8")) > 200


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, zipfile.Path]:
    """Both wheels, built as a release would be, but without a fresh build environment."""
    out = tmp_path_factory.mktemp("wheels")
    built = {}
    for name in PACKAGES:
        command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out)]
        done = subprocess.run(
            [*command, str(ROOT / "packages" / name)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        (wheel,) = out.glob(f"{name}-*.whl")
        built[name] = zipfile.Path(wheel)
    return built


@pytest.mark.parametrize("name", PACKAGES)
def test_the_wheel_holds_every_module_and_the_typing_marker(
    name: str, wheels: dict[str, zipfile.Path]
) -> None:
    root = ROOT / "packages" / name / "src"
    held = set(wheels[name].root.namelist())
    expected = {str(f.relative_to(root)) for f in SOURCES if f.is_relative_to(root)}
    assert expected | {f"{name}/py.typed"} <= held
    assert not [entry for entry in held if "tests" in entry or "__pycache__" in entry]
    assert [entry for entry in held if entry.endswith("licenses/LICENSE")]


def test_the_wheel_holds_the_templates(wheels: dict[str, zipfile.Path]) -> None:
    held = set(wheels["omniloader"].root.namelist())
    folder = ROOT / "packages/omniloader/src"
    templates = [
        str(file.relative_to(folder))
        for file in (folder / "omniloader/templates").iterdir()
        if file.is_file() and file.suffix != ".pyc"
    ]
    assert set(templates) <= held
    assert "omniloader/templates/config_template.yaml" in held


def test_constraints_pin_every_line_and_name_no_index() -> None:
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    pins = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert "torch==2.13.0" in pins
    assert not [line for line in pins if line.count("==") != 1 or "+" in line or "@" in line]
    assert "--" not in "".join(pins)
    assert not [line for line in pins if line.lower().startswith(PACKAGES)]

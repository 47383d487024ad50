"""The two commands of the README on a machine that has nothing but Python and make."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
VERBS = {"bench", "check", "clean", "demo", "docs", "fix", "help", "install", "test", "unit"}


def dry_run(*arguments: str) -> str:
    """The commands make would run, by someone who has no .venv yet."""
    done = subprocess.run(
        ["make", "--dry-run", "VENV=absent", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_help_lists_every_verb() -> None:
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {line.split()[1] for line in listed.stdout.splitlines()} >= VERBS


@pytest.mark.parametrize("verb", ["demo", "test"])
def test_both_commands_begin_with_an_install_under_constraints(verb: str) -> None:
    commands = dry_run(verb)
    install = commands.index("-c constraints.txt")
    assert commands.index("-m venv absent") < install
    assert commands.index("absent/bin/", install) > install


def test_the_tests_are_all_that_ci_runs() -> None:
    commands = dry_run("test")
    for tool in ("ruff format --check", "ruff check", "mypy", "lint-imports", "pytest --cov"):
        assert f"absent/bin/{tool}" in commands
    assert "mkdocs build --strict" in commands
    assert "make test" in (ROOT / ".ci/run").read_text(encoding="utf-8")


def test_the_demo_runs_the_joint_training() -> None:
    script = "examples/train_joint.py"
    assert script in dry_run("demo")
    assert (ROOT / script).is_file()


def test_an_old_python_is_refused_in_one_line(tmp_path: Path) -> None:
    # A `python3` that calls itself 3.9: the check runs, its version is not what make hoped for.
    old = tmp_path / "old-python"
    old.write_text(
        "#!/bin/sh\n"
        f'exec {shutil.which("python3")} -c "import sys; sys.version_info = (3, 9, 2)\n$2"\n',
        encoding="utf-8",
    )
    old.chmod(0o755)
    done = subprocess.run(
        ["make", "install", f"VENV={tmp_path}/venv", f"PYTHON={old}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert re.search(r"is Python 3\.9, needed is 3\.11 or newer", done.stderr)
    assert not (tmp_path / "venv").exists()


def test_ci_script_is_executable_and_parses() -> None:
    script = ROOT / ".ci/run"
    assert script.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", str(script)], check=True)
    assert "set -euo pipefail" in script.read_text(encoding="utf-8")

"""Runs the code of a Markdown page, so that what the documentation says is what the code does.

- ``python`` blocks run in order, in one namespace, in one empty folder.
- A ``text`` block right after a Python block is what that block prints, to the letter.
- ``yaml title="mix.yaml"`` is written to that file before the blocks after it run.
- ``sh``: lines that begin with ``omniloader`` or ``blinklinmult`` run through that command line's
  ``main`` and must end with 0; a ``make`` verb must exist. Other lines (``pip install``) are for
  people.

``examples/`` is that of the repository. ``python tests/markdown_blocks.py PAGE...`` writes what the
code prints now into the ``text`` blocks of a page.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import shlex
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(
    r"^(?P<indent> *)(?P<ticks>`{3,})(?P<info>[^\n]*)\n(?P<body>.*?)^ *(?P=ticks) *$", re.M | re.S
)
TITLE = re.compile(r'title="([^"]+)"')
PROGRAMS = ("omniloader", "blinklinmult")
LANGUAGES = {"python", "text", "yaml", "sh", "json", "bibtex", "mermaid"}


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    language: str
    title: str | None
    body: str
    line: int


def blocks_of(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order; a language nobody checks is an error."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        language = match["info"].split()[0] if match["info"].strip() else ""
        line = text.count("\n", 0, match.start()) + 2
        if language not in LANGUAGES:
            raise ValueError(f"{page.name}:{line - 1}: language must be one of {sorted(LANGUAGES)}")
        title = TITLE.search(match["info"])
        body = re.sub(rf"^{match['indent']}", "", match["body"], flags=re.M)
        found.append(Block(language, title and title[1], body, line))
    return found


def run_page(page: Path, folder: Path) -> dict[Block, str]:
    """Run every block of a page in ``folder`` (made the working directory by the caller).

    Returns:
        What the code before each ``text`` block printed.
    """
    (folder / "examples").symlink_to(ROOT / "examples")
    namespace: dict[str, Any] = {"__name__": "page"}
    shown: dict[Block, str] = {}
    printed = None
    for block in blocks_of(page):
        where = f"{page.name}:{block.line}"
        if block.language == "python":
            printed = run_python(block, where, namespace)
        elif block.language == "text" and printed is not None:
            shown[block], printed = printed, None
        elif block.language == "yaml" and block.title:
            (folder / block.title).write_text(block.body, encoding="utf-8")
        elif block.language == "sh":
            run_shell(block, where)
    return shown


def refresh(page: Path) -> None:
    """Write what the code prints now into the page."""
    page = page.resolve()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        shown = run_page(page, Path(folder))
    lines = page.read_text(encoding="utf-8").split("\n")
    for block, printed in reversed(shown.items()):
        start = block.line - 1
        lines[start : start + block.body.count("\n")] = printed.rstrip().split("\n")
    page.write_text("\n".join(lines), encoding="utf-8")


def run_python(block: Block, where: str, namespace: dict[str, Any]) -> str:
    """Run one block; what it printed."""
    # Blank lines in front, so that a traceback's line is the page's.
    code = compile("\n" * (block.line - 1) + block.body, where.rpartition(":")[0], "exec")
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(code, namespace)
    return out.getvalue()


def run_shell(block: Block, where: str) -> None:
    """Check each line by what it begins with."""
    verbs = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    for line in block.body.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["make"]:
            unknown = [word for word in words[1:] if "=" not in word and word not in verbs]
            assert not unknown, f"{where}: make has no verb {unknown}"
        if words and words[0] in PROGRAMS:
            run_command(words, where)


def run_command(words: list[str], where: str) -> None:
    """One call of a command line, in this process."""
    main = importlib.import_module(f"{words[0]}.cli").main
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        code = main(words[1:])
    assert code == 0, f"{where}: {shlex.join(words)} ended with {code}\n{out.getvalue()}"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        refresh(Path(name))

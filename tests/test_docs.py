"""Every block of the README and of the site runs, and prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from unittest.mock import patch

import pytest
from markdown_blocks import FENCE, ROOT, blocks_of, refresh, run_page
from promised import PROMISED

from omniloader.data.factory import ADAPTERS
from omniloader.transforms.registry import TRANSFORMS

README = ROOT / "README.md"
PAGES = [README, *sorted(ROOT.glob("packages/*/README.md")), *sorted((ROOT / "docs").rglob("*.md"))]
RUN = {"python", "sh"}
WITH_CODE = [page for page in PAGES if RUN & {block.language for block in blocks_of(page)}]
NAMES = [str(page.relative_to(ROOT)) for page in WITH_CODE]


@pytest.mark.parametrize("page", WITH_CODE, ids=NAMES)
def test_the_code_of_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # What a page registers stays on the page.
    with patch.dict(ADAPTERS), patch.dict(TRANSFORMS):
        shown = run_page(page, tmp_path)
    for block, printed in shown.items():
        assert printed.rstrip() == block.body.rstrip(), (
            f"{page.name}:{block.line} shows another output"
        )


def test_the_readme_begins_with_the_two_commands() -> None:
    first = blocks_of(README)[0]
    assert [line.split("#")[0].split() for line in first.body.splitlines()] == [
        ["make", "demo"],
        ["make", "test"],
    ]


def test_the_readme_holds_a_quickstart_and_a_config() -> None:
    assert {"python", "yaml"} <= {block.language for block in blocks_of(README)}


def test_every_promised_module_is_on_an_api_page() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs/api").glob("*.md"))
    shown = set(re.findall(r"^::: (\S+)$", pages, re.MULTILINE))
    # A facade's names stand on the page of the module that it takes them from.
    facades = {"omniloader", "omniloader.cli", "omniloader.introspection", "omniloader.transforms"}
    assert set(PROMISED) - facades <= shown


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_relative_links_lead_somewhere(page: Path) -> None:
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    text = re.sub(r"`[^`\n]*`", "", prose)
    links = re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", text)
    broken = [link for link in links if not (page.parent / link).exists()]
    assert broken == []


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("```python\nx = 1\n```\n\n```sh\nmake tea\n```\n", "make has no verb"),
        ("```sh\nomniloader no-such-command\n```\n", "ended with 2"),
        ("```python\nassert 1 == 2, 'no'\n```\n", "no"),
    ],
    ids=["unknown verb", "unknown command", "failing code"],
)
def test_a_page_that_is_wrong_fails(body: str, problem: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(body, encoding="utf-8")
    with pytest.raises(AssertionError, match=problem):
        run_page(page, tmp_path)


def test_what_a_page_shows_is_compared(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1)\n```\n\n```text\n2\n```\n", encoding="utf-8")
    (block,) = (block for block in blocks_of(page) if block.language == "text")
    assert run_page(page, tmp_path) == {block: "1\n"}
    (tmp_path / "examples").unlink()
    refresh(page)
    assert blocks_of(page)[1].body == "1\n"


def test_a_block_nobody_checks_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```ruby\nputs 1\n```\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"page\.md:1: language must be one of"):
        blocks_of(page)

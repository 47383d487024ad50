"""The report: what it says, that it needs nothing beside itself, and that a browser shows it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import browser
import numpy as np
import pytest

from omniloader.cli import main
from omniloader.config import OmniConfig
from omniloader.errors import ConfigError

pytest.importorskip("matplotlib", reason="the extra 'report' is not installed")
pytest.importorskip("jinja2", reason="the extra 'report' is not installed")

from omniloader.report import render_report, write_report

MEAN = "<script>alert('mö')</script>"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Two sources of npy folders: ragged sequences, classes, images, a vector; one odd name."""
    root = tmp_path_factory.mktemp("mix")
    rng = np.random.default_rng(0)
    for i in range(12):
        speech, eyes = root / "speech" / f"s{i:02}", root / "eyes" / f"e{i:02}"
        speech.mkdir(parents=True)
        eyes.mkdir(parents=True)
        np.save(speech / "audio.npy", rng.normal(size=(5 + i, 3)).astype(np.float32))
        np.save(speech / "mood.npy", np.int64(i % 3))
        np.save(eyes / "image.npy", rng.random((4, 3, 8, 8)).astype(np.float32))
        np.save(eyes / "pose.npy", rng.normal(size=5).astype(np.float32))
        np.save(eyes / "undeclared.npy", np.float32(1.0))
    return {
        "batch_size": 8,
        "strategy": "annealed_temperature",
        "strategy_kwargs": {"num_epochs": 4},
        "datasets": [
            {
                "name": MEAN,
                "adapter": "npy",
                "path": str(root / "speech"),
                "schema": {
                    "features": [{"name": "audio", "feature_dim": 3, "time_dim": 12}],
                    "targets": [{"name": "mood", "dtype": "int64", "placeholder": -1}],
                },
            },
            {
                "name": "eyes",
                "adapter": "npy",
                "path": str(root / "eyes"),
                "schema": {
                    "features": [
                        {"name": "image", "shape": [3, 8, 8], "time_dim": 4},
                        {"name": "pose", "feature_dim": 5},
                    ],
                    "targets": [{"name": "open", "placeholder": -1.0}],
                },
            },
        ],
    }


@pytest.fixture(scope="module")
def page(settings: dict[str, Any]) -> str:
    return render_report(OmniConfig.from_dict(settings), epochs=4)


def test_it_says_what_the_mix_is(page: str) -> None:
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    assert "2 sources, 24 samples, 3 features, 2 targets" in text
    assert "Findings" in text
    assert "undeclared" in text  # in the files, in no schema: it never reaches a batch
    assert "eyes · open : is declared, but none of the 12 samples read has it" in text
    for part in ("The mix", "Who has what", "Labels", "Lengths", "One training batch", "Sources"):
        assert f"<h2>{part}</h2>" in page
    assert "One length in all samples that have it: image 4." in text


def test_every_kind_of_value_is_drawn(page: str) -> None:
    assert page.count("data:image/png;base64,") >= 3 * 4
    for title in (
        "audio over its steps",
        "pose, element by element",
        "Labels of each class of mood",
    ):
        assert f'aria-label="{title}"' in page
    assert 'aria-label="Share of draws of each source over the epochs"' in page
    assert 'aria-label="What is real in one training batch"' in page


def test_names_are_escaped(page: str) -> None:
    assert "<script" not in page
    assert "&lt;script&gt;alert" in page
    assert "mö" in page


def test_it_needs_nothing_beside_itself(page: str) -> None:
    links = re.findall(r'(?:src|href)="([^"#]+)', page)
    assert all(link.startswith("data:") for link in links)
    assert "@import" not in page
    assert not re.findall(r"url\((?!#|\"?#)", page)


def test_it_is_the_same_page_each_time(settings: dict[str, Any], page: str) -> None:
    assert render_report(OmniConfig.from_dict(settings), epochs=4) == page


def test_it_is_written_whole_or_not_at_all(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = write_report(OmniConfig.from_dict(settings), tmp_path / "größe.html", epochs=1)
    before = target.read_text(encoding="utf-8")
    assert before.startswith("<!doctype html>")

    def failing(*_: object, **__: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("omniloader.report.page.render_report", failing)
    with pytest.raises(KeyboardInterrupt):
        write_report(OmniConfig.from_dict(settings), target)
    assert target.read_text(encoding="utf-8") == before
    assert [file.name for file in tmp_path.iterdir()] == ["größe.html"]


@pytest.mark.parametrize(
    ("name", "why"),
    [("no/report.html", "cannot be written: No such file"), ("folder", "must be a file")],
)
def test_an_unwritable_file_is_refused_before_the_work(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, why: str
) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.setattr("omniloader.report.page.render_report", lambda *_: pytest.fail("worked"))
    with pytest.raises(ConfigError, match=why):
        write_report(OmniConfig.from_dict(settings), tmp_path / name)
    assert [file.name for file in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("lacking", ["jinja2", "matplotlib"])
def test_without_the_extra_the_command_says_what_to_install(
    lacking: str,
    settings: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in [name for name in sys.modules if name.startswith("omniloader.report")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, lacking, None)
    config = tmp_path / "mix.json"
    config.write_text(json.dumps(settings), encoding="utf-8")
    assert main(["report", str(config), "-o", str(tmp_path / "r.html")]) == 2
    assert "pip install 'omniloader[report]'" in capsys.readouterr().err.replace("\n", " ")
    assert not (tmp_path / "r.html").exists()


def test_the_command_writes_it(
    settings: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "mix.json"
    config.write_text(json.dumps(settings), encoding="utf-8")
    assert main(["report", str(config), "-o", str(tmp_path / "r.html"), "--epochs", "2"]) == 0
    assert (tmp_path / "r.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert main(["report", str(config), "-o", str(tmp_path / "no" / "r.html")]) == 2
    assert "cannot be written" in capsys.readouterr().err


@pytest.fixture(scope="module")
def chromium() -> str:
    found = browser.chromium()
    if found is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    return found


@pytest.mark.parametrize("width", [375, 1280])
def test_a_browser_shows_it_without_scrolling_sideways(
    chromium: str, page: str, tmp_path: Path, width: int
) -> None:
    assert 0 < browser.scroll_width(chromium, page, tmp_path, width) <= width


def test_a_page_that_is_too_wide_is_noticed(chromium: str, page: str, tmp_path: Path) -> None:
    wide = page.replace("<main>", '<main><div style="width:600px">')
    assert browser.scroll_width(chromium, wide, tmp_path, 375) >= 600


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_screenshot_is_not_blank(chromium: str, page: str, tmp_path: Path, scheme: str) -> None:
    from matplotlib.image import imread

    file, shot = tmp_path / "page.html", tmp_path / "shot.png"
    file.write_text(page, encoding="utf-8")
    number = {"dark": 0, "light": 1}[scheme]
    browser.run(
        chromium,
        file,
        tmp_path / "profile",
        f"--blink-settings=preferredColorScheme={number}",
        "--window-size=900,1600",
        f"--screenshot={shot}",
    )
    pixels = imread(shot)[:, :, :3]
    assert len(np.unique((pixels * 255).astype(np.uint8).reshape(-1, 3), axis=0)) > 20
    corner = float(pixels[2, 2].mean())
    assert corner < 0.3 if scheme == "dark" else corner > 0.8

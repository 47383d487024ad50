"""Pages of mixes that are hard to draw: odd names, bad files, long batches, many classes."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import browser
import numpy as np
import pytest

from omniloader.config import OmniConfig

pytest.importorskip("matplotlib", reason="the extra 'report' is not installed")
pytest.importorskip("jinja2", reason="the extra 'report' is not installed")

import matplotlib as mpl

from omniloader.errors import PlanError
from omniloader.report import render_report

Page = Callable[..., str]


def _save(folder: Path, name: str, value: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / f"{name}.npy", value)


@pytest.fixture
def page(tmp_path: Path) -> Page:
    """Draws a mix of equal npy sources under the names given."""

    def drawn(
        *names: str,
        n: int = 6,
        more: int = 0,
        classes: int = 3,
        spoil: str | None = None,
        epochs: int = 2,
        **config: Any,
    ) -> str:
        rng = np.random.default_rng(0)
        entries = []
        for number, name in enumerate(names):
            root = tmp_path / f"c{number}"
            for i in range(n + more * (number == 0)):
                _save(root / f"s{i:03}", "audio", rng.normal(size=(3 + i % 9, 2)))
                _save(root / f"s{i:03}", "mood", np.int64(i % classes))
            features = [{"name": "audio", "feature_dim": 2, "time_dim": 8, "dtype": "float64"}]
            targets = [{"name": "mood", "dtype": "int64", "placeholder": -1}]
            schema = {"features": features, "targets": targets}
            entries.append({"name": name, "adapter": "npy", "path": str(root), "schema": schema})
        if spoil is not None:
            (tmp_path / "c0" / "s000" / f"{spoil}.npy").write_bytes(b"not an array")
        settings = {"batch_size": 4, "datasets": entries, **config}
        return render_report(OmniConfig.from_dict(settings), epochs=epochs)

    return drawn


def _text(page: str) -> str:
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page)))


@pytest.mark.parametrize(
    "name", ["$\\foo_b$", "50 % & <b>", "日本語", "عاطفة", "{{ 7 * 7 }}", 'a"b']
)
def test_any_name_can_be_drawn(page: Page, name: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        html = page(name, "other")
    assert [str(warning.message) for warning in caught] == []
    shown = name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert shown.replace('"', "&#34;") in html.replace("_<wbr>", "_")  # in the page
    assert f">{shown}</text>" in html  # beside the lengths
    assert "<b>&" not in html


def test_a_bad_file_is_a_finding_and_a_gap_not_the_end(page: Page) -> None:
    bucketed = {"bucketing": {"key": "audio"}, "pad_features": False, "collate": "dynamic"}
    html = page("broken", "whole", spoil="audio", **bucketed)
    text = _text(html)
    assert "error broken : 1 of 6 samples read cannot be read, first sample 0" in text
    assert "lacks lengths of audio, forecast of an epoch, first training batch: '" in text
    assert "a sample that cannot be read: '" in text
    assert "Not drawn: a finding above says why" in text
    assert "What is real in one training batch" not in html
    assert "whole 6 6 50.0% 1.00" in text  # the mix itself needs no data


def test_a_mix_that_cannot_be_planned_is_refused(page: Page) -> None:
    with pytest.raises(PlanError, match="drop_last would drop everything"):
        page("a", batch_size=64, drop_last=True)


def test_one_of_each_is_counted_in_the_singular(page: Page) -> None:
    text = _text(page("a", batch_size=6))
    assert "1 source, 6 samples, 1 feature, 1 target. An epoch: 6 draws in 1 batch." in text


def test_a_long_batch_is_thinned_and_says_so(page: Page) -> None:
    html = page("a", "b", n=60, batch_size=100)
    assert "Shown are 64 of its 100 samples." in _text(html)
    box = re.search(
        r'aria-label="What is real in one training batch".*?viewBox="0 0 (\S+) (\S+)"', html
    )
    assert box is not None
    assert float(box[2]) / 72 < 8.0  # inches


def test_too_many_classes_are_summed_up_in_words(page: Page) -> None:
    html = page("a", n=60, classes=50)
    assert "mood: 50 classes among the samples read, 1 to 2 labels each" in _text(html)
    assert "Labels of each class of mood" not in html


def test_more_findings_than_eight_are_folded(page: Page) -> None:
    html = page(
        *(f"s{i}" for i in range(5)), n=9, spoil=None, metadata=["who", "where", "when", "why"]
    )
    folded = re.search(r"<summary>(\d+) more</summary>", html)
    assert folded is not None
    assert html.count('<li class="') == 8 + int(folded[1])


def test_a_style_in_use_has_no_part_in_it_and_is_kept(page: Page) -> None:
    plain = page("a", "b")
    with mpl.rc_context({"lines.linewidth": 9.0, "axes.grid": True, "figure.dpi": 50}):
        styled = page("a", "b")
        assert mpl.rcParams["lines.linewidth"] == 9.0
    assert styled == plain


def test_no_two_elements_share_an_id_that_differ(page: Page) -> None:
    seen: dict[str, str] = {}
    for name, body in re.findall(
        r'<(?:path|clipPath|image) id="([^"]+)"(.*?)/>', page("a", "b"), re.S
    ):
        assert seen.setdefault(name, body) == body
    assert "<g id=" not in page("a", "b")


def test_only_a_level_mix_is_called_level(page: Page) -> None:
    annealed = {"strategy": "annealed_temperature", "strategy_kwargs": {"num_epochs": 2}}
    assert "The mix stays the same." in page("a", "b", **annealed)
    assert "The mix stays the same." not in page("a", "b", more=30, **annealed)


def test_weights_by_name_are_understood(page: Page) -> None:
    weights = {"strategy": "fixed", "strategy_kwargs": {"weights": {"a": 3.0, "b": 1.0}}}
    assert "a 6 9 75.0% 1.50 b 6 3 25.0% 0.50" in _text(page("a", "b", **weights))


def test_a_long_run_names_only_some_epochs(page: Page) -> None:
    shares = page("a", "b", epochs=60).split('aria-label="Share of draws')[1].split("</svg>")[0]
    assert 3 < shares.count("<text") < 20


def test_a_target_without_a_label_has_no_bars(tmp_path: Path, page: Page) -> None:
    for i in range(6):
        _save(tmp_path / "c0" / f"s{i:03}", "mood_mask", np.False_)
    html = page("a")
    assert "Labels of each class of mood" not in html
    assert "no real value in the 6 samples read" in html


def test_a_long_name_does_not_push_a_phone_sideways(page: Page, tmp_path: Path) -> None:
    command = browser.chromium()
    if command is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    html = page("x" * 120, "long_" * 30, metadata=["y" * 120])
    folder = tmp_path / "browser"
    folder.mkdir()
    assert 0 < browser.scroll_width(command, html, folder, 375) <= 375

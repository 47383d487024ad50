"""The figure of the normalising guide and the example of class balance say what is true."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import torch

EXAMPLES = Path(__file__).parents[1] / "examples"
sys.path.append(str(EXAMPLES))  # scripts, not a package

import class_balance  # noqa: E402
import draw_normalising  # noqa: E402

from omniloader import SubsampleConfig, class_histogram, class_weights_for_sampler  # noqa: E402


def words(svg: Path) -> list[str]:
    """The texts in a figure, in order."""
    root = ET.fromstring(svg.read_bytes())
    return [text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text")]


def test_the_committed_figure_is_the_one_that_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    drawn = tmp_path / "figure.svg"
    monkeypatch.setattr(sys, "argv", ["draw_normalising.py", "-o", str(drawn)])
    draw_normalising.main()
    assert words(drawn) == words(draw_normalising.FIGURE)
    assert draw_normalising.FIGURE.stat().st_size < 100_000
    shown = capsys.readouterr().out
    for corpus in draw_normalising.CORPORA:
        assert len(re.findall(rf"{corpus} [+]0\.00 ± 1\.00", shown)) == 2
    assert f"written to {drawn}" in shown


def test_the_panels_differ_as_the_guide_says() -> None:
    config = draw_normalising.two_corpora()
    spread = [
        [
            float(own.std())
            for own in draw_normalising.values_of(config.replace(transforms=way)).values()
        ]
        for way in draw_normalising.ways(config).values()
    ]
    recorded, pooled, per_corpus, per_sample = spread
    assert recorded[0] > 10 * recorded[1]
    assert pooled[0] > 10 * pooled[1]
    assert per_corpus == pytest.approx([1.0, 1.0], abs=1e-3)
    assert per_sample == pytest.approx([1.0, 1.0], abs=1e-2)


@pytest.mark.parametrize("draws", [30, 31, 100])
@pytest.mark.parametrize("epoch", [0, 1, 7])
def test_the_drawn_histogram_is_flat_to_within_one_draw_a_class(draws: int, epoch: int) -> None:
    omni = class_balance.unbalanced()
    assert class_histogram(omni, "activity").tolist() == list(class_balance.KEPT)
    weights = class_weights_for_sampler(omni, "activity")
    counts = class_balance.drawn(omni, SubsampleConfig(sample_weights=weights), draws, epoch)
    assert counts.sum() == draws
    assert int((counts - draws / 4).abs().max()) <= 1
    plain = class_balance.drawn(omni, None, draws, epoch)
    assert torch.all(plain[:-1] > plain[1:])


def test_both_histograms_are_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["class_balance.py", "--draws", "40"])
    class_balance.main()
    rows = re.findall(
        r"(as they come|by weights), epoch \d +(\d+) +(\d+) +(\d+) +(\d+)", capsys.readouterr().out
    )
    assert [title for title, *_ in rows] == ["as they come"] * 2 + ["by weights"] * 2
    assert all(count == "10" for row in rows[2:] for count in row[1:])

"""Draw what each way of normalising makes of one feature that two corpora share.

Run ``python examples/draw_normalising.py``: it writes ``docs/guides/normalising.svg``, the figure
of the guide "Normalising across corpora". Needs matplotlib (``pip install 'omniloader[report]'``).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from omniloader import OmniConfig, compute_stats
from omniloader.stats.files import load_stats

HERE = Path(__file__).parent
FIGURE = HERE.parent / "docs" / "guides" / "normalising.svg"
CORPORA = ("basic_motions", "daphnet")
KEY = "acceleration"
# Readable on a white page and on a dark one.
COLOURS = {"basic_motions": "#2a9d8f", "daphnet": "#e76f51"}
GREY = "#808a93"

Values = dict[str, npt.NDArray[np.float32]]


def two_corpora() -> OmniConfig:
    """The two corpora of the joint training that have ``acceleration``, not transformed."""
    config = OmniConfig.from_file(HERE / "joint_training.yaml")
    entries = [entry for entry in config.datasets if entry["name"] in CORPORA]
    return config.replace(datasets=entries, transforms=[], subsample=None)


def ways(config: OmniConfig) -> dict[str, list[dict[str, Any]]]:
    """Title to transforms."""
    pooled = compute_stats(config.build_loader(), [KEY])
    plain = {KEY: {name: value.tolist() for name, value in pooled[KEY].items()}}
    own = load_stats(HERE / "corpora" / "stats.json")
    per_corpus = {
        corpus: {KEY: {name: value.tolist() for name, value in own[corpus][KEY].items()}}
        for corpus in CORPORA
    }
    return {
        "as recorded": [],
        "normalize: one scale for all": [{"name": "normalize", "stats": plain}],
        "per_dataset_normalize: a scale a corpus": [
            {"name": "per_dataset_normalize", "stats": per_corpus}
        ],
        "instance_normalize: a scale a recording": [{"name": "instance_normalize", "keys": [KEY]}],
    }


def values_of(config: OmniConfig) -> Values:
    """All real steps and axes of the feature, corpus by corpus."""
    omni = config.build_loader()
    found: dict[str, list[Any]] = {name: [] for name in omni.names}
    for index in range(len(omni)):
        sample = omni[index]
        found[sample["dataset"]].append(sample[KEY][sample[f"{KEY}_mask"]].flatten().numpy())
    return {name: np.concatenate(parts) for name, parts in found.items()}


def spread_of(values: npt.NDArray[np.float32]) -> str:
    """Mean and standard deviation; adding 0 makes -0 a 0."""
    return f"{round(float(values.mean()), 2) + 0.0:+.2f} ± {values.std():.2f}"


def draw(panels: Mapping[str, Values], path: Path) -> None:
    """One histogram a way, both corpora in it."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    style = {
        "svg.fonttype": "none",  # letters stay letters
        "svg.hashsalt": "normalising",  # the same file each time
        "font.family": "sans-serif",
        "font.size": 9,
        **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor"), GREY),
        **dict.fromkeys(("xtick.color", "ytick.color"), GREY),
    }
    with mpl.rc_context(style):
        figure = Figure(figsize=(7.2, 4.4), layout="constrained")
        for axes, (title, values) in zip(figure.subplots(2, 2).flat, panels.items(), strict=True):
            pooled = np.concatenate(list(values.values()))
            edges = np.linspace(*np.quantile(pooled, (0.005, 0.995)), 49)
            for name, own in values.items():
                share = np.histogram(own, edges)[0] / len(own)
                label = f"{name}: {spread_of(own)}"
                axes.stairs(share, edges, color=COLOURS[name], linewidth=1.5, label=label)
            axes.set_title(title, fontsize=9)
            axes.set_ylim(0, 1.4 * axes.get_ylim()[1])  # room for the legend
            axes.legend(frameon=False, fontsize=7.5, loc="upper right")
            axes.set_yticks([])
            axes.spines[["left", "right", "top"]].set_visible(False)
        figure.savefig(path, transparent=True, metadata={"Date": None})


def main() -> None:
    """Draw the figure and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=FIGURE, help="SVG file to write")
    path = parser.parse_args().output
    config = two_corpora()
    panels = {
        title: values_of(config.replace(transforms=transforms))
        for title, transforms in ways(config).items()
    }
    for title, values in panels.items():
        spread = ", ".join(f"{name} {spread_of(own)}" for name, own in values.items())
        print(f"{title:<42}{spread}")
    draw(panels, path)
    print(f"written to {path}")


if __name__ == "__main__":
    main()

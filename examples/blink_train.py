"""Train two small blink detectors on a mix of synthetic corpora: about a minute on two cores.

Run ``python examples/blink_train.py``. It writes the corpora first (``--root`` keeps them
elsewhere). One model sees single frames, the other windows of a second and a half; both learn two
tasks, is there a blink and is the eye closed, though two corpora label only one of them.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lightning
from blink_models import TASKS, Detector, FrameModel, SequenceModel, mean
from rich import box
from rich.console import Console
from rich.table import Table

from blinklinmult.data.datamodule import BlinkDataModule
from blinklinmult.data.presets import corpus_path
from blinklinmult.synth import synth_root
from blinklinmult.train.config import DataConfig
from omniloader import seed_everything

CORPORA = ("rn15", "hust_lebw", "cew", "mrl")
MODELS: dict[str, tuple[Callable[[], Any], bool, int]] = {
    "frame by frame": (FrameModel, True, 6),
    "sequence": (SequenceModel, False, 10),
}
"""Name to: its model, whether it is given single frames, and epochs."""


def datamodule(root: Path, *, stills: bool) -> BlinkDataModule:
    """The training mix; small enough to be kept in memory, so that no worker is needed."""
    config = DataConfig(
        datasets=list(CORPORA),
        stills=stills,
        still_open_to_closed=2.0,
        batch_size=32 if stills else 8,
        num_workers=0,
        persistent_workers=False,
        preload=True,
    )
    return BlinkDataModule(config, config.resolve_specs(root / "configs"), root)


def windows(root: Path) -> BlinkDataModule:
    """What both models are tested on: all windows, in order."""
    return datamodule(root, stills=False)


def trainer(epochs: int) -> lightning.Trainer:
    return lightning.Trainer(
        accelerator="cpu",
        max_epochs=epochs,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
        gradient_clip_val=1.0,
    )


def train(root: Path, name: str, scale: float) -> Detector:
    """Train one model and count its hits on the test windows."""
    make, stills, epochs = MODELS[name]
    seed_everything(7)
    data = datamodule(root, stills=stills)
    data.setup("fit")
    epochs = max(1, round(epochs * scale))
    detector = Detector(make(), steps=epochs * len(data.train_dataloader()))
    runner = trainer(epochs)
    runner.fit(detector, datamodule=data)
    runner.test(detector, datamodule=windows(root), verbose=False)
    return detector


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path("out/blink"), help="root of the run")
    parser.add_argument("--seconds", type=float, default=90, help="of video, each corpus")
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of epochs")
    options = parser.parse_args(arguments)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    for advice in (".*does not have many workers.*", ".*no `validation_step`.*", ".*LeafSpec.*"):
        warnings.filterwarnings("ignore", message=advice)
    console = Console(width=100)
    if not all(corpus_path(options.root, name).is_file() for name in CORPORA):
        console.print(f"writing {', '.join(CORPORA)} under {options.root}")
        synth_root(options.root, CORPORA, options.seconds)
    table = Table(box=box.SIMPLE_HEAD, title="F1 on the test windows", title_justify="left")
    for column in ("model", "task", "frames", "windows", "first loss", "last loss", "seconds"):
        table.add_column(column, justify="left" if column in ("model", "task") else "right")
    for name in MODELS:
        started = time.perf_counter()
        detector = train(options.root, name, options.scale)
        seconds = time.perf_counter() - started
        part = max(1, len(detector.losses) // 10)
        ends = [mean(detector.losses[:part]), mean(detector.losses[-part:])]
        scores = (
            detector.counts.f1(detector.counts.frames),
            detector.counts.f1(detector.counts.windows),
        )
        for i, task in enumerate(TASKS):
            cells = [name, task, *(f"{score[i]:.3f}" for score in scores)]
            if i == 0:
                cells += [f"{ends[0]:.3f}", f"{ends[1]:.3f}", f"{seconds:.0f}"]
            table.add_row(*cells)
    console.print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Write the four sample corpora under ``corpora/`` from the data that aeon 1.6 bundles.

Needs ``pip install aeon==1.6.0 h5py``, in an environment of its own; nothing else here does. The
result is in the repository already, and a second run writes the same bytes. What each corpus is,
where it comes from and how it was cut is told in ``corpora/README.md``.
"""

from __future__ import annotations

import argparse
import csv
import shutil
from collections.abc import Iterator
from pathlib import Path

import aeon
import h5py
import numpy as np
from aeon.datasets import load_basic_motions, load_cardano_sentiment, load_japanese_vowels
from scipy.signal import resample_poly

Sample = dict[str, np.ndarray]
Subset = dict[str, Sample]

ACTIVITIES = ("standing", "walking", "running", "badminton")
DAPHNET_FILE = Path(aeon.__file__).parent / "datasets/data/Daphnet_S06R02E0/S06R02E0.csv"
DAPHNET_HZ, SHARED_HZ = 64, 10  # BasicMotions has 10 Hz; a shared feature must mean one thing
WINDOW, TRAIN_HOP = 100, 10  # steps at SHARED_HZ: 10 s and 1 s


def japanese_vowels() -> dict[str, Subset]:
    """Utterances: cepstra ``(7..29, 12)`` and the speaker 0..8."""

    def samples(split: str) -> Iterator[tuple[str, Sample]]:
        series, speakers = load_japanese_vowels(split=split)
        for row, (values, speaker) in enumerate(zip(series, speakers, strict=True)):
            yield (
                f"{split}-{row:03d}",
                {"cepstrum": np.float32(values.T), "speaker": np.int64(int(speaker) - 1)},
            )

    return _hold_out(dict(samples("train")), dict(samples("test")), "speaker", per_class=8)


def basic_motions() -> dict[str, Subset]:
    """Ten seconds at 10 Hz: acceleration and gyroscope ``(100, 3)``, and the activity 0..3."""

    def samples(split: str) -> Iterator[tuple[str, Sample]]:
        series, activities = load_basic_motions(split=split)
        for row, (values, activity) in enumerate(zip(series, activities, strict=True)):
            yield (
                f"{split}-{row:03d}",
                {
                    "acceleration": np.float32(values[:3].T),
                    "gyroscope": np.float32(values[3:].T),
                    "activity": np.int64(ACTIVITIES.index(activity)),
                },
            )

    return _hold_out(dict(samples("train")), dict(samples("test")), "activity", per_class=3)


def daphnet() -> dict[str, Subset]:
    """Windows of one walk: acceleration of the trunk and, as per-step target, of the leg, in g."""
    with DAPHNET_FILE.open(newline="") as file:
        rows = list(csv.DictReader(file))
    axes = ("horiz_fwd", "vert", "horiz_lateral")
    sensors = ("trunk", "leg")
    milli_g = np.array([[float(r[f"{s}_{a}"]) for s in sensors for a in axes] for r in rows])
    # Cut in time before anything is filtered, so that no split has seen a neighbour's samples.
    first, second = len(rows) * 6 // 10, len(rows) * 8 // 10
    parts = {"train": (0, first), "valid": (first, second), "test": (second, len(rows))}
    return {
        subset: dict(
            _windows(milli_g[start:stop] / 1000, start, TRAIN_HOP if subset == "train" else WINDOW)
        )
        for subset, (start, stop) in parts.items()
    }


def _windows(g: np.ndarray, first_row: int, hop: int) -> Iterator[tuple[str, Sample]]:
    """Windows at 10 Hz; without overlap the last one may be short, so every step is there once."""
    steps = resample_poly(g, SHARED_HZ, DAPHNET_HZ, axis=0, padtype="line").astype(np.float32)
    offset = first_row * SHARED_HZ // DAPHNET_HZ
    last = len(steps) if hop == WINDOW else len(steps) - WINDOW + 1
    for start in range(0, last, hop):
        window = steps[start : start + WINDOW]
        yield (
            f"step-{offset + start:04d}",
            {"acceleration": window[:, :3], "leg_acceleration": window[:, 3:]},
        )


def cardano_sentiment() -> dict[str, Subset]:
    """Days: price and log volume by the hour ``(24, 2)``, and the day's sentiment in -1..1."""

    def samples(split: str) -> Iterator[tuple[str, Sample]]:
        days, scores = load_cardano_sentiment(split=split)
        for row, ((price, volume), score) in enumerate(zip(days, scores, strict=True)):
            market = np.stack([price, np.log10(1 + volume)], axis=1)
            yield (
                f"{split}-{row:03d}",
                {"market": np.float32(market), "sentiment": np.float32(score)},
            )

    train = list(samples("train"))
    # The days come in no order of time and carry no date: every fifth is as good as any other.
    return {
        "train": {name: day for row, (name, day) in enumerate(train) if row % 5 != 4},
        "valid": {name: day for row, (name, day) in enumerate(train) if row % 5 == 4},
        "test": dict(samples("test")),
    }


def _hold_out(train: Subset, test: Subset, target: str, per_class: int) -> dict[str, Subset]:
    """Give the last ``per_class`` training samples of each class, in file order, to ``valid``."""
    by_class: dict[int, list[str]] = {}
    for name, sample in train.items():
        by_class.setdefault(int(sample[target]), []).append(name)
    held = {name for names in by_class.values() for name in names[-per_class:]}
    return {
        "train": {name: sample for name, sample in train.items() if name not in held},
        "valid": {name: sample for name, sample in train.items() if name in held},
        "test": test,
    }


def write_hdf5(path: Path, subsets: dict[str, Subset]) -> None:
    """Write ``/<subset>/<sample>/<key>``; without times, so that the bytes depend on data alone."""
    with h5py.File(path, "w", libver=("v110", "v110")) as file:
        for subset, samples in subsets.items():
            for name, sample in samples.items():
                group = file.create_group(f"{subset}/{name}")
                for key, value in sample.items():
                    packed = {"compression": "gzip", "shuffle": True} if np.ndim(value) else {}
                    group.create_dataset(key, data=value, track_times=False, **packed)


def write_npy(root: Path, subsets: dict[str, Subset]) -> None:
    """Write ``root/<subset>/<sample>/<key>.npy``."""
    shutil.rmtree(root, ignore_errors=True)
    for subset, samples in subsets.items():
        for name, sample in samples.items():
            folder = root / subset / name
            folder.mkdir(parents=True)
            for key, value in sample.items():
                np.save(folder / f"{key}.npy", value, allow_pickle=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "corpora")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    write_hdf5(out / "japanese_vowels.h5", japanese_vowels())
    write_npy(out / "basic_motions", basic_motions())
    write_hdf5(out / "daphnet.h5", daphnet())
    write_hdf5(out / "cardano_sentiment.h5", cardano_sentiment())


if __name__ == "__main__":
    main()

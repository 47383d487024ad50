"""Draw every class equally often, from a corpus in which they are not.

Run ``python examples/class_balance.py``: it takes the activities of the sample corpus
``basic_motions``, throws most samples of some classes away, and draws two epochs from the rest, as
they come and by weights.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
from rich import box
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.utils.data import Subset

from omniloader import (
    DatasetSchema,
    FixedWeightStrategy,
    NpyFolderDataset,
    OmniLoader,
    SubsampleConfig,
    TensorSpec,
    class_weights_for_sampler,
)

CORPUS = Path(__file__).parent / "corpora" / "basic_motions"
ACTIVITIES = ("standing", "walking", "running", "badminton")
KEPT = (7, 4, 2, 1)  # samples of each class, of 7
SCHEMA = DatasetSchema(
    features=[TensorSpec("acceleration", feature_dim=3, time_dim=100)],
    targets=[TensorSpec("activity", dtype=torch.int64, placeholder=-1)],
)


def unbalanced() -> OmniLoader:
    """The corpus with some samples of each class left out."""
    corpus = NpyFolderDataset(CORPUS, subset="train")
    labels = [int(corpus[index]["activity"]) for index in range(len(corpus))]
    kept = [
        index
        for number, most in enumerate(KEPT)
        for index in [at for at, label in enumerate(labels) if label == number][:most]
    ]
    return OmniLoader([Subset(corpus, sorted(kept))], [SCHEMA], names=["basic_motions"])


def drawn(omni: OmniLoader, subsample: SubsampleConfig | None, draws: int, epoch: int) -> Tensor:
    """How often each class comes in an epoch, int64 ``(4,)``."""
    strategy = FixedWeightStrategy(
        omni.dataset_sizes, epoch_size=draws, subsample=subsample, names=omni.names
    )
    sampler = omni.make_sampler(strategy, epoch=epoch)
    labels = torch.stack([omni[index]["activity"] for index in sampler])
    return torch.bincount(labels, minlength=len(ACTIVITIES))


def show(rows: Sequence[tuple[str, Tensor]]) -> None:
    """Print one histogram a row."""
    table = Table("", *ACTIVITIES, box=box.SIMPLE)
    for title, counts in rows:
        table.add_row(title, *map(str, counts.tolist()))
    Console().print(table)


def main() -> None:
    """Print histograms before and after balancing."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--draws", type=int, default=30, help="samples an epoch draws")
    draws = parser.parse_args().draws
    omni = unbalanced()
    # One weight a sample: 1 / (number of samples of its class).
    balanced = SubsampleConfig(sample_weights=class_weights_for_sampler(omni, "activity"))
    show(
        [
            (f"{title}, epoch {epoch}", drawn(omni, subsample, draws, epoch))
            for title, subsample in (("as they come", None), ("by weights", balanced))
            for epoch in (0, 1)
        ]
    )


if __name__ == "__main__":
    main()

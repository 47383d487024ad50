"""Train one model on four corpora that share no label, beside one model a corpus.

Run ``python examples/train_joint.py``: about a minute on one core, the same figures each time.
Every run has the same backbone, the same number of optimiser steps, and sees the same number of
each corpus' samples; the only difference is whether the backbone also sees the other corpora.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from joint_model import Batch, JointModel, Task, joint_loss
from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from torch import Tensor

from omniloader import OmniConfig, seed_everything

CONFIG = Path(__file__).parent / "joint_training.yaml"
TASKS = {
    "japanese_vowels": Task(target="speaker", classes=9),
    "basic_motions": Task(target="activity", classes=4),
    "daphnet": Task(target="leg_acceleration", outputs=3),
    "cardano_sentiment": Task(target="sentiment"),
}
CLEAR = 0.02  # a difference of test scores below this is called none

READING = (
    f"Constant: class 0, or the training mean. Helps or hurts: all seeds agree, and the mean test "
    f"score moves by {CLEAR} or more. The joint model is one in place of four."
)

Predictor = Callable[[Batch], Mapping[str, Tensor]]


class Scores(NamedTuple):
    """The score a task is judged by, and a second view of the same predictions."""

    main: float
    second: float | None  # None: a constant correlates with nothing


def mixed(config: OmniConfig) -> dict[str, int]:
    """How many samples of each corpus an epoch draws."""
    omni = config.build_loader(training=True)
    counts = config.build_strategy(omni.dataset_sizes).target_counts(0)
    return dict(zip(omni.names, counts, strict=True))


def only(config: OmniConfig, corpus: str) -> OmniConfig:
    """The same mix reduced to one corpus: its samples an epoch, and the steps, stay the same."""
    drawn = mixed(config)
    steps = -(-sum(drawn.values()) // config.batch_size)
    return config.replace(
        strategy="fixed",
        strategy_kwargs={
            "weights": {name: float(name == corpus) for name in drawn},
            "epoch_size": drawn[corpus],
        },
        batch_size=-(-drawn[corpus] // steps),
    )


def train(config: OmniConfig, tasks: Sequence[Task], epochs: int) -> JointModel:
    """Train a model on the mix of a config."""
    seed_everything(config.seed)  # weights and dropout; the order of samples needs no global seed
    loader = config.build_dataloader(training=True)
    model = JointModel(loader.dataset.schema, tasks)
    optimiser = torch.optim.AdamW(model.parameters(), weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, max_lr=4e-3, total_steps=epochs * len(loader)
    )
    for epoch in range(epochs):
        loader.sampler.set_epoch(epoch)
        for batch in loader:
            optimiser.zero_grad()
            joint_loss(tasks, model(batch), batch).backward()
            optimiser.step()
            schedule.step()
    return model.eval()


@torch.no_grad()
def evaluate(predict: Predictor, config: OmniConfig, tasks: Sequence[Task]) -> dict[str, Scores]:
    """Score every task on all real labels of the evaluation subset."""
    found: dict[str, list[tuple[Tensor, Tensor]]] = defaultdict(list)
    for batch in config.build_dataloader(training=False):
        predictions = predict(batch)
        for task in tasks:
            mask = batch[f"{task.target}_mask"]
            found[task.target].append((predictions[task.target][mask], batch[task.target][mask]))
    return {
        task.target: score(task, *map(torch.cat, zip(*found[task.target], strict=True)))
        for task in tasks
    }


def constant_guess(batch: Batch) -> dict[str, Tensor]:
    """The same answer for every sample: the training mean, or class 0 of equally many each."""
    return {
        task.target: torch.zeros(*batch[f"{task.target}_mask"].shape, task.classes or task.outputs)
        for task in TASKS.values()
    }


def score(task: Task, predicted: Tensor, true: Tensor) -> Scores:
    """Macro-F1 and accuracy of classes; R² and Pearson's r of a regression, mean over outputs."""
    if task.classes:
        guess = predicted.argmax(1)
        return Scores(_macro_f1(guess, true, task.classes), float((guess == true).double().mean()))
    guess, true = predicted.double(), true.double().reshape(predicted.shape)
    spread = (true - true.mean(0)).square().sum(0)
    r2 = 1 - (guess - true).square().sum(0) / spread
    pairs = zip(guess.T, true.T, strict=True)
    r = torch.stack([torch.corrcoef(torch.stack(pair))[0, 1] for pair in pairs]).mean()
    return Scores(float(r2.mean()), None if r.isnan() else float(r))


def _macro_f1(guess: Tensor, true: Tensor, classes: int) -> float:
    confusion = torch.bincount(true * classes + guess, minlength=classes**2).reshape(classes, -1)
    hits, total = confusion.diagonal().double(), confusion.sum(0) + confusion.sum(1)
    return float((2 * hits / total.clamp(min=1))[total > 0].mean())


def for_test(config: OmniConfig) -> OmniConfig:
    """The same config, evaluated on the test subsets."""
    datasets = [{**entry, "eval": {"subset": "test"}} for entry in config.datasets]
    return config.replace(datasets=datasets)


Results = dict[str, dict[str, list[Scores]]]  # corpus -> "joint valid", "single test", … -> seeds


def compare(config: OmniConfig, seeds: Sequence[int], epochs: int, progress: Progress) -> Results:
    """Train jointly and alone, for several seeds."""
    views = {"valid": config, "test": for_test(config)}
    results: Results = {corpus: defaultdict(list) for corpus in TASKS}

    def note(kind: str, predict: Predictor, corpora: Sequence[str]) -> None:
        for subset, view in views.items():
            scores = evaluate(predict, view, [TASKS[corpus] for corpus in corpora])
            for corpus in corpora:
                results[corpus][f"{kind} {subset}"].append(scores[TASKS[corpus].target])

    note("constant", constant_guess, list(TASKS))
    bar = progress.add_task("", total=len(seeds) * (1 + len(TASKS)))
    for seed in seeds:
        seeded = config.replace(seed=seed)
        progress.update(bar, description=f"seed {seed}: joint")
        note("joint", train(seeded, list(TASKS.values()), epochs), list(TASKS))
        progress.advance(bar)
        for corpus, task in TASKS.items():
            progress.update(bar, description=f"seed {seed}: {corpus} alone")
            note("single", train(only(seeded, corpus), [task], epochs), [corpus])
            progress.advance(bar)
    return results


def verdict(own: Mapping[str, Sequence[Scores]]) -> str:
    """What joint training did to a task: all seeds must agree, and the mean must be clear."""
    single, joint = ([s.main for s in own[f"{kind} test"]] for kind in ("single", "joint"))
    if max(*single, *joint) <= own["constant test"][0].main:
        return "no better than a guess"
    gains = [j - s for s, j in zip(single, joint, strict=True)]
    mean = statistics.fmean(gains)
    if abs(mean) < CLEAR or min(gains) * max(gains) <= 0:
        return f"no clear change ({mean:+.3f})"
    return f"[green]helps ({mean:+.3f})[/]" if mean > 0 else f"[red]hurts ({mean:+.3f})[/]"


def mix_table(config: OmniConfig) -> Table:
    """What is mixed."""
    omni = config.build_loader(training=True)
    drawn = mixed(config)
    table = Table(title="The mix", title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("corpus", "features", "target"):
        table.add_column(heading, no_wrap=heading != "features")
    for heading in ("samples", "an epoch\ndraws"):
        table.add_column(heading, justify="right")
    for source in omni.sources:
        roles = (source.schema.features, source.schema.targets)
        names = (", ".join(spec.name for spec in specs) for specs in roles)
        counts = (len(source.dataset), drawn[source.name])
        table.add_row(source.name, *names, *map(str, counts))
    return table


def result_table(results: Results) -> Table:
    """Scores, mean over seeds."""
    table = Table(title="Scores, mean over seeds", title_justify="left", box=box.SIMPLE_HEAD)
    columns = ("constant test", "single valid", "joint valid", "single test", "joint test")
    table.add_column("task", no_wrap=True)
    table.add_column("score", no_wrap=True)
    for heading in columns:
        table.add_column(heading.replace(" ", "\n"), justify="right", no_wrap=True)
    for corpus, task in TASKS.items():
        own = results[corpus]
        for field, label in enumerate(("macro-F1", "accuracy") if task.classes else ("R²", "r")):
            texts = [_mean_text([scores[field] for scores in own[column]]) for column in columns]
            table.add_row("" if field else task.target, label, *texts)
    return table


def _mean_text(values: Sequence[float | None]) -> str:
    return "–" if None in values else f"{statistics.fmean(values):.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the scores")
    options = parser.parse_args()
    if min(options.epochs, options.seeds) < 1:
        parser.error("--epochs and --seeds must be at least 1")
    console = Console()
    torch.set_num_threads(1)  # small tensors; and the figures do not depend on the machine's cores
    config = OmniConfig.from_file(CONFIG)
    console.print(mix_table(config))
    start = time.perf_counter()
    with Progress(console=console, transient=True) as progress:
        results = compare(config, range(options.seeds), options.epochs, progress)
    console.print(result_table(results))
    for corpus, task in TASKS.items():
        console.print(f"  Joint training, {task.target}: {verdict(results[corpus])}")
    console.print(f"\n{READING}")
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "joint_training.json"
    path.write_text(json.dumps(results, indent=1, allow_nan=False) + "\n")
    console.print(f"{time.perf_counter() - start:.0f} s. The scores of every seed: {path}")
    console.print(f"The mix as a page to look at: {report_of(config, options.out)}")


def report_of(config: OmniConfig, folder: Path) -> str:
    """Write the HTML report of the mix, where the extra that draws it is installed."""
    try:
        from omniloader.report import write_report
    except ImportError as error:
        return f"not written, {error}"
    return str(write_report(config, folder / "report.html"))


if __name__ == "__main__":
    main()

"""``compute-stats`` and ``class-weights-for-loss``: figures of the data, taken once and kept."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from torch import Tensor

from omniloader.cli.common import AsJson, ConfigPath, Output, Workers, command, load, plain_loader
from omniloader.cli.console import inform, show, show_json, table
from omniloader.cli.engine import Address, Engine, reading_with
from omniloader.cli.output import replacing
from omniloader.config.problems import unknown_name
from omniloader.errors import ConfigError
from omniloader.loader import OmniLoader
from omniloader.sampling.weights import SCHEMES, check_scheme, class_histogram, weights_of_counts
from omniloader.transforms.stats import compute_dataset_stats, compute_stats, save_stats

# A wide feature fills a screen; JSON has all of it.
_SHOWN = 4

PerDataset = Annotated[
    bool, typer.Option("--per-dataset", help="For each dataset apart, for per_dataset_normalize.")
]
KeyNames = Annotated[
    list[str] | None,
    typer.Option("--keys", help="Names, repeated or with commas; default every float feature."),
]


@command
def compute_stats_command(
    config: ConfigPath,
    output: Output = None,
    keys: KeyNames = None,
    per_dataset: PerDataset = False,
    workers: Workers = 0,
    engine: Engine = "local",
    address: Address = None,
    as_json: AsJson = False,
) -> int:
    """Mean, std, min, max, median and IQR over all real positions of the training data.

    Without -o the figures are only shown; normalising transforms read the file by stats_path.
    """
    settings = load(config)
    loader = plain_loader(settings)
    names = _chosen(loader, keys)
    compute = compute_dataset_stats if per_dataset else compute_stats
    with _maybe_replacing(output) as temporary, reading_with(engine, address, workers) as readers:
        stats: Any = compute(loader, names, workers=readers, progress=sys.stderr.isatty())
        if temporary is not None:
            save_stats(stats, temporary, fingerprint=settings.fingerprint)
    groups: dict[str, Any] = dict(stats) if per_dataset else {"": stats}
    if as_json:
        show_json(
            {name: _plain(group) for name, group in groups.items()}
            if per_dataset
            else _plain(stats)
        )
    else:
        show(_stats_table(groups))
    _say_written(output)
    return 0


@command
def class_weights_command(
    config: ConfigPath,
    target: Annotated[str, typer.Option("--target", help="A target of class ids.")],
    output: Output = None,
    num_classes: Annotated[
        int | None, typer.Option(min=1, help="Number of classes; default largest id + 1.")
    ] = None,
    scheme: Annotated[str, typer.Option(help=f"One of {', '.join(SCHEMES)}.")] = "inverse",
    beta: Annotated[float, typer.Option(help="Of the scheme 'effective', in [0, 1).")] = 0.999,
    workers: Workers = 0,
    engine: Engine = "local",
    address: Address = None,
    as_json: AsJson = False,
) -> int:
    """Count the classes of a target and weigh them for a loss, 1 on average."""
    settings = load(config)
    loader = plain_loader(settings)
    if target not in loader.schema.target_keys:
        raise ConfigError(f"--target: {unknown_name('target', target, loader.schema.target_keys)}")
    check_scheme(scheme, beta)
    with _maybe_replacing(output) as temporary, reading_with(engine, address, workers) as readers:
        counts = class_histogram(
            loader, target, num_classes, workers=readers, progress=sys.stderr.isatty()
        )
        result: dict[str, Any] = {
            "target": target,
            "num_classes": len(counts),
            "scheme": scheme,
            "beta": beta if scheme == "effective" else None,
            "counts": counts.tolist(),
            "weights": weights_of_counts(counts, scheme, beta).tolist(),
            "fingerprint": settings.fingerprint,
        }
        if temporary is not None:
            temporary.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if as_json:
        show_json(result)
    else:
        shown = table(f"Classes of '{target}'", "class", "count", "weight")
        for number, (count, weight) in enumerate(
            zip(result["counts"], result["weights"], strict=True)
        ):
            shown.add_row(str(number), f"{count:,}", f"{weight:.4g}")
        show(shown)
    _say_written(output)
    return 0


def _chosen(loader: OmniLoader, keys: list[str] | None) -> list[str]:
    schema = loader.schema
    if keys is None:
        names = [spec.name for spec in schema.features if spec.dtype.is_floating_point]
        if not names:
            raise ConfigError("no feature is of a float dtype; name the values with --keys")
        return names
    names = [name for part in keys for name in part.split(",") if name]
    for name in names:
        if name not in schema:
            known = [*schema.feature_keys, *schema.target_keys]
            raise ConfigError(f"--keys: {unknown_name('key', name, known)}")
    return names


@contextlib.contextmanager
def _maybe_replacing(output: Path | None) -> Iterator[Path | None]:
    if output is None:
        yield None
        return
    with replacing(output) as temporary:
        yield temporary


def _say_written(output: Path | None) -> None:
    if output is not None:
        inform(f"written to {output}")


def _plain(stats: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Any]:
    return {
        key: {figure: value.tolist() for figure, value in figures.items()}
        for key, figures in stats.items()
    }


def _stats_table(groups: Mapping[str, Mapping[str, Mapping[str, Tensor]]]) -> Table:
    figures = ("mean", "std", "min", "max", "median", "iqr")
    named = ["dataset"] if list(groups) != [""] else []
    made = table("Statistics over real positions", *named, "key", *figures, left=len(named) + 1)
    for name, stats in groups.items():
        for key, values in stats.items():
            cells = [_short(values[figure]) for figure in figures]
            made.add_row(*([name] if named else []), key, *cells)
    return made


def _short(value: Tensor) -> str:
    flat = value.flatten().tolist()
    more = f" … ({len(flat)})" if len(flat) > _SHOWN else ""
    return " ".join(f"{number:.4g}" for number in flat[:_SHOWN]) + more

"""``synth`` and ``build-talkingface``: commands that write corpora."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from blinklinmult.data.names import DATASETS, IMAGE_SIZE, WINDOW_SECONDS
from blinklinmult.data.tallies import Tallies
from blinklinmult.synth import synth_root
from omniloader.cli.common import command
from omniloader.cli.console import show, table

_ALL = ",".join(DATASETS)


@command
def synth_command(
    root: Annotated[Path, typer.Option(help="Root of the run; files go to data/ and configs/.")],
    corpora: Annotated[str, typer.Option(help="Names of corpora, with commas.")] = _ALL,
    seconds: Annotated[
        float, typer.Option(help="Seconds of video each corpus gets (stills: two a second).")
    ] = 60.0,
    seed: Annotated[int, typer.Option(help="Everything is drawn from it.")] = 42,
) -> int:
    """Write small synthetic corpora with moving eyelids, and their configs."""
    names = [name.strip() for name in corpora.split(",") if name.strip()]
    tallies = synth_root(root, names, seconds, seed)
    show(*(tally_table(name, found) for name, found in tallies.items()))
    show(f"configs: {root / 'configs'}")
    return 0


@command
def talkingface_command(
    video: Annotated[Path, typer.Option(help="The video.")],
    tag: Annotated[Path, typer.Option(help="Its annotation in the form of EyeBlink8.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The corpus file to write.")],
    image_size: Annotated[int, typer.Option(min=1, help="Side of the crops.")] = IMAGE_SIZE,
    window_seconds: Annotated[float, typer.Option(help="Length of a window.")] = WINDOW_SECONDS,
) -> int:
    """Build a corpus from a video and its annotation."""
    # OpenCV is an extra; nothing else needs it.
    from blinklinmult.video.talkingface import build_talkingface

    spec, tallies = build_talkingface(video, tag, output, image_size, window_seconds)
    show(tally_table(spec.name, tallies), f"declared in {output.with_name('talkingface.yaml')}")
    return 0


def tally_table(name: str, tallies: Tallies) -> Any:
    """Counts of a corpus by split."""
    made = table(name, "split", "samples", "positive", "blink frames", "closed frames")
    for subset, tally in tallies.items():
        shares = [
            f"{tally.frame_fraction(target):.1%}" if target in tally.frames else "–"
            for target in ("blink_presence", "eye_state")
        ]
        made.add_row(subset, str(tally.samples), f"{tally.positive_fraction:.1%}", *shares)
    return made

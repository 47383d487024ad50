"""Ranks as real processes (gloo, torchrun): their shares, and that they must follow one order."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent))  # a script beside this file

from gloo_run import GLOBAL_BATCH, KINDS, config, mix

SCRIPT = Path(__file__).with_name("gloo_run.py")
WORLDS = (1, 2, 4)
TRAINING = sorted(KINDS)


def torchrun(processes: int, script: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a script in some processes of this machine."""
    runner = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command = [*runner, "--nproc-per-node", str(processes), str(script), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=150)
    assert done.returncode == 0, done.stderr[:3000]
    return done


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[dict[str, Any]]]:
    """World size to what each rank wrote."""
    folder = tmp_path_factory.mktemp("gloo")
    loader = config(1).build_dataloader(*mix())
    list(itertools.islice(loader, 3))
    (folder / "state.json").write_text(json.dumps(loader.state_dict()))
    for world in WORLDS:
        torchrun(world, SCRIPT, str(folder))
    return {
        world: [json.loads((folder / f"{world}-{rank}.json").read_text()) for rank in range(world)]
        for world in WORLDS
    }


def steps(parts: list[list[Any]]) -> list[list[Any]]:
    """Each step of all ranks together, sorted."""
    return [sorted(itertools.chain(*own)) for own in zip(*parts, strict=True)]


@pytest.mark.parametrize("kind", TRAINING)
def test_all_ranks_have_equally_many_batches(
    found: dict[int, list[dict[str, Any]]], kind: str
) -> None:
    for world in WORLDS:
        counts = {
            tuple(tuple(map(len, epoch)) for epoch in rank["drawn"][kind]) for rank in found[world]
        }
        assert len(counts) == 1, (world, counts)


@pytest.mark.parametrize("kind", TRAINING)
def test_the_union_of_all_ranks_at_a_step_is_that_of_any_world(
    found: dict[int, list[dict[str, Any]]], kind: str
) -> None:
    for epoch in range(2):
        whole = steps([rank["drawn"][kind][epoch] for rank in found[1]])
        assert len(whole) >= 3
        for world in WORLDS[1:]:
            shared = steps([rank["drawn"][kind][epoch] for rank in found[world]])
            for mine, theirs in zip(shared, whole, strict=True):
                if len(theirs) == GLOBAL_BATCH:
                    assert mine == theirs
                    continue
                # A batch that is not full repeats some draws, so that all ranks have as many.
                assert {tuple(row) for row in theirs} <= {tuple(row) for row in mine}
                assert len(mine) - len(theirs) == -len(theirs) % world


@pytest.mark.parametrize("kind", TRAINING)
def test_epochs_differ(found: dict[int, list[dict[str, Any]]], kind: str) -> None:
    first, second = found[2][0]["drawn"][kind]
    assert first != second


def test_evaluation_meets_every_sample_once(found: dict[int, list[dict[str, Any]]]) -> None:
    whole = Counter(tuple(row) for batch in found[1][0]["drawn"]["evaluation"] for row in batch)
    assert sorted(index for index, _, _ in whole) == list(range(30))
    for world in WORLDS[1:]:
        parts = [rank["drawn"]["evaluation"] for rank in found[world]]
        met = Counter(tuple(row) for part in parts for batch in part for row in batch)
        assert met == whole
        sizes = [sum(map(len, part)) for part in parts]
        assert max(sizes) - min(sizes) <= 1


def test_a_state_of_one_process_goes_on_in_any_world(
    found: dict[int, list[dict[str, Any]]],
) -> None:
    whole = steps([found[1][0]["drawn"]["mixed"][0]])
    for world in WORLDS:
        shared = steps([rank["resumed"] for rank in found[world]])
        assert shared[:-1] == whole[3:-1]
        assert len(shared) == len(whole) - 3


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("seed", "seed is 3 on process 0 and 4 on process 1; give every process the same config"),
        ("sizes", "sizes is [21, 9] on process 0 and [21, 10] on process 1"),
        ("strategy", "mix is "),
        ("epoch", "epoch is 0 on process 0 and 1 on process 1"),
        ("position", "position is 0 on process 0 and 16 on process 1"),
        ("drop_last", "drop_last is False on process 0 and True on process 1"),
        ("buckets", "seed is 3 on process 0 and 4 on process 1"),
        ("per_source", "seed is 3 on process 0 and 4 on process 1"),
        ("plain sampler", "seed is 0 on process 0 and 1 on process 1"),
    ],
)
def test_ranks_that_differ_are_refused_on_both(
    found: dict[int, list[dict[str, Any]]], what: str, text: str
) -> None:
    for rank in found[2]:
        assert rank["refusals"][what].startswith(f"ranks do not follow one order: {text}")


def test_one_rank_may_look_ahead_and_read_alone(found: dict[int, list[dict[str, Any]]]) -> None:
    # 30 draws alone in batches of 4, against 15 for each of two ranks.
    assert [rank["alone"] for rank in found[2]] == [8 - 4, 0]

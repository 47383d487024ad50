"""The sample corpora are what their README says, and the demo's losses and runs are right."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from omniloader.config import OmniConfig
from omniloader.data.datasets import HDF5Dataset
from omniloader.data.npy import NpyFolderDataset

EXAMPLES = Path(__file__).parents[1] / "examples"
CORPORA = EXAMPLES / "corpora"
SUBSETS = ("train", "valid", "test")

sys.path.append(str(EXAMPLES))  # scripts, not a package

import train_joint  # noqa: E402
from joint_model import JointModel, Task, joint_loss, masked_loss, masked_pool  # noqa: E402


def opened(corpus: str, subset: str) -> HDF5Dataset | NpyFolderDataset:
    if (CORPORA / corpus).is_dir():
        return NpyFolderDataset(CORPORA / corpus, subset=subset)
    return HDF5Dataset(CORPORA / f"{corpus}.h5", subset, preload=True)


def readme_rows() -> dict[str, list[str]]:
    text = (CORPORA / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)(?:\.h5|/)` \|(.*)\|$", text, flags=re.MULTILINE)
    return {corpus: [cell.strip() for cell in rest.split("|")] for corpus, rest in rows}


# -- the corpora -----------------------------------------------------------------------------


def test_the_corpora_are_small() -> None:
    files = [path for path in CORPORA.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 3 * 2**20
    assert len(files) <= 300


def test_the_readme_and_the_config_name_the_same_corpora() -> None:
    config = yaml.safe_load((EXAMPLES / "joint_training.yaml").read_text())
    assert sorted(readme_rows()) == sorted(entry["name"] for entry in config["datasets"])
    assert list(train_joint.TASKS) == [entry["name"] for entry in config["datasets"]]


@pytest.mark.parametrize("corpus", train_joint.TASKS)
def test_sample_counts_are_those_of_the_readme(corpus: str) -> None:
    said = re.match(r"(\d+) / (\d+) / (\d+)", readme_rows()[corpus][3])
    assert said is not None
    assert [len(opened(corpus, subset)) for subset in SUBSETS] == [int(n) for n in said.groups()]


@pytest.mark.parametrize("corpus", train_joint.TASKS)
def test_shapes_are_those_of_the_readme(corpus: str) -> None:
    storage, features, target, _ = readme_rows()[corpus]
    assert storage == ("npy folders" if (CORPORA / corpus).is_dir() else "HDF5")
    said = re.findall(r"`(\w+)` \((\d+)(?:…(\d+))?, (\d+)\)", f"{features} {target}")
    samples = [s for subset in SUBSETS for s in map(opened(corpus, subset).__getitem__, range(3))]
    assert said
    for key, least, most, width in said:
        lengths = np.concatenate([opened(corpus, s).sequence_lengths(key) for s in SUBSETS])
        assert (lengths.min(), lengths.max()) == (int(least), int(most or least))
        assert {sample[key].shape[1] for sample in samples} == {int(width)}
        assert {sample[key].dtype for sample in samples} == {torch.float32}


@pytest.mark.parametrize("corpus", ["japanese_vowels", "basic_motions"])
def test_every_class_stands_in_every_split(corpus: str) -> None:
    task = train_joint.TASKS[corpus]
    for subset in SUBSETS:
        dataset = opened(corpus, subset)
        labels = [int(dataset[i][task.target]) for i in range(len(dataset))]
        counts = np.bincount(labels, minlength=task.classes)
        assert len(counts) == task.classes
        assert counts.min() > 0
        assert subset == "test" or len(set(counts)) == 1


@pytest.mark.parametrize("corpus", train_joint.TASKS)
def test_no_sample_stands_in_two_splits(corpus: str) -> None:
    names = [set(opened(corpus, subset).sample_ids) for subset in SUBSETS]
    assert len(set.union(*names)) == sum(map(len, names))
    task = train_joint.TASKS[corpus]
    seen = set()
    for subset in SUBSETS:
        dataset = opened(corpus, subset)
        for i in range(len(dataset)):
            sample = dataset[i]
            seen.add(b"".join(sample[key].numpy().tobytes() for key in sorted(sample)))
    assert len(seen) == sum(map(len, names)), task


def test_daphnet_splits_follow_each_other_in_time() -> None:
    spans = {}
    for subset in SUBSETS:
        dataset = opened("daphnet", subset)
        starts = np.array([int(name.removeprefix("step-")) / 10 for name in dataset.sample_ids])
        spans[subset] = starts, starts + dataset.sequence_lengths("acceleration") / 10
    assert [(s.min(), e.max()) for s, e in spans.values()] == [(0, 66), (66, 88), (88, 110)]
    for subset in ("valid", "test"):
        starts, ends = spans[subset]
        np.testing.assert_allclose(starts[1:], ends[:-1])  # every step once


def test_daphnet_is_in_g() -> None:
    at_rest = opened("daphnet", "train")[0]["acceleration"]
    assert at_rest.norm(dim=1).mean().item() == pytest.approx(1, abs=0.05)


def test_stats_are_those_of_the_training_subsets() -> None:
    stored = json.loads((CORPORA / "stats.json").read_text())["datasets"]
    entries = yaml.safe_load((EXAMPLES / "joint_training.yaml").read_text())["datasets"]
    for entry in entries:
        dataset = opened(entry["name"], "train")
        specs = [*entry["schema"]["features"], *entry["schema"]["targets"]]
        keys = [spec["name"] for spec in specs if spec.get("dtype", "float32") == "float32"]
        assert sorted(stored[entry["name"]]["stats"]) == sorted(keys)
        for key in keys:
            steps = [np.atleast_2d(dataset[i][key].numpy()) for i in range(len(dataset))]
            values = np.concatenate(steps).astype(np.float64)
            figures = stored[entry["name"]]["stats"][key]
            np.testing.assert_allclose(np.ravel(figures["mean"]), values.mean(0), rtol=1e-5)
            np.testing.assert_allclose(np.ravel(figures["std"]), values.std(0), rtol=1e-5)


# -- model and losses ------------------------------------------------------------------------

TASKS = (
    Task(target="speaker", classes=9),
    Task(target="leg_acceleration", outputs=3),
    Task(target="sentiment"),
)


@pytest.fixture(scope="module")
def config() -> OmniConfig:
    return OmniConfig.from_file(EXAMPLES / "joint_training.yaml")


@pytest.fixture
def batch(config: OmniConfig) -> dict[str, torch.Tensor]:
    return next(iter(config.build_dataloader(training=True)))


@pytest.fixture
def model(config: OmniConfig) -> JointModel:
    torch.manual_seed(0)
    return JointModel(config.build_loader().schema, list(train_joint.TASKS.values())).eval()


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.target)
@pytest.mark.parametrize("placeholder", [-1, float("nan")])
def test_without_labels_loss_and_gradients_are_zero(task: Task, placeholder: float) -> None:
    shape = (4, 7) if task.outputs == 3 else (4,)
    prediction = torch.randn(*shape, task.classes or task.outputs, requires_grad=True)
    target = torch.full((*shape, 3) if task.outputs == 3 else shape, placeholder)
    if task.classes:
        target = torch.full(shape, -1)
    loss = masked_loss(task, prediction, target, torch.zeros(shape, dtype=torch.bool))
    loss.backward()
    assert loss.item() == 0
    assert prediction.grad is not None
    assert not prediction.grad.any()


def test_the_denominator_counts_real_labels_only() -> None:
    task = Task(target="sentiment")
    prediction, target = torch.tensor([[1.0], [5.0], [3.0]]), torch.tensor([0.0, -9.0, 1.0])
    loss = masked_loss(task, prediction, target, torch.tensor([True, False, True]))
    assert loss.item() == pytest.approx((1 + 4) / 2)


def test_the_denominator_of_a_sequence_counts_real_steps() -> None:
    task = Task(target="leg_acceleration", outputs=3)
    mask = torch.tensor([[True, True, False], [True, False, False]])
    target = torch.arange(18.0).reshape(2, 3, 3)
    wanted = target.square().mean(-1)[mask].mean()
    assert masked_loss(task, torch.zeros(2, 3, 3), target, mask).item() == pytest.approx(wanted)


def test_class_loss_is_cross_entropy_of_labelled_rows() -> None:
    logits = torch.tensor([[2.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    task = Task(target="speaker", classes=2)
    loss = masked_loss(task, logits, torch.tensor([0, -1, 1]), torch.tensor([True, False, True]))
    wanted = torch.nn.functional.cross_entropy(logits[[0, 2]], torch.tensor([0, 1]))
    assert loss.item() == pytest.approx(wanted.item())


def test_joint_loss_is_finite_when_a_batch_holds_one_corpus_only(
    config: OmniConfig, model: JointModel
) -> None:
    alone = next(iter(train_joint.only(config, "daphnet").build_dataloader(training=True)))
    assert set(alone["dataset"]) == {"daphnet"}
    tasks = list(train_joint.TASKS.values())
    loss = joint_loss(tasks, model(alone), alone)
    own = masked_loss(
        train_joint.TASKS["daphnet"],
        model(alone)["leg_acceleration"],
        alone["leg_acceleration"],
        alone["leg_acceleration_mask"],
    )
    loss.backward()
    assert loss.item() == own.item()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    assert not model.heads["speaker"].weight.grad.any()


def test_what_stands_under_a_false_mask_does_not_matter(
    batch: dict[str, torch.Tensor], model: JointModel
) -> None:
    garbled = dict(batch)
    for name in model.stems:
        hidden = ~batch[f"{name}_mask"][..., None]
        garbled[name] = batch[name].masked_fill(hidden, 1e3)
    for target, prediction in model(batch).items():
        other = model(garbled)[target]
        mask = batch[f"{target}_mask"]
        assert mask.any()
        torch.testing.assert_close(other[mask], prediction[mask], rtol=0, atol=0)


def test_more_padding_changes_nothing(batch: dict[str, torch.Tensor], model: JointModel) -> None:
    longer = dict(batch)
    for name in ("cepstrum", "cepstrum_mask"):
        rows = batch[name]
        longer[name] = torch.cat([rows, rows.new_zeros(len(rows), 10, *rows.shape[2:])], dim=1)
    mask = batch["speaker_mask"]
    torch.testing.assert_close(model(longer)["speaker"][mask], model(batch)["speaker"][mask])


def test_pooling_reads_real_steps_only() -> None:
    steps = torch.tensor([[[1.0], [-3.0], [99.0]], [[5.0], [5.0], [5.0]]])
    mask = torch.tensor([[True, True, False], [False, False, False]])
    assert masked_pool(steps, mask).tolist() == [[-1.0, 1.0], [0.0, 0.0]]


# -- scores and runs -------------------------------------------------------------------------


def test_scores_of_classes() -> None:
    logits = torch.eye(3)[[0, 0, 1, 1]]
    main, second = train_joint.score(
        Task(target="t", classes=3), logits, torch.tensor([0, 0, 0, 1])
    )
    assert second == 0.75
    assert main == pytest.approx((4 / 5 + 2 / 3) / 2)  # class 2 occurs nowhere and counts nowhere


def test_scores_of_a_regression() -> None:
    true = torch.tensor([0.0, 1.0, 2.0, 3.0])
    task = Task(target="t")
    assert train_joint.score(task, true[:, None], true) == pytest.approx((1, 1))
    mean = train_joint.score(task, torch.full((4, 1), 1.5), true)
    assert mean.main == 0
    assert mean.second is None


def test_a_run_alone_draws_what_the_mix_draws(config: OmniConfig) -> None:
    drawn = train_joint.mixed(config)
    steps = len(config.build_dataloader(training=True))
    assert sum(drawn.values()) == 198 + 28 + 57 + 60
    for corpus, count in drawn.items():
        loader = train_joint.only(config, corpus).build_dataloader(training=True)
        names = [name for batch in loader for name in batch["dataset"]]
        assert names == [corpus] * count
        assert len(loader) == steps


def test_training_is_the_same_each_time(config: OmniConfig) -> None:
    tasks = list(train_joint.TASKS.values())
    first, second = (train_joint.train(config, tasks, epochs=1).state_dict() for _ in range(2))
    assert all(torch.equal(value, second[name]) for name, value in first.items())


def test_the_demo_runs_and_writes_its_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    threads = torch.get_num_threads()
    argv = ["train_joint.py", "--epochs", "1", "--seeds", "1", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", argv)
    monkeypatch.setenv("COLUMNS", "160")
    try:
        train_joint.main()
    finally:
        torch.set_num_threads(threads)
    scores = json.loads((tmp_path / "joint_training.json").read_text())
    assert list(scores) == list(train_joint.TASKS)
    kinds = {f"{kind} {part}" for kind in ("joint", "single", "constant") for part in SUBSETS[1:]}
    assert all(set(own) == kinds for own in scores.values())
    assert scores["basic_motions"]["joint test"][0][1] > 0.4  # chance is 0.25
    shown = capsys.readouterr().out
    assert all(task.target in shown for task in train_joint.TASKS.values())
    assert shown.count("Joint training, ") == len(train_joint.TASKS)


def test_the_demo_refuses_to_train_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["train_joint.py", "--seeds", "0"])
    with pytest.raises(SystemExit, match="2"):
        train_joint.main()
    assert "--epochs and --seeds must be at least 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("single", "joint", "said"),
    [
        ([0.5, 0.6], [0.6, 0.7], "[green]helps (+0.100)[/]"),
        ([0.6, 0.7], [0.5, 0.6], "[red]hurts (-0.100)[/]"),
        ([0.6, 0.7], [0.5, 0.9], "no clear change (+0.050)"),
        ([0.60, 0.70], [0.61, 0.71], "no clear change (+0.010)"),
        ([-0.5, -0.4], [-0.3, -0.2], "no better than a guess"),
    ],
)
def test_verdicts(single: list[float], joint: list[float], said: str) -> None:
    own = {
        "single test": [train_joint.Scores(score, 0) for score in single],
        "joint test": [train_joint.Scores(score, 0) for score in joint],
        "constant test": [train_joint.Scores(0.0, 0)],
    }
    assert train_joint.verdict(own) == said

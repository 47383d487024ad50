"""Passes on a Ray cluster of several nodes, started and stopped here: the figures are the local."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from omniloader import (
    DatasetSchema,
    DictTensorDataset,
    OmniLoader,
    TensorSpec,
    class_histogram,
    compute_stats,
    validate,
)
from omniloader.cli import main
from omniloader.errors import ConfigError, EngineError, SampleError
from omniloader.integrations.ray import RayEngine
from omniloader.introspection import describe
from omniloader.transforms.stats import compute_dataset_stats

ray = pytest.importorskip("ray", reason="the extra [ray] is not installed")

# Ray's own advice about its versions, hardware and file handles.
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SCHEMA = DatasetSchema(
    [TensorSpec("x", feature_dim=3, time_dim=9)], [TensorSpec("label", dtype=torch.int64)]
)


class Ragged:
    """A source that only has ``ds[i]``; some sample may kill or delay the process that reads it."""

    def __init__(self, size: int, folder: Path | None = None, deadly: int = -1) -> None:
        self.size = size
        self.folder = folder
        self.deadly = deadly
        self.always = False
        self.pause = 0.0

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> dict[str, Any]:
        time.sleep(self.pause)
        if index == self.deadly:
            self._die()
        steps = index % 9
        value = np.arange(steps * 3, dtype=np.float32).reshape(steps, 3) + index
        return {"x": value, "label": np.int64(index % 4)}

    def _die(self) -> None:
        """Kill this process, the first time or each time, and leave a mark."""
        assert self.folder is not None
        mark = self.folder / f"read_by_{os.getpid()}"
        if self.always or not any(self.folder.iterdir()):
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)


class Here:
    """An engine that cuts as a cluster of three CPUs does, and computes here."""

    slots = 3

    def compute(self, parts: Any) -> Iterator[Any]:
        return (parts[index] for index in range(len(parts)))


def tensors(size: int) -> DictTensorDataset:
    generator = torch.Generator().manual_seed(size)
    return DictTensorDataset(
        {
            "x": torch.randn(size, 9, 3, generator=generator),
            "label": torch.randint(4, (size,), generator=generator),
        }
    )


def mix(ragged: Ragged | None = None) -> OmniLoader:
    sources = [tensors(700), Ragged(300) if ragged is None else ragged]
    return OmniLoader(sources, [SCHEMA, SCHEMA], names=["tensors", "ragged"])


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head and two more nodes of one CPU each, and this process connected to them."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    # Sources defined in this file travel by value: no node can import a test module.
    import sys

    from ray.cluster_utils import Cluster

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    for _ in range(2):
        made.add_node(num_cpus=1)
    made.wait_for_nodes()
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture
def engine(cluster: Any) -> Iterator[RayEngine]:
    with RayEngine() as made:
        yield made


def test_the_cluster_has_three_nodes_and_the_engine_joins_it(engine: RayEngine) -> None:
    assert sum(node["Alive"] for node in ray.nodes()) == 3
    assert engine.slots == 3
    engine.close()
    assert ray.is_initialized()  # not started by the engine, so not stopped by it
    with pytest.raises(EngineError, match=r"already connected to .*, got the address 'other:1'"):
        RayEngine("other:1")


def test_statistics_are_those_of_the_local_passes(engine: RayEngine) -> None:
    far = compute_stats(mix(), ["x"], workers=engine)["x"]
    near = compute_stats(mix(), ["x"])["x"]
    split = compute_stats(mix(), ["x"], workers=Here())["x"]
    for figure, value in far.items():
        assert torch.equal(value, split[figure])
        torch.testing.assert_close(value, near[figure], rtol=1e-9, atol=1e-12)
    apart = compute_dataset_stats(mix(), ["x"], workers=engine)
    assert list(apart) == ["tensors", "ragged"]
    assert apart["ragged"]["x"]["max"].tolist() == [317.0, 318.0, 319.0]


def test_class_counts_are_those_of_the_local_pass(engine: RayEngine) -> None:
    counts = class_histogram(mix(), "label", workers=engine)
    assert counts.tolist() == class_histogram(mix(), "label").tolist()
    assert counts.sum() == 1000


def test_lengths_are_those_of_the_local_pass(engine: RayEngine) -> None:
    far, near = mix().sequence_lengths("x", engine), mix().sequence_lengths("x")
    assert far.tolist() == near.tolist() == [9] * 700 + [i % 9 for i in range(300)]
    assert mix().sequence_lengths("x", 2).tolist() == near.tolist()


def test_reports_are_those_of_the_local_pass(engine: RayEngine) -> None:
    for look in (validate, describe):
        far = look(mix(), None, num_workers=engine)
        assert far.to_json() == look(mix(), None).to_json()


def test_an_error_of_a_part_is_its_own_and_names_the_sample(engine: RayEngine) -> None:
    labels = torch.arange(50) % 4
    labels[17] = -3
    broken = DictTensorDataset({"x": torch.zeros(50, 9, 3), "label": labels})
    omni = OmniLoader([tensors(30), broken], [SCHEMA, SCHEMA], names=["good", "broken"])
    with pytest.raises(ValueError, match=r"sample 47 of 'broken' .*class ids from 0 .*got -3"):
        class_histogram(omni, "label", workers=engine)
    with pytest.raises(SampleError, match="the data does not fit its schemas"):
        validate(
            OmniLoader([broken], [DatasetSchema([TensorSpec("x", feature_dim=4, time_dim=9)])]),
            None,
            strict=True,
            num_workers=engine,
        )


def test_a_pass_over_nothing(engine: RayEngine) -> None:
    assert list(engine.compute([])) == []


def test_a_lost_worker_is_replaced(engine: RayEngine, tmp_path: Path) -> None:
    deadly = Ragged(300, tmp_path, deadly=123)
    counts = class_histogram(mix(deadly), "label", workers=engine)
    assert len(list(tmp_path.iterdir())) == 1  # it was killed, once
    assert counts.tolist() == class_histogram(mix(), "label").tolist()


def test_a_part_that_always_kills_its_worker_is_given_up(cluster: Any, tmp_path: Path) -> None:
    deadly = Ragged(300, tmp_path, deadly=123)
    deadly.always = True
    with (
        RayEngine(max_retries=1) as engine,
        pytest.raises(EngineError, match=r"part \d+ of 12 was given up .* lost 2 times"),
    ):
        class_histogram(mix(deadly), "label", workers=engine)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_lost_node_is_survived(cluster: Any, engine: RayEngine) -> None:
    slow = Ragged(300)
    slow.pause = 0.02
    node = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    killer = threading.Timer(1.5, cluster.remove_node, (node,), {"allow_graceful": False})
    killer.start()
    counts = class_histogram(mix(slow), "label", workers=engine)
    killer.join()
    assert counts.tolist() == class_histogram(mix(), "label").tolist()
    while sum(entry["Alive"] for entry in ray.nodes()) > 3:  # the head notices a little later
        time.sleep(0.1)


# -- the command line --------------------------------------------------------------------------

CORPORA = Path(__file__).parents[4] / "examples" / "joint_training.yaml"


def printed(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    assert main([*argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    "argv",
    [
        ("validate", str(CORPORA), "--all"),
        ("class-weights-for-loss", str(CORPORA), "--target", "speaker"),
        ("lengths", str(CORPORA), "--key", "acceleration"),
    ],
    ids=lambda argv: argv[0],
)
def test_commands_print_the_same_with_ray(
    cluster: Any, capsys: pytest.CaptureFixture[str], argv: tuple[str, ...]
) -> None:
    assert printed(capsys, *argv, "--engine", "ray") == printed(capsys, *argv)


def test_compute_stats_prints_the_same_with_ray(
    cluster: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ("compute-stats", str(CORPORA), "--keys", "cepstrum")
    far = printed(capsys, *argv, "--engine", "ray")["cepstrum"]
    near = printed(capsys, *argv)["cepstrum"]
    for figure, value in far.items():
        np.testing.assert_allclose(value, near[figure], rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--engine", "rya"), "--engine: unknown engine 'rya', did you mean 'ray'?"),
        (("--address", "auto"), "--address auto: needs --engine ray"),
        (("--engine", "ray", "--workers", "2"), "--workers 2: is for --engine local"),
    ],
)
def test_options_that_contradict_each_other(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...], text: str
) -> None:
    assert main(["validate", str(CORPORA), *options]) == 2
    assert text in capsys.readouterr().err


def test_no_cluster_at_the_address_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(EngineError, match=r"no Ray cluster can be reached at '127\.0\.0\.1:1'"):
        RayEngine("127.0.0.1:1")


def test_a_cluster_of_its_own_is_stopped_with_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    running = [False]
    monkeypatch.setattr(ray, "is_initialized", lambda: running[0])
    monkeypatch.setattr(ray, "init", lambda **options: calls.append(options["address"]))
    monkeypatch.setattr(ray, "shutdown", lambda: calls.append("shutdown"))
    with RayEngine():
        running[0] = True
    assert calls == [None, "shutdown"]


def test_retries_must_be_a_number() -> None:
    with pytest.raises(ConfigError, match="max_retries must be a whole number of at least 0"):
        RayEngine(max_retries=-1)


def test_without_ray_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    assert main(["validate", str(CORPORA), "--engine", "ray"]) == 2
    assert "RayEngine needs Ray; pip install 'omniloader[ray]'" in capsys.readouterr().err

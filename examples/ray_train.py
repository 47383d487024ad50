"""Train on a Ray cluster: statistics as Ray tasks, then workers of Ray Train.

    pip install 'omniloader[ray]' 'ray[train]'
    python examples/ray_train.py --workers 2

Each worker of Ray Train is a rank of ``torch.distributed``, which is where the loader takes its
share from: nothing of omniloader has to know about Ray. Reports and checkpoints go through Ray
Train, with the loader's state in them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import ray
import torch
from torch.nn.parallel import DistributedDataParallel

from omniloader import OmniConfig, compute_stats, seed_everything
from omniloader.integrations.ray import RayEngine

HERE = Path(__file__).resolve().parent


def train_rank(settings: dict[str, Any]) -> None:
    """One rank. Ray Train has joined the processes and gives each its device."""
    from ray import train

    sys.path.insert(0, settings["examples"])  # on each node; a package of yours needs no such line
    from joint_model import JointModel, joint_loss
    from train_joint import CONFIG, TASKS

    world = train.get_context().get_world_size()
    config = OmniConfig.from_file(CONFIG).replace(batch_size=settings["global_batch"] // world)
    loader = config.build_dataloader()
    tasks = list(TASKS.values())
    seed_everything(config.seed)
    model = DistributedDataParallel(JointModel(loader.dataset.schema, tasks))
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    first = 0
    saved = train.get_checkpoint()
    if saved is not None:  # Ray Train starts anew after a lost node
        with saved.as_directory() as folder:
            state = torch.load(Path(folder) / "state.pt", weights_only=True)
        model.module.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])
        loader.load_state_dict(state["loader"])
        first = state["loader"]["epoch"]
    for epoch in range(first, settings["epochs"]):
        loader.set_epoch(epoch)
        seen = 0
        for batch in loader:
            optimiser.zero_grad()
            loss = joint_loss(tasks, model(batch), batch)
            loss.backward()
            optimiser.step()
            seen += len(batch["index"])
        with tempfile.TemporaryDirectory() as folder:
            state = {"model": model.module.state_dict(), "optimiser": optimiser.state_dict()}
            torch.save({**state, "loader": loader.state_dict()}, Path(folder) / "state.pt")
            checkpoint = train.Checkpoint.from_directory(folder)
            train.report({"epoch": epoch, "samples": seen}, checkpoint=checkpoint)


def statistics() -> None:
    """Mean of a feature over the whole mix, read by tasks of the cluster."""
    omni = OmniConfig.from_file(HERE / "joint_training.yaml").replace(transforms=[]).build_loader()
    with RayEngine() as engine:
        figures = compute_stats(omni, ["cepstrum"], workers=engine)["cepstrum"]
    print("mean of the first cepstral coefficient:", f"{figures['mean'][0].item():.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2, help="ranks")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--global-batch", type=int, default=32, help="samples a step, all ranks")
    options = parser.parse_args()
    ray.init(log_to_driver=False)  # the cluster of RAY_ADDRESS, else one on this machine
    statistics()
    from ray.train import ScalingConfig
    from ray.train.torch import TorchTrainer

    settings = {
        "epochs": options.epochs,
        "global_batch": options.global_batch,
        "examples": str(HERE),
    }
    scaling = ScalingConfig(num_workers=options.workers, use_gpu=torch.cuda.is_available())
    result = TorchTrainer(train_rank, train_loop_config=settings, scaling_config=scaling).fit()
    print("last report of rank 0:", result.metrics)
    ray.shutdown()


if __name__ == "__main__":
    main()

"""Train on several processes with plain PyTorch, and go on exactly where a run was stopped.

    torchrun --nproc-per-node 2 examples/torchrun_train.py --checkpoint out/run.pt

Stop it at any moment (Ctrl-C, ``kill -9``, a lost node) and run it again, with another number of
processes too: it takes up the last checkpoint and trains on the batches that were to come next.
``--global-batch`` samples a step are shared out, so the steps are the same for any world size.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from joint_model import JointModel, joint_loss
from torch.nn.parallel import DistributedDataParallel
from train_joint import CONFIG, TASKS

from omniloader import OmniConfig, seed_everything


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--global-batch", type=int, default=32, help="samples a step, all ranks")
    parser.add_argument("--workers", type=int, default=0, help="reading processes of each rank")
    parser.add_argument("--checkpoint", type=Path, help="written every few steps, and gone on from")
    parser.add_argument("--every", type=int, default=5, help="steps between two checkpoints")
    parser.add_argument("--record", type=Path, help="one JSON line a step and rank")
    return parser.parse_args()


def save(path: Path, state: dict[str, Any]) -> None:
    """Replace the checkpoint in one go: a kill leaves the old or the new one, never half."""
    torch.save(state, path.with_suffix(".part"))
    path.with_suffix(".part").replace(path)


def train(options: argparse.Namespace) -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    config = OmniConfig.from_file(CONFIG).replace(
        batch_size=options.global_batch // world, num_workers=options.workers
    )
    loader = config.build_dataloader()  # rank and world size come from torch.distributed
    tasks = list(TASKS.values())
    seed_everything(config.seed)
    model = DistributedDataParallel(JointModel(loader.dataset.schema, tasks))
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    first = step = 0
    if options.checkpoint and options.checkpoint.exists():
        saved = torch.load(options.checkpoint, weights_only=True)
        model.module.load_state_dict(saved["model"])
        optimiser.load_state_dict(saved["optimiser"])
        loader.load_state_dict(saved["loader"])
        first, step = saved["loader"]["epoch"], saved["step"]
    for epoch in range(first, options.epochs):
        loader.set_epoch(epoch)
        for batch in loader:
            # Dropout drawn by step: it needs no state in the checkpoint.
            torch.manual_seed(step * world + rank)
            loss = joint_loss(tasks, model(batch), batch)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            step += 1
            if options.record:
                line = {"step": step, "epoch": epoch, "rank": rank, "loss": loss.item()}
                with options.record.open("a") as file:
                    file.write(json.dumps(line | {"index": batch["index"].tolist()}) + "\n")
            if options.checkpoint and step % options.every == 0 and rank == 0:
                state = {"model": model.module.state_dict(), "optimiser": optimiser.state_dict()}
                save(options.checkpoint, {**state, "loader": loader.state_dict(), "step": step})
        if rank == 0:
            print(f"epoch {epoch}: step {step}, last loss {loss.item():.4f}", flush=True)
    evaluate(model.module.eval(), config)


@torch.no_grad()
def evaluate(model: JointModel, config: OmniConfig) -> None:
    """Every sample once over all ranks; ranks may differ by one batch, so they meet at the end."""
    sums = torch.zeros(2, dtype=torch.float64)
    for batch in config.build_dataloader(training=False):
        loss = joint_loss(list(TASKS.values()), model(batch), batch)
        sums += torch.tensor([loss.item(), 1.0]) * len(batch["index"])
    dist.all_reduce(sums)
    if dist.get_rank() == 0:
        print(f"evaluated {int(sums[1])} samples, mean loss {float(sums[0] / sums[1]):.4f}")


def main() -> None:
    options = arguments()
    if "RANK" not in os.environ:  # started by plain python: a world of one
        os.environ |= {
            "RANK": "0",
            "WORLD_SIZE": "1",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "0",
        }
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(options)
    # A rank that leaves while the other still talks to it takes gloo's threads down mid-call, and
    # the model's hooks hold on to the group: meet, let go of them, then leave.
    dist.barrier()
    gc.collect()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

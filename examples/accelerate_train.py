"""Train with Accelerate: the loader shares out by itself and is a part of the checkpoint.

    accelerate launch --cpu --num_processes 2 examples/accelerate_train.py --checkpoint out/run

Accelerate leaves a loader of a config as it is (sharing it out a second time would lose samples),
so move batches to the device yourself, and register the loader for checkpoints.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import send_to_device
from joint_model import JointModel, joint_loss
from train_joint import CONFIG, TASKS

from omniloader import OmniConfig, seed_everything


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--global-batch", type=int, default=32, help="samples a step, all ranks")
    parser.add_argument("--checkpoint", type=Path, help="a folder, gone on from if it is there")
    parser.add_argument("--stop-after", type=int, help="steps after which to save and stop")
    parser.add_argument("--record", type=Path, help="one JSON line a step and rank")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    config = OmniConfig.from_file(CONFIG)
    config = config.replace(batch_size=options.global_batch // accelerator.num_processes)
    loader = config.build_dataloader()
    tasks = list(TASKS.values())
    seed_everything(config.seed)
    model = JointModel(loader.dataset.schema, tasks)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimiser, loader = accelerator.prepare(model, optimiser, loader)
    accelerator.register_for_checkpointing(loader)
    first = steps = 0
    if options.checkpoint and options.checkpoint.exists():
        accelerator.load_state(str(options.checkpoint))
        first = loader.state_dict()["epoch"]
    for epoch in range(first, options.epochs):
        loader.set_epoch(epoch)
        for batch in loader:
            batch = send_to_device(batch, accelerator.device)
            loss = joint_loss(tasks, model(batch), batch)
            optimiser.zero_grad()
            accelerator.backward(loss)
            optimiser.step()
            steps += 1
            if options.record:
                line = {"epoch": epoch, "rank": accelerator.process_index}
                with options.record.open("a") as file:
                    file.write(json.dumps(line | {"index": batch["index"].tolist()}) + "\n")
            if steps == options.stop_after:
                accelerator.save_state(str(options.checkpoint))
                accelerator.end_training()
                return
        accelerator.print(f"epoch {epoch}: {steps} steps, last loss {loss.item():.4f}")
    accelerator.end_training()


if __name__ == "__main__":
    main()

"""Run by ``test_lightning_processes.py``: a small fit over some processes, which record batches.

python lightning_run.py FOLDER PROCESSES BATCH_SIZE [CHECKPOINT]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from omniloader.config import OmniConfig
from omniloader.data.memory import DictTensorDataset
from omniloader.integrations.lightning import OmniDataModule
from omniloader.schema.spec import DatasetSchema, TensorSpec

SCHEMA = DatasetSchema(features=[TensorSpec("x", feature_dim=2)])


def split(*sizes: int) -> Any:
    return [DictTensorDataset({"x": torch.ones(n, 2)}) for n in sizes], [SCHEMA] * len(sizes)


class Recorder(lightning.LightningModule):
    """Writes the indices of its batches to a file of its rank."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = folder
        self.layer = torch.nn.Linear(2, 1)

    def _keep(self, stage: str, batch: Any) -> None:
        path = Path(self.folder) / f"{stage}-{self.global_rank}.jsonl"
        with path.open("a") as file:
            file.write(json.dumps([int(batch["epoch"][0]), batch["index"].tolist()]) + "\n")

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        self._keep("train", batch)
        return self.layer(batch["x"]).mean()

    def validation_step(self, batch: Any, index: int) -> None:
        self._keep("valid", batch)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main(folder: str, processes: int, batch_size: int, checkpoint: str | None) -> None:
    config = OmniConfig(seed=3, batch_size=batch_size, strategy="temperature")
    data = OmniDataModule(config, train=split(17, 7), valid=split(5, 2))
    saved = ModelCheckpoint(Path(folder), filename="step", every_n_train_steps=3, save_top_k=1)
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=processes,
        strategy="ddp_spawn" if processes > 1 else "auto",
        use_distributed_sampler=False,
        max_epochs=2,
        max_steps=-1 if checkpoint else 3,
        logger=False,
        callbacks=[saved],
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        default_root_dir=folder,
    )
    trainer.fit(Recorder(folder), datamodule=data, ckpt_path=checkpoint)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *(sys.argv[4:] or [None]))

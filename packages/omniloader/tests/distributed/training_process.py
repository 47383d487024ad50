"""Run by ``test_worker_hygiene.py``: a loader with workers, until a signal ends the process."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch

from omniloader import DatasetSchema, OmniConfig, TensorSpec


class Threads:
    """Every sample says in which process it was read, and with how many threads of torch."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"threads": torch.tensor(torch.get_num_threads())}


def main() -> None:
    schema = DatasetSchema([TensorSpec("threads", dtype=torch.int64)])
    config = OmniConfig(batch_size=4, num_workers=2, persistent_workers=True)
    loader = config.build_dataloader([Threads()], [schema])
    print(json.dumps([batch["threads"].tolist() for batch in loader]), flush=True)
    loader.set_epoch(1)
    batches = iter(loader)
    next(batches)
    print("in the middle of an epoch", flush=True)
    if sys.argv[1:] == ["wait"]:
        time.sleep(60)


if __name__ == "__main__":
    main()

"""One file describes a run: declare (``model``), parse (``load``), assemble (``build``)."""

from omniloader.config.dataloader import OmniDataLoader
from omniloader.config.families import COLLATES
from omniloader.config.omni import OmniConfig
from omniloader.sampling.strategies import STRATEGIES
from omniloader.utils.seeding import seed_everything

__all__ = ["COLLATES", "STRATEGIES", "OmniConfig", "OmniDataLoader", "seed_everything"]

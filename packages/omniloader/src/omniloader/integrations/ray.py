"""Ray: passes over data that is too large for one machine (extra ``[ray]``).

:class:`RayEngine` is given as ``workers`` to ``compute_stats``, ``compute_dataset_stats``,
``class_histogram``, ``class_weights_for_loss``, ``validate``, ``describe`` and
``OmniLoader.sequence_lengths``; on the command line it is ``--engine ray``.
"""

from __future__ import annotations

from omniloader.utils.cluster import RayEngine

__all__ = ["RayEngine"]

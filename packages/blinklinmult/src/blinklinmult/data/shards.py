"""A corpus built clip by clip, so that a build of a day can stop and go on."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

import h5py

from blinklinmult.data.attributes import file_attributes, read_attributes
from blinklinmult.data.spec import DatasetSpec
from blinklinmult.data.tallies import Tallies, tallies_from_json
from blinklinmult.data.writer import STATISTICS, H5Writer
from blinklinmult.errors import WriterError
from omniloader._types import PathLike

logger = logging.getLogger(__name__)

# A shard of an earlier day or commit is as good as one of today.
_MAY_DIFFER = ("created_utc", "git_sha")


class ShardedBuild:
    """One shard a clip under ``shards/`` beside the file, merged at the end.

    ::

        build = ShardedBuild(spec, path, config_yaml=text)
        for clip in clips:
            if not build.is_done(clip):
                with build.writer(clip) as writer:
                    ...
        build.merge(clips)

    Args:
        spec: The corpus.
        h5_path: The file that the shards become.
        config_yaml: The config it is built with; shards of another one are refused.
        git_sha: The commit it is built with.
    """

    def __init__(
        self,
        spec: DatasetSpec,
        h5_path: PathLike,
        config_yaml: str = "",
        git_sha: str = "unknown",
    ) -> None:
        self.spec = spec
        self.path = Path(h5_path)
        self._config_yaml = config_yaml
        self._git_sha = git_sha

    def shard_path(self, clip: str) -> Path:
        """Path of a clip's shard.

        Raises:
            WriterError: If the clip's name is no plain file name.
        """
        if not clip or clip.startswith(".") or Path(clip).name != clip:
            raise WriterError(
                f"corpus '{self.spec.name}': a clip's name must be a plain file name, got {clip!r}"
            )
        return self.path.parent / "shards" / f"{clip}.h5"

    def is_done(self, clip: str) -> bool:
        """Whether the clip's shard is there, whole and of this build.

        Raises:
            WriterError: If it is of another corpus declaration or config.
        """
        path = self.shard_path(clip)
        if not path.exists():
            return False
        with h5py.File(path, "r") as file:
            self._check(file, path)
        return True

    def writer(self, clip: str) -> H5Writer:
        """A writer of the clip's shard."""
        return H5Writer(self.spec, self.shard_path(clip), self._config_yaml, self._git_sha)

    def merge(self, clips: Iterable[str]) -> Tallies:
        """Make the corpus file of the shards, without decoding them; the shards stay.

        Args:
            clips: All clips of the corpus.

        Returns:
            Counts by subset.

        Raises:
            WriterError: If a shard is missing or of another build, or two hold one sample.
        """
        paths = {clip: self.shard_path(clip) for clip in clips}
        missing = [clip for clip, path in paths.items() if not path.exists()]
        if missing:
            raise WriterError(
                f"corpus '{self.spec.name}': {len(missing)} of {len(paths)} shards are missing, "
                f"the first is '{missing[0]}'; run the build again, it goes on where it stopped"
            )
        with H5Writer(self.spec, self.path, self._config_yaml, self._git_sha) as writer:
            for path in paths.values():
                with h5py.File(path, "r") as file:
                    self._check(file, path)
                    writer.copy_from(file, tallies_from_json(file.attrs[STATISTICS]))
        logger.info("corpus '%s': merged %d shards into %s", self.spec.name, len(paths), self.path)
        return writer.statistics

    def _check(self, file: h5py.File, path: Path) -> None:
        found = read_attributes(file)
        for name, wanted in file_attributes(self.spec, self._config_yaml, self._git_sha).items():
            if name not in _MAY_DIFFER and found.get(name) != wanted:
                raise WriterError(
                    f"corpus '{self.spec.name}': shard '{path}' is of another build: {name} must "
                    f"be {wanted!r}, got {found.get(name)!r}; delete the shard, or build with the "
                    "old settings"
                )

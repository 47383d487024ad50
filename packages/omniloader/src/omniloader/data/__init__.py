"""Where samples come from: adapters of files and memory, sources, and splits."""

from omniloader.data.convert import to_columnar
from omniloader.data.datasets import (
    ColumnarDataset,
    DictTensorDataset,
    HDF5Dataset,
    NpyFolderDataset,
)
from omniloader.data.factory import (
    ADAPTERS,
    build_dataset,
    build_datasets,
    build_sources,
    register_adapter,
    schema_from_dict,
)
from omniloader.data.source import Source, make_sources
from omniloader.data.splits import SplitInfo, load_split_info, save_split_info, split_indices

__all__ = [
    "ADAPTERS",
    "ColumnarDataset",
    "DictTensorDataset",
    "HDF5Dataset",
    "NpyFolderDataset",
    "Source",
    "SplitInfo",
    "build_dataset",
    "build_datasets",
    "build_sources",
    "load_split_info",
    "make_sources",
    "register_adapter",
    "save_split_info",
    "schema_from_dict",
    "split_indices",
    "to_columnar",
]

"""All dataset adapters under one import path."""

from omniloader.data.columnar import ColumnarDataset
from omniloader.data.hdf5 import HDF5Dataset
from omniloader.data.memory import DictTensorDataset
from omniloader.data.npy import NpyFolderDataset

__all__ = ["ColumnarDataset", "DictTensorDataset", "HDF5Dataset", "NpyFolderDataset"]

import h5py
import numpy as np
import pytest

from omniloader import DatasetSchema, HDF5Dataset, OmniLoader, TensorSpec

SCHEMA = DatasetSchema([TensorSpec("x", feature_dim=2, time_dim=4)])


@pytest.fixture
def write(tmp_path):
    def build(fill):
        path = tmp_path / "a.h5"
        with h5py.File(path, "w") as file:
            # Opening looks at the first sample; trouble lies in the second.
            first = file.create_group("train/s0")
            first.create_dataset(
                "x", data=np.zeros((4, 2), "f2"), chunks=(2, 2), compression="gzip", shuffle=True
            )
            first["y"] = 1.0
            first.create_group("more")
            group = file.create_group("train/s1")
            group["y"] = 1.0
            group.create_group("more")
            fill(group)
        return OmniLoader([HDF5Dataset(path, "train")], [SCHEMA])

    return build


def errors(omni):
    return [finding.text for finding in omni.validate().errors]


def test_dtype_chunks_and_filters_are_told(write):
    storage = write(lambda group: None).describe().sources[0].storage
    assert storage["keys"] == {"x": "float16, chunks (2, 2), gzip 4, shuffle", "y": "float64"}
    assert storage["bytes"] > 0


@pytest.mark.parametrize(
    ("link", "target"),
    [(h5py.SoftLink("/gone"), "/gone"), (h5py.ExternalLink("gone.h5", "/x"), "gone.h5")],
)
def test_a_link_that_leads_nowhere(write, link, target):
    def fill(group):
        group["x"] = link

    assert f"'/train/s1/x' is a link to '{target}', which is not there" in errors(write(fill))


def test_a_virtual_dataset_whose_source_is_gone(write):
    def fill(group):
        layout = h5py.VirtualLayout(shape=(4, 2), dtype="f4")
        layout[:] = h5py.VirtualSource("gone.h5", "x", shape=(4, 2))
        group.create_virtual_dataset("x", layout)

    assert errors(write(fill)) == [
        "'/train/s1/x' has its data in 'gone.h5', which is not there: it would read as fill values"
    ]


def test_a_virtual_dataset_whose_source_is_there(write, tmp_path):
    with h5py.File(tmp_path / "there.h5", "w") as file:
        file["x"] = np.ones((4, 2), np.float32)

    def fill(group):
        layout = h5py.VirtualLayout(shape=(4, 2), dtype="f4")
        layout[:] = h5py.VirtualSource("there.h5", "x", shape=(4, 2))
        group.create_virtual_dataset("x", layout)

    assert errors(write(fill)) == []


def test_external_data_that_is_gone(write):
    def fill(group):
        group.create_dataset("x", (4, 2), "f4", external=[("gone.bin", 0, 32)])

    assert any(
        "has its data in 'gone.bin', which is not there" in text for text in errors(write(fill))
    )

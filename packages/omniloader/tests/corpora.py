"""Two small corpora on disk that annotate different things, and a config over them."""

import h5py
import numpy as np
import yaml

AUDIO, MOTION = 8, 3

SPEECH = {
    "name": "speech",
    "adapter": "hdf5",
    "path": "data/speech.h5",
    "subset": "train",
    "eval": {"subset": "valid"},
    "schema": {
        "features": [{"name": "audio", "feature_dim": AUDIO, "time_dim": 12}],
        "targets": [{"name": "emotion", "dtype": "int64", "placeholder": -1}],
    },
}
SENSORS = {
    "name": "sensors",
    "adapter": "npy",
    "path": "data/sensors",
    "subset": "train",
    "eval": {"subset": "valid"},
    "schema": {
        "features": [{"name": "motion", "feature_dim": MOTION, "time_dim": 6}],
        "targets": [{"name": "effort", "time_dim": 6, "placeholder": -5.0}],
    },
}


def write_corpora(folder, speech=20, sensors=8):
    """Write both corpora below ``folder / "data"``; lengths and labels follow the number."""
    rng = np.random.default_rng(0)
    (folder / "data").mkdir(parents=True)
    with h5py.File(folder / "data/speech.h5", "w") as file:
        for subset, count in (("train", speech), ("valid", 5)):
            for number in range(count):
                group = file.create_group(f"{subset}/s{number:03}")
                steps = 5 + number % 8
                group["audio"] = rng.normal(size=(steps, AUDIO)).astype(np.float32)
                group["emotion"] = np.int64(number % 4)
    for subset, count in (("train", sensors), ("valid", 3)):
        for number in range(count):
            sample = folder / f"data/sensors/{subset}/m{number:03}"
            sample.mkdir(parents=True)
            np.save(sample / "motion.npy", rng.normal(size=(6, MOTION)).astype(np.float32))
            np.save(sample / "effort.npy", rng.normal(size=6).astype(np.float32))


def write_config(folder, **changes):
    """Write ``config.yaml`` over the corpora; returns its path."""
    values = {"batch_size": 4, "datasets": [SPEECH, SENSORS], **changes}
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(values, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return path

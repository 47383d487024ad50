"""A corpus from a video and its annotation."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from blinklinmult.data.corpus import check_file, open_corpus
from blinklinmult.data.spec import DatasetSpec
from blinklinmult.errors import SourceVideoError
from blinklinmult.video.tags import read_tags
from blinklinmult.video.talkingface import build_talkingface
from omniloader.config.load import read_yaml

cv2 = pytest.importorskip("cv2")

FRAMES, FPS = 50, 10.0
LEFT, RIGHT = (40, 30), (90, 30)  # middle of each eye; corners are 10 pixels to both sides
CLOSED = range(12, 15)
BLINK = range(10, 17)
LOST = 20


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grey face; the left eye is red, the right one blue, and both are green when closed."""
    path = tmp_path_factory.mktemp("video") / "talking.avi"
    out = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), FPS, (128, 64))
    for frame in range(FRAMES):
        image = np.full((64, 128, 3), 128, dtype=np.uint8)
        for (x, y), colour in ((LEFT, (0, 0, 255)), (RIGHT, (255, 0, 0))):
            shade = (0, 255, 0) if frame in CLOSED else colour
            cv2.rectangle(image, (x - 12, y - 12), (x + 12, y + 12), shade, -1)
        out.write(image)
    out.release()
    return path


def row(frame: int, **changes: str) -> str:
    values = {
        "blink": "3" if frame in BLINK else "-1",
        "closed": "C" if frame in CLOSED else "X",
        "left_seen": "N" if frame == 30 else "X",
        "right": f"{RIGHT[0] - 10}:{RIGHT[1]}:{RIGHT[0] + 10}:{RIGHT[1]}",
        **changes,
    }
    left = f"{LEFT[0] - 10}:{LEFT[1]}:{LEFT[0] + 10}:{LEFT[1]}"
    return (
        f"{frame}:{values['blink']}:X:{values['closed']}:{values['left_seen']}:"
        f"{values['closed']}:X:0:0:128:64:{left}:{values['right']}"
    )


@pytest.fixture(scope="module")
def tag(video: Path) -> Path:
    rows = [row(frame) for frame in range(FRAMES) if frame != LOST]
    path = video.with_suffix(".tag")
    path.write_text("\n".join(["#frameNumber...", "some: header", "#start", *rows, "#end", "x"]))
    return path


def test_the_annotation_is_read_per_frame_and_eye(tag: Path) -> None:
    track = read_tags(tag, FRAMES)
    assert track.blink_ids[[0, 10, 16, 17, LOST]].tolist() == [-1, 3, 3, -1, -2]
    assert np.flatnonzero(track.closed["left"]).tolist() == list(CLOSED)
    assert np.flatnonzero(~track.visible["left"]).tolist() == [LOST, 30]
    assert np.flatnonzero(~track.visible["right"]).tolist() == [LOST]
    assert track.corners["right"][5].tolist() == [[80, 30], [100, 30]]


def test_a_corpus_comes_out_with_crops_and_labels_of_both_eyes(
    video: Path, tag: Path, tmp_path: Path
) -> None:
    output = tmp_path / "talkingface.h5"
    spec, tallies = build_talkingface(video, tag, output, image_size=16, window_seconds=1.0)
    assert (spec.fps, spec.time_dim) == (10.0, 10)
    declared = read_yaml(output.with_name("talkingface.yaml")).values
    assert DatasetSpec.from_dict(declared) == spec
    check_file(spec, output, "")
    samples = {name: open_corpus(spec, output, name) for name in ("train", "valid", "test")}
    keys = {name: sorted(data.sample_ids) for name, data in samples.items()}
    assert keys["train"][:2] == ["talking|000000|left", "talking|000000|right"]
    assert [key for key in keys["train"] if key.endswith("left")] == [
        f"talking|{start:06d}|left" for start in (0, 5, 10, 15, 20)
    ]
    assert keys["valid"] == [f"talking|000030|{side}" for side in ("left", "right")]
    assert tallies["train"].samples == 10
    train = {s["key"]: s for s in map(samples["train"].__getitem__, range(10))}
    left, right = (train[f"talking|000010|{side}"] for side in ("left", "right"))
    assert left["blink_presence"].tolist() == [1.0] * 7 + [0.0] * 3
    assert left["eye_state"].tolist() == [0.0, 0.0, 1.0, 1.0, 1.0] + [0.0] * 5
    assert left["blink_ids"].tolist() == [3] * 7 + [-1] * 3
    centre = left["eye_image"].float()[:, :, 8, 8]
    assert centre[0].argmax() == 0  # RGB: the left eye is red
    assert right["eye_image"].float()[0, :, 8, 8].argmax() == 2
    assert centre[3].argmax() == 1
    lost = train["talking|000015|left"]
    assert lost["eye_image_mask"].tolist() == [True] * 5 + [False] + [True] * 4
    assert lost["blink_presence_mask"].tolist() == lost["eye_state_mask"].tolist()
    unseen = samples["valid"][0]
    assert not unseen["eye_state_mask"][0]
    assert unseen["blink_presence_mask"][0]


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["no start"], r"has no line '#start'; is it an EyeBlink8 annotation"),
        (["#start", "1:2"], r"line 2: must have 19 fields between colons, got 2"),
        (["#start", row(99)], r"line 2: frame 99 is not in the video of 50 frames"),
        (["#start", row(1, right="a:b:c:d")], r"line 2: could not convert string to float"),
    ],
)
def test_bad_annotations_name_the_line(tmp_path: Path, lines: list[str], text: str) -> None:
    path = tmp_path / "bad.tag"
    path.write_text("\n".join(lines))
    with pytest.raises(SourceVideoError, match=text):
        read_tags(path, FRAMES)


def test_bad_videos_are_refused(tmp_path: Path, tag: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "broken.avi"
    with pytest.raises(SourceVideoError, match="there is no such video"):
        build_talkingface(broken, tag, tmp_path / "x.h5")
    broken.write_bytes(b"RIFF not a video")
    with pytest.raises(SourceVideoError, match=r"OpenCV cannot read|must have frames"):
        build_talkingface(broken, tag, tmp_path / "x.h5")
    with pytest.raises(SourceVideoError, match=r"none.tag': cannot be read"):
        read_tags(tmp_path / "none.tag", 3)
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(
        SourceVideoError, match=r"needs OpenCV; pip install 'blinklinmult\[video\]'"
    ):
        build_talkingface(broken, tag, tmp_path / "x.h5")


def test_the_command_builds_the_corpus(
    video: Path, tag: Path, tmp_path: Path, capsys: pytest.CaptureFixture[Any]
) -> None:
    from blinklinmult.cli import main

    output = tmp_path / "out.h5"
    arguments = ["--video", str(video), "--tag", str(tag), "-o", str(output), "--image-size", "8"]
    assert main(["build-talkingface", *arguments]) == 0
    assert output.is_file()
    assert "closed frames" in capsys.readouterr().out

"""The vocabulary of blink corpora: names of values, subsets, corpora, and special numbers."""

from __future__ import annotations

from omniloader.masks import mask_name

SCHEMA_VERSION = 3
"""Version of the file format, in the root attribute ``schema_version``."""

EYE_IMAGE = "eye_image"
EYE_FEATURE = "eye_feature"
EYE_EMBEDDING = "eye_embedding"
HEAD_POSE = "head_pose"
EYE_BLUR = "eye_blur"
EYE_EXPOSURE = "eye_exposure"
EYE_CONTOUR_FIT = "eye_contour_fit"
EYE_JITTER = "eye_jitter"
BLINK_IDS = "blink_ids"
BLINK_PRESENCE = "blink_presence"
EYE_STATE = "eye_state"

EYE_IMAGE_MASK = mask_name(EYE_IMAGE)
EYE_FEATURE_MASK = mask_name(EYE_FEATURE)
EYE_EMBEDDING_MASK = mask_name(EYE_EMBEDDING)
BLINK_PRESENCE_MASK = mask_name(BLINK_PRESENCE)
EYE_STATE_MASK = mask_name(EYE_STATE)

SAMPLE_KEY = "key"
SOURCE_KEY = "dataset"
VIDEO_ID = "video_id"
FRAME_GROUP = "frame_group"
EYE_SIDE = "eye_side"
BLINK_ID = "blink_id"

QUALITY_SIGNALS = (EYE_BLUR, EYE_EXPOSURE, EYE_CONTOUR_FIT, EYE_JITTER)
"""Quality of a crop per frame, each in [0, 1]."""

TARGETS = (BLINK_PRESENCE, EYE_STATE)
MASKED = (EYE_IMAGE, EYE_FEATURE, *TARGETS)
"""Values that have ``<name>_mask`` beside them in a file."""

FRAME_VALUES = (EYE_IMAGE, EYE_EMBEDDING, EYE_FEATURE, HEAD_POSE, *QUALITY_SIGNALS, BLINK_IDS)
"""Features with one entry a frame, in the order of a schema."""

DIAGNOSTICS = (
    "face_box",
    "eye_on_screen",
    "eye_span",
    "eye_aspect",
    "box_shifted",
    "landmark_source",
    "confidence",
    "blink_category",
)
"""What may lie beside a sample for people to look at; not read for training."""

EYE_SIDES = ("left", "right", "unknown")
SUBSETS = ("train", "valid", "test")

VIDEO_DATASETS = ("talkingface", "rn15", "rn30", "hust_lebw", "mpeblink")
IMAGE_DATASETS = ("cew", "mrl")
DATASETS = (*VIDEO_DATASETS, *IMAGE_DATASETS)

IMAGE_CHANNELS = 3
IMAGE_SIZE = 64
FEATURE_DIM = 160
"""Width of the descriptor where a corpus has one."""
HEAD_POSE_DIM = 3
"""Yaw, pitch and roll, in degrees."""
WINDOW_SECONDS = 1.5

NO_BLINK = -1
"""In ``blink_ids``: a frame outside every blink."""
INVALID_BLINK = -2
"""In ``blink_ids``: a frame that was never readable."""
TARGET_PLACEHOLDER = -1.0
ABSENT = -1
"""In the attributes of a file: this corpus has no such figure."""

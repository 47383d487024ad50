"""The data layer of a blink-detection model."""

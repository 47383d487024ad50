"""Corpora from videos and their annotations (extra ``[video]``)."""

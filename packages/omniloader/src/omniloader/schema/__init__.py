"""Declarations of values, and how samples are brought to them."""

"""Helpers without a home of their own: padding along time, seeds, shared memory, whole files."""

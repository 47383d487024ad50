"""Figures of arrays: moments, quantiles, histograms, in one pass and constant memory."""

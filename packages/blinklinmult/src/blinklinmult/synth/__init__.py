"""Small synthetic corpora: eyes with moving lids, in the shapes and dtypes of real ones."""

from blinklinmult.synth.corpora import synth_corpus, synth_root

__all__ = ["synth_corpus", "synth_root"]

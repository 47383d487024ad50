"""Order: how sources are mixed, sampled, sharded and batched, as functions of the position.

===============  ==================================================================
``strategies``   how many draws each source gets in an epoch, and in which order
``subsamplers``  how one source is drawn from
``plan``         the order of an epoch: ``plan[positions] -> (index, visit)``
``sampler``      a torch sampler over it: sharded, resumable
``batches``      batches of it (``per_source``, ``bucketing``: other compositions)
``evaluation``   every sample once, in order
``weights``      class weights for sampling and for the loss
===============  ==================================================================

The rest are their parts: ``permutation``, ``interleave``, ``running`` and ``apportion`` are integer
arithmetic alone, ``shard``, ``state``, ``carry`` and ``agreement`` are about processes and resume.
"""

"""Order: how sources are mixed, sampled, sharded and batched, as functions of the position."""

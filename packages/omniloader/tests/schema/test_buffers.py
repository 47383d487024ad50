import numpy as np
import torch

from omniloader.schema.buffers import BlockPool

MB = 1 << 20


def address(block: np.ndarray) -> int:
    return int(block.ctypes.data)


def test_a_block_is_used_again_once_nobody_holds_it() -> None:
    pool = BlockPool()
    block = pool.take(2 * MB)
    at = address(block)
    del block
    assert address(pool.take(2 * MB)) == at


def test_a_block_is_never_used_again_while_any_view_lives() -> None:
    pool = BlockPool()
    block = pool.take(2 * MB)
    at = address(block)
    tensor = torch.from_numpy(block[64:128].view(np.float32).reshape(4, 4))
    row = tensor[1][2:]
    del block, tensor
    assert address(pool.take(2 * MB)) != at
    row.numpy()
    del row
    assert address(pool.take(2 * MB)) == at


def test_small_blocks_and_much_larger_ones_are_not_pooled_together() -> None:
    pool = BlockPool()
    assert pool.take(10).nbytes == 10
    big = address(pool.take(8 * MB))
    small = pool.take(2 * MB)
    assert address(small) != big
    assert small.nbytes == 2 * MB


def test_the_pool_is_capped_and_forgets_the_oldest() -> None:
    pool = BlockPool(max_blocks=2, max_bytes=7 * MB)
    held = [pool.take(2 * MB) for _ in range(3)]
    first, last = address(held[0]), address(held[2])
    held[0].fill(7)
    assert int(held[0].max()) == 7
    del held
    assert address(pool.take(2 * MB)) != first or first == last
    assert pool.take(9 * MB).nbytes == 9 * MB

"""Batches a second by ``num_workers``, over your own mix: the table of the data module's documents.

python scripts/bench_workers.py --root DIR --config DIR/configs/data.yaml --workers 0,2,4
"""

import sys

from blinklinmult.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", *sys.argv[1:]]))

#!/usr/bin/env python3
"""Writes scikit-learn's digits (1,797 grey images of 8x8 with their classes, inside its package) as two NumPy files.

usage: export.py FOLDER

images.npy is float32 [1797, 1, 8, 8] from 0 to 1, classes.npy int64 [1797]. Needs numpy and scikit-learn.
"""

import sys
from pathlib import Path


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        import numpy as np
        from sklearn.datasets import load_digits
    except ImportError as error:
        print(f"export.py: {error.name} is not installed: pip install numpy scikit-learn", file=sys.stderr)
        return 2
    digits = load_digits()
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "images.npy", (digits.images / 16).astype("float32").reshape(-1, 1, 8, 8))
    np.save(folder / "classes.npy", digits.target.astype("int64"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

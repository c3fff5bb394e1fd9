"""The classes of this library's three ancestors under their own names: change the import line, keep the program.

    from speedtorch.compat import SpeedTorch                               # was: import cupy; import SpeedTorch
    from speedtorch.compat.contiguous_params import ContiguousParams       # was: from contiguous_params import ...
    from speedtorch.compat import infinitybatch                            # was: import infinitybatch

These correct the originals' faults. A DifferenceWarning says once what differs. New programs better use
`speedtorch.Table`, `speedtorch.nn`, `speedtorch.optim` and `speedtorch.MicroBatches`.
"""

from speedtorch._micro_batch_parts import warn


class DifferenceWarning(UserWarning):
    """The result differs from the original's, which was wrong, or the program runs in another way than there."""


_told = set()


def tell_once(text):
    """Warns with the text once in a process."""
    if text not in _told:
        _told.add(text)
        warn(DifferenceWarning, text)

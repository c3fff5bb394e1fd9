"""The package's exceptions. Each is an `Error` and one of Python's own: see `__mro__`, or the table in docs/python.md. A
`FileError` has `errno` and `filename` if a call of the system failed. `torch.ops.speedtorch` raises them too."""

from speedtorch import _native

globals().update(_native.errors)
__all__ = sorted(_native.errors)

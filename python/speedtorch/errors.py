"""The package's exceptions. Each is an `Error` and one of Python's own: `IndexError`, `MemoryError`, `OSError` (`FileError`),
`BufferError`, or `ValueError` (all others with a name). `torch.ops.speedtorch` raises them too."""

from speedtorch import _native

globals().update(_native.errors)
__all__ = sorted(_native.errors)

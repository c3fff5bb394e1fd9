"""Files of torch.save() that appear whole or not at all, and that are checked before anything of them is used."""

import os
import pickle
import reprlib

import torch

from speedtorch import _native, errors
from speedtorch._micro_batch_parts import is_out_of_memory

_NOT_READ = "cannot be read as torch's format"
_MAGIC_OF_OLD_FORMAT = pickle.dumps(torch.serialization.MAGIC_NUMBER, protocol=2)


def save(content, path):
    """Writes the file. At each moment the name belongs to the whole old file or to the whole new one, which keeps the mode of
    the old one. A symbolic link stays one. Raises errors.FileError (an OSError)."""
    with _native.FileWriter(os.fspath(path)) as file:
        torch.save(content, file)


def load(path):
    """Returns the content of a file of torch.save(), with all tensors on the CPU. Raises errors.FileError (an OSError) for a
    file that cannot be read, is of another kind, or is damaged, with the entry if it is known. Files of torch before 1.6 have no
    checksums: of those only damage that torch itself notices is found."""
    path = os.fspath(path)
    try:
        _check_archive(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        if error.errno is not None:
            raise
        reason = str(error).removeprefix(f"'{os.path.basename(path)}' ")
        raise errors.FileError(f"{path} {reason}") from None
    except Exception as error:
        if is_out_of_memory(error):
            raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise errors.FileError(f"{path} {_NOT_READ}: {reason}") from error


def _check_archive(path):
    """Compares all checksums, which torch.load() does not."""
    try:
        _native.check_archive(path, _NOT_READ)
    except errors.FileError as error:
        if error.errno is not None or not _is_of_old_format(path):
            raise


def _is_of_old_format(path):
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(_MAGIC_OF_OLD_FORMAT)) == _MAGIC_OF_OLD_FORMAT


def check_entries(path, content, kinds):
    """Raises ValueError unless `content` is a dict that has these entries, each of its kind (a type or several)."""
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds a {type(content).__name__}, not a dict")
    for name, kind in kinds.items():
        if name not in content:
            raise ValueError(f"{path} has no entry {name!r}; it has {reprlib.repr(list(content))}")
        if not isinstance(content[name], kind):
            raise ValueError(f"the entry {name!r} of {path} is a {type(content[name]).__name__}")

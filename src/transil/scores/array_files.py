"""Arrays and tensors from other people's files, and into such files; nothing in them is executed."""

from __future__ import annotations

import os
import pickle
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from transil._common.arrays import check_plain, is_torch, to_numpy
from transil._common.files import atomic_file, check_regular, open_regular, told
from transil._common.registry import nearest
from transil.errors import TransilError, reason
from transil.scores.data_files import DTYPES
from transil.scores.zips import check_growth, check_unpacked

if TYPE_CHECKING:
    import torch

TORCH = (".pt", ".pth", ".ckpt")
ARRAYS = (".npy", ".npz", *TORCH, ".safetensors")
MAGIC = b"\x93NUMPY"


def load_named(path: Path, key: str | None = None) -> Any:
    """The array or tensor that `key` names; without it the only one that the file holds."""
    scores = _picked(path, load_arrays(path), key)
    return checked_tensor(scores, str(path)) if is_torch(scores) else scores


def load_arrays(path: Path) -> Any:
    """An array or tensor, or several by their names, maybe among other things."""
    if path.suffix == ".npy":
        return load_array(path)
    if path.suffix == ".npz":
        return load_archive(path)
    if path.suffix == ".safetensors":
        return _load_safetensors(path)
    if path.suffix not in TORCH:
        raise TransilError(f"{path}: unknown kind of file; give {', '.join(ARRAYS)}")
    found = load_safely(path)
    if isinstance(found, Mapping):
        return {str(name): value for name, value in found.items()}
    if not is_torch(found):
        raise TransilError(f"{path}: expected one tensor, found {type(found).__name__}")
    return found


def save_array(
    path: Path, array: NDArray[Any], name: str = "scores", *, bfloat16: bool = False
) -> None:
    """Write one array as the ending of `path` says, all of it or nothing; `name` where it has one.

    `bfloat16`: in that type where there is one, which NumPy lacks.
    """
    if array.dtype.name not in DTYPES:
        raise TransilError(f"{path}: scores of type {array.dtype}; use {', '.join(DTYPES)}")
    with atomic_file(path, durable=False) as file:
        if path.suffix == ".npz":
            # The archive gets no time: the same input gives the same bytes.
            with (
                zipfile.ZipFile(file, "w") as archive,
                archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member,
            ):
                np.lib.format.write_array(member, array, allow_pickle=False)
        elif path.suffix == ".safetensors" and not bfloat16:
            from safetensors.numpy import save

            file.write(save({name: array}))
        else:
            _save_tensor(path, file, array, name, bfloat16)


def _save_tensor(
    path: Path, file: IO[bytes], array: NDArray[Any], name: str, bfloat16: bool
) -> None:
    import torch
    from safetensors.torch import save

    tensor = torch.from_numpy(array)
    tensor = tensor.bfloat16() if bfloat16 else tensor
    if path.suffix == ".safetensors":
        file.write(save({name: tensor}))
    else:
        torch.save(tensor, file)


# -- NumPy's files -----------------------------------------------------------------------------


def load_array(path: str | os.PathLike[str]) -> NDArray[Any]:
    """One .npy file, memory-mapped; files with Python objects are refused, never unpickled."""
    with open_regular(path) as file, told(f"cannot read {path}"):
        magic = file.read(len(MAGIC))
    if magic != MAGIC:
        raise TransilError(f"{path}: not a plain .npy file")
    with _errors(f"{path}: not a plain .npy file"), told(f"cannot read {path}"):
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def load_archive(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """All arrays of an .npz file, read without unpickling anything; what else is in it is left out."""
    with open_regular(path) as file, told(f"cannot read {path}"):
        if not zipfile.is_zipfile(file):
            raise TransilError(f"{path}: not an .npz file")
        with _errors(f"{path}: a damaged .npz file"):
            check_unpacked(file, str(path))
            with np.load(file, allow_pickle=False) as archive:
                members = {name: archive[name] for name in archive.files}
    return {name: found for name, found in members.items() if isinstance(found, np.ndarray)}


@contextmanager
def _errors(what: str) -> Iterator[None]:
    """Whatever NumPy, zipfile and zlib raise for a file that is foreign or crafted, in one line."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", UserWarning)  # of files of Python 2
            yield
    except (OSError, TransilError):
        raise
    except Exception as error:
        raise TransilError(f"{what} ({reason(error)})") from None


# -- tensors -----------------------------------------------------------------------------------


def load_safely(path: str | os.PathLike[str]) -> Any:
    """What `torch.save` wrote, if it is plain tensors and containers, on the CPU.

    Only torch's restricted unpickler is used (weights_only); it builds tensors and refuses
    anything else, so a crafted pickle does not execute. Needs torch >= 2.6, where that holds.
    """
    import torch

    with told(f"cannot read {path}"), open_regular(path) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about kinds of tensors that are refused later
        try:
            check_unpacked(file, str(path))
            return torch.load(file, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError:
            raise TransilError(
                f"{path}: refused, it is not a file of plain tensors (nothing in it was executed); "
                "get it again from a source you trust"
            ) from None
        except (OSError, TransilError):
            raise
        except Exception as error:  # torch raises many kinds for a file that is cut or foreign
            raise TransilError(f"{path}: cut short or not a torch file ({reason(error)})") from None


def checked_tensor(x: torch.Tensor, where: str) -> torch.Tensor:
    """A tensor of a file; an error where it is no plain table, or repeats the little that is stored."""
    check_plain(x, where)
    check_growth(x.numel() * x.element_size(), x.untyped_storage().nbytes(), where)
    return x


def as_array(x: Any, where: str) -> NDArray[Any]:
    """A tensor of a file as an array; an array as it is, which may be a map of much more than memory."""
    return to_numpy(checked_tensor(x, where), where) if is_torch(x) else x


def _load_safetensors(path: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    check_regular(path)
    try:
        tensors: dict[str, Any] = load_file(path)
    except Exception as error:  # the library has its own, torch others for types that it lacks
        raise TransilError(f"{path}: cut short or no safetensors file ({reason(error)})") from None
    return tensors


# -- one of several ----------------------------------------------------------------------------


def _picked(path: Path, found: Any, key: str | None) -> Any:
    if not isinstance(found, Mapping):
        if key is not None:
            raise TransilError(f"{path}: it holds one array, without a name; leave out --key {key}")
        return found
    found = {name: x for name, x in found.items() if is_torch(x) or isinstance(x, np.ndarray)}
    if key is not None:
        if key not in found:
            raise TransilError(f"{path}: no array '{key}' in it; {nearest(key, list(found))}")
        return found[key]
    if len(found) != 1:
        raise TransilError(f"{path}: {_told(found)}")
    return next(iter(found.values()))


def _told(found: Mapping[str, Any]) -> str:
    """Which arrays there are, and what to do."""
    if not found:
        return "it holds no arrays; give one of scores (rows, columns)"
    shapes = {name: _shape(array) for name, array in found.items()}
    shown = [f"{name} ({shape or 'a number'})" for name, shape in shapes.items()]
    shown = [*shown[:8], "..."] if len(shown) > 8 else shown
    tables = [name for name, array in found.items() if array.ndim == 2 and _is_floating(array)]
    likely = tables[0] if tables else "NAME"
    return f"it holds {', '.join(shown)}; say which are the scores: --key {likely}"


def _shape(array: Any) -> str:
    if is_torch(array) and array.is_nested:
        return "nested"
    return " x ".join(map(str, array.shape))


def _is_floating(array: Any) -> bool:
    if is_torch(array):
        return array.is_floating_point()
    return bool(np.issubdtype(array.dtype, np.floating))

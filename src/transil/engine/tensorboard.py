"""Curves for TensorBoard, where it is asked for and installed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from transil.errors import missing


class Board:
    """Writes the numbers of each epoch to RUN/tensorboard; does nothing where not `wanted`."""

    def __init__(self, folder: Path, wanted: bool, done: int = 0) -> None:
        self._writer: Any = None
        if wanted:
            check_tensorboard()
            from torch.utils.tensorboard import SummaryWriter

            # Epochs that an interrupted run had got to, and that are done again, count once.
            self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=done + 1)

    def __enter__(self) -> Board:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._writer is not None:
            self._writer.close()

    def add(self, line: Mapping[str, Any], epoch: int) -> None:
        """The numbers of one epoch, counted over all states."""
        if self._writer is not None:
            for name in ("lr", "loss", "accuracy"):
                self._writer.add_scalar(name, line[name], epoch)


def check_tensorboard() -> None:
    """An error where the package is missing."""
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ImportError:
        raise missing("engine.tensorboard needs", "tensorboard") from None

"""Checkpoints: tensors and a few facts in one safetensors file, whole or not there."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import torch

from transil._common.files import atomic_file, check_regular, told
from transil._common.typed import Between, read_record
from transil.errors import TransilError, reason
from transil.schedule import MOST_CLASSES

Count = Annotated[int, Between(0, 10**9)]


@dataclass(frozen=True)
class Facts:
    """What the header of a checkpoint says: how far the training had come."""

    state: Annotated[int, Between(1, MOST_CLASSES)]
    epoch: Count
    losses: list[float]
    batches: Count = 0


@dataclass(frozen=True)
class Checkpoint:
    """The network and what belongs to it, after `epoch` epochs of `state` and `batches` of the next.

    `losses` are those of the state's epochs; where the state is finished, `epoch` is its last.
    """

    state: int
    epoch: int
    tensors: dict[str, torch.Tensor]
    losses: list[float] = field(default_factory=list)
    batches: int = 0

    def save(self, path: Path) -> None:
        """Write it; a file of that name is replaced in one step."""
        from safetensors.torch import save

        facts = {"state": self.state, "epoch": self.epoch, "losses": self.losses}
        if self.batches:
            facts["batches"] = self.batches
        data = save(self.tensors, {"transil": json.dumps(facts)})
        with atomic_file(path) as file:
            file.write(data)

    @classmethod
    def load(cls, path: Path, only: Collection[str] | None = None) -> Checkpoint:
        """Read what `save` wrote; with `only`, those of its tensors alone, where they are there."""
        from safetensors import SafetensorError, safe_open

        bad = f"{path}: not a checkpoint of transil, or damaged"
        remedy = "delete it to go on from the one before"
        check_regular(path)
        try:
            with told(f"cannot read {path}"), safe_open(path, "pt") as file:
                facts = json.loads((file.metadata() or {}).get("transil", ""))
                names = [n for n in file.keys() if only is None or n in only]  # noqa: SIM118
                tensors = {name: file.get_tensor(name) for name in names}
        except TransilError:
            raise
        except (SafetensorError, ValueError, RecursionError) as error:
            raise TransilError(f"{bad} ({reason(error)}); {remedy}") from None
        return cls(tensors=tensors, **vars(read_record(facts, Facts, f"{bad}; {remedy}")))

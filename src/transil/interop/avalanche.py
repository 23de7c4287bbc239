"""A plugin for Avalanche that records the scores of every experience, and corrects them in evaluation.

    from transil.interop.avalanche import TransilPlugin
    strategy = LwF(..., plugins=[TransilPlugin("scores/mine", method="lwf-all")])

Class-incremental benchmarks of one task: column c of the model's output is the score of class c.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from transil.adaptation import Corrector
from transil.correction.bank import Bank
from transil.correction.shipped import bank_for
from transil.errors import DataWarning, TransilError
from transil.interop.states import store_for
from transil.schedule import Schedule
from transil.scores.head import Head
from transil.scores.recorder import SplitFile, finished
from transil.scores.store import ScoreStore

try:
    from avalanche.training.plugins import SupervisedPlugin
except ImportError as error:
    raise TransilError(
        f"Avalanche cannot be imported ({error}); pip install avalanche-lib"
    ) from None

VALIDATION = ("val", "valid", "validation")  # what streams of validation images are called


class TransilPlugin(SupervisedPlugin, supports_distributed=False):  # type: ignore[misc, call-arg]
    """Records every evaluation of all experiences learned so far; corrects what it is given.

    - `path`: the folder of the store. The stream "test" becomes the split "test", "valid" becomes "val".
      A split is in the store when all experiences learned so far have been evaluated, in one call of
      `eval` or in several; evaluations during training are not recorded. None records nothing.
    - `bank` (also a file or a name) or `corrector`: corrects `strategy.mb_output` before losses and
      metrics see it; what is recorded stays as it was. It measures first, without labels: the images of
      an evaluation pass through the model twice. Columns of classes to come never win. A corrector that
      is fitted corrects its own state alone, another one is fitted to each evaluation.
    - `method`, `dataset`: what the store says of itself; a bank of another method is refused.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        bank: Bank | str | os.PathLike[str] | None = None,
        corrector: Corrector | None = None,
        method: str | None = None,
        dataset: str | None = None,
    ) -> None:
        super().__init__()
        if bank is not None and corrector is not None:
            raise TransilError("give a bank or a corrector, not both")
        self.path, self.bank, self.corrector = path, bank, corrector
        self.method, self.dataset = method, dataset
        self._schedule: Schedule | None = None
        self._state, self._training = 0, False  # of the model; 0 before it has learned anything
        self._parts: dict[
            str, tuple[SplitFile, set[int]]
        ] = {}  # rows of a split, groups that are in
        self._layer: Any = None

    # -- training -----------------------------------------------------------------------------

    def before_training_exp(self, strategy: Any, **more: Any) -> None:
        """A new state begins; say so early where the folder has the scores of another model."""
        for split, (_, groups) in self._parts.items():
            warnings.warn(
                f"split '{split}', state {self._state}: images of groups {sorted(groups)} alone were "
                "evaluated, so it is not recorded; evaluate all experiences that are learned",
                DataWarning,
                stacklevel=2,
            )
        experience, self._parts, self._layer = strategy.experience, {}, None
        self._state, self._training = strategy.clock.train_exp_counter + 1, True
        stream = experience.origin_stream
        self._schedule = Schedule.of([sorted(e.classes_in_this_experience) for e in stream])
        learned = [*self._schedule.groups, ()][min(self._state, self._schedule.states + 1) - 1]
        if set(experience.classes_in_this_experience) != set(learned):
            raise TransilError(
                f"state {self._state}: train the experiences of the stream in turn, each once"
            )
        if self.path is not None:
            self._store()

    def after_training_exp(self, strategy: Any, **more: Any) -> None:
        """The state is learned: what is evaluated from now on is recorded."""
        self._training = False

    # -- evaluation ---------------------------------------------------------------------------

    def before_eval(self, strategy: Any, **more: Any) -> None:
        """Measure what is to be corrected."""
        self._layer = None
        if self._state > 1 and not (self.bank is None and self.corrector is None):
            self._layer = self._correction(strategy)

    def before_eval_exp(self, strategy: Any, **more: Any) -> None:
        """The rows of this experience follow; those of an earlier evaluation of it are dropped."""
        if self.path is None or self._training or self._schedule is None:
            return
        split, classes = _split(strategy.experience), strategy.experience.classes_in_this_experience
        seen = enumerate(self._schedule.groups[: self._state], start=1)
        groups = {group for group, learned in seen if not set(learned).isdisjoint(classes)}
        _, known = self._parts.get(split, (None, set()))
        if groups and (not known or groups & known):
            self._parts[split] = (SplitFile(self._store(), self._state, split, Head()), groups)
        else:
            known |= groups

    def after_eval_forward(self, strategy: Any, **more: Any) -> None:
        """Record the scores of a batch, then correct them."""
        part = self._parts.get(_split(strategy.experience)) if not self._training else None
        if part is None and self._layer is None:
            return
        scores, index = self._learned(strategy.mb_output)
        if part is not None:
            known = torch.isin(strategy.mb_y, index)
            if known.any():  # of experiences to come, there may be others
                part[0].add(scores[known], strategy.mb_y[known])
        if self._layer is not None:
            better = self._layer.to(scores.device)(scores)
            made = torch.minimum(strategy.mb_output, better.min(dim=1, keepdim=True).values)
            made[:, index] = better
            strategy.mb_output = made

    def after_eval(self, strategy: Any, **more: Any) -> None:
        """Put the splits that are whole into the store."""
        whole = {s: p for s, (p, groups) in self._parts.items() if len(groups) == self._state}
        for split, part in whole.items():
            del self._parts[split]
            part.store.put_files(finished(part.store, self._state, {split: part}))

    # -- details ------------------------------------------------------------------------------

    def _store(self) -> ScoreStore:
        assert self.path is not None
        assert self._schedule is not None
        return store_for(self.path, self._schedule, self._state, self.method, self.dataset)

    def _learned(self, output: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The scores of the classes seen so far, in learning order, and their columns.

        A head may have more columns than that: from the start, or since a stream was evaluated.
        """
        assert self._schedule is not None
        columns = output.shape[1]
        needed = int(self._schedule.classes(self._state).max()) + 1
        whole = int(self._schedule.classes(self._schedule.states).max()) + 1
        head = Head(columns if needed <= columns <= whole else None, "labels")
        layout = head.state(self._schedule, self._state)
        scores: torch.Tensor = layout.scores(output, f"state {self._state}")
        return scores, torch.as_tensor(layout.index, device=output.device)

    def _correction(self, strategy: Any) -> torch.nn.Module:
        """The correction of this state as a layer."""
        assert self._schedule is not None
        state, corrector = self._state, self.corrector
        if corrector is not None and hasattr(corrector, "state_"):
            if corrector.state_ != state:
                raise TransilError(
                    f"the corrector is of state {corrector.state_}, and the model in state {state}; "
                    "give one that is not fitted, it is then fitted in each state"
                )
            return corrector.layer()  # type: ignore[no-any-return]
        with torch.random.fork_rng():  # training goes on as it would without
            scores = np.concatenate(list(self._measured(strategy)))
        if corrector is not None:
            fitted = Corrector(**{**corrector.get_params(), "schedule": self._schedule})
            return fitted.fit(scores, state=state).layer()  # type: ignore[no-any-return]
        assert self.bank is not None
        bank = bank_for(self.bank, self._schedule)
        bank.check_store(ScoreStore(self._schedule, method=self.method, dataset=self.dataset))
        bank.check_kind(scores, f"state {state}")
        bank.check_scale(scores, state)
        return bank.ready(scores, state).layer(state)

    def _measured(self, strategy: Any) -> Iterator[NDArray[Any]]:
        """The scores of the images of classes seen so far that are evaluated next, without labels."""
        for experience in strategy.current_eval_stream:
            strategy.experience = experience
            strategy.eval_dataset_adaptation()
            strategy.make_eval_dataloader()
            for batch in strategy.dataloader:
                strategy.mbatch = batch
                strategy._unpack_minibatch()
                scores, index = self._learned(strategy.forward())
                yield scores[torch.isin(strategy.mb_y, index)].cpu().numpy()


def _split(experience: Any) -> str:
    """The split that a stream becomes."""
    name: str = experience.origin_stream.name
    return "val" if name in VALIDATION else name

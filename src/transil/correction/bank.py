"""The bank: correction parameters fitted on references, kept for transfer to a target.

A bank keeps the pairs of every reference, so that mean, median, one reference or a random subset
can be taken from one file, and says where they came from. It is a small JSON file, the same bytes
for the same fit; its layout is in docs/formats.md.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from transil._common.arrays import (
    FloatArray,
    Scores,
    check_finite,
    check_raw,
    check_scores,
    has_masks,
    is_torch,
    readable,
)
from transil._common.files import read_json_as, write_json
from transil._common.pretrained import Pretrained
from transil.correction.affine import correct_groups
from transil.correction.alike import check_ratios
from transil.correction.columns import OrderLike, backwards, read_order, reordered, state_of
from transil.correction.comparing import at_scale, brought_to, compared, newest_of
from transil.correction.facts import Facts
from transil.correction.layers import Correction
from transil.correction.parameters import Pairs, Parameters
from transil.correction.references import Reference, Transfer, check_references
from transil.correction.rules import RULES
from transil.correction.scales import Comparison, Newest
from transil.correction.strength import AS_FITTED, at_strength, read_strength
from transil.errors import TransilError
from transil.schedule import Schedule, ScheduleLike
from transil.scores.frames import AnyScores, array_of, is_frame, like_frame
from transil.scores.store import ScoreStore

if TYPE_CHECKING:
    from transil.correction.torch_layer import CorrectionLayer

FORMAT, VERSION = "transil-bank", 2  # version 1 knew pairs only, and is read
SHOWN = 12  # names in a message


@dataclass(frozen=True, eq=False)
class Bank(Pretrained):
    """Fitted pairs of one method, schedule, correction and solver, for one or more references.

    `strength`: a factor on (alpha - 1, beta) of what is applied, 1 as fitted (see `at_strength`).
    """

    correction: Correction
    schedule: Schedule
    references: tuple[Reference, ...]
    method: str | None = None
    solver: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the solver, penalty included
    score_kind: str = "logit"
    transfer: Transfer = field(default_factory=Transfer)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[int, Facts] = field(default_factory=dict)  # by state, where scores were measured
    strength: float = AS_FITTED
    _kind: ClassVar = (FORMAT, VERSION)

    def __post_init__(self) -> None:
        check_references(self.references, self.schedule, self.correction)
        self._check_transfer()
        object.__setattr__(self, "strength", read_strength(self.strength))

    def _check_transfer(self) -> None:
        wants = RULES.find(self.transfer.how).wants
        if wants == "reference":
            self.reference(self.transfer.reference or "")
        if wants == "target":
            for state in range(2, self.schedule.states + 1):
                if state not in self.transfer.choice:
                    raise TransilError(f"bank: the oracle names no reference for state {state}")
                self.reference(self.transfer.choice[state])

    def __repr__(self) -> str:
        names = self.names()
        what = " ".join(filter(None, (self.method, self.correction.name, self.solver)))
        how = "" if self.strength == AS_FITTED else f"; strength {self.strength:g}"
        return f"Bank({what}: {self.schedule}; {self.transfer.how} of {names}{how})"

    # -- using it -----------------------------------------------------------------------------

    def correct(
        self,
        scores: AnyScores,
        state: int | None = None,
        *,
        order: OrderLike | None = None,
        rescale: bool = False,
        strength: float | None = None,
        quiet: bool = False,
    ) -> AnyScores:
        """Corrected scores, the kind and dtype of `scores`, of shape (..., columns).

        An array, a tensor, or a DataFrame of pandas, polars or pyarrow whose columns are all scores.
        `state` counts from 1; without it, it is the state that has as many columns. Columns are
        the classes seen so far in the order in which they were learned; where they stand otherwise,
        `order[i]` is the column (from 0) of the i-th class learned, and columns stay where they are.
        With `rescale` the bank is first brought to the scale of these scores (see `at_scale`), which
        takes no labels. `strength` is that of `at_strength`; without it, the bank's own. `quiet` says
        nothing of their size: for those who ask `mismatch`.
        """
        chosen = self if strength is None else self.at_strength(strength)
        made, found = chosen._corrected(array_of(scores), state, order, rescale, quiet)
        if not quiet:
            self._tell(found)
        return cast(AnyScores, like_frame(scores, made) if is_frame(scores) else made)

    def _corrected(
        self, scores: Any, state: int | None, order: OrderLike | None, rescale: bool, quiet: bool
    ) -> tuple[Any, Comparison | None]:
        """The corrected scores, and how those given compare with the references'."""
        check_scores(scores)
        places = None if order is None else read_order(order, scores.shape[-1])
        learned = reordered(scores, places)
        if state is None:
            state = state_of(learned, self.schedule)
        state = self.schedule.check_state(state)
        self.schedule.check_columns(scores.shape[-1], state)
        self.check_kind(scores, f"state {state}")
        bank, found = self.ready(learned, state), None
        if rescale:
            bank, found = brought_to(self, learned, state)
        elif not quiet:
            found = bank.mismatch(learned, state)
        if self.correction.centred and readable(scores) and has_masks(scores):
            raise TransilError(
                f"state {state}: some classes are masked (minus infinity), and '{self.correction.name}' "
                "needs the scores of all: correct first, then mask"
            )
        corrected = self.apply(bank.applied(state), learned, state)
        if places is not None:
            corrected = reordered(corrected, backwards(places))
        # A tensor may lie on a device that the host would have to wait for.
        if not is_torch(scores) and not np.isfinite(np.asarray(corrected)).all():
            given, made = (np.asarray(x).reshape(-1, scores.shape[-1]) for x in (scores, corrected))
            masked = np.isneginf(given)  # minus infinity masks a class: it stays
            check_finite(np.where(masked, 0.0, given), f"state {state}")
            check_finite(np.where(masked, 0.0, made), f"state {state}, corrected to {made.dtype}")
        return corrected, found

    def apply(
        self, pairs: Pairs, scores: Scores, state: int, out: FloatArray | None = None
    ) -> Scores:
        """Scores corrected with a pair for each group of a state, in the way of this correction.

        Nothing is checked; `correct` is for use.
        """
        return correct_groups(
            scores, pairs.alpha, pairs.beta, self.schedule, state, out,
            centred=self.correction.centred,
        )  # fmt: skip

    def layer(
        self, state: int | None = None, *, order: OrderLike | None = None, like: Any = None
    ) -> CorrectionLayer:
        """The correction of a state as a torch module, the last layer of a model to deploy.

        `like`: unlabelled scores (..., columns) of that model, to which the bank is brought first (see
        `Bank.like`); they also tell the state where it is not given.
        """
        from transil.correction.torch_layer import CorrectionLayer

        if like is not None:
            like = array_of(like)
            check_scores(like)
            places = None if order is None else read_order(order, like.shape[-1])
            like = reordered(like, places)
            state = state_of(like, self.schedule) if state is None else state
            return self.like(like, state).layer(state, order=order)
        if state is None:
            raise TransilError("layer: give the state, or scores of it (like=scores)")
        pairs, group = self.applied(state), self.schedule.group_of_column(state) - 1
        if order is not None:
            group = group[backwards(read_order(order, len(group)))]
        return CorrectionLayer(pairs.alpha[group], pairs.beta[group], self.correction.centred)

    def applied(self, state: int) -> Pairs:
        """The pair of each group of `state` after transfer, shape (state,); (1, 0) in state 1."""
        state = self.schedule.check_state(state)
        if state == 1:
            return Pairs.identity(1)
        if state not in self._known:
            facts = self.facts.get(state, Facts(self.schedule, state))
            fitted = self.correction.applied(self._history(state), facts)
            self._known[state] = at_strength(fitted, self.strength)
        known = self._known[state]
        return Pairs(known.alpha, known.beta)  # a copy: the caller may change it

    def knows(self, state: int) -> bool:
        """Whether the pairs of a state are known: all are, or those whose scores were measured."""
        return state == 1 or not self.correction.measured or state in self.facts

    @cached_property
    def _known(self) -> dict[int, Pairs]:
        """What is applied in the states asked for so far: a model in use asks for each image."""
        return {}

    @cached_property
    def _strengths(self) -> dict[float, Bank]:
        """The same bank at the strengths asked for so far, for the same reason."""
        return {}

    def uncertainty(self, state: int) -> Pairs | None:
        """By how much the pairs of each group of a state are uncertain: their standard deviation.

        Over the references in use, or as the correction knows it; None where nothing tells it.
        """
        state = self.schedule.check_state(state)
        if not self.knows(state):
            return None
        known = self.correction.uncertainty(self.facts.get(state, Facts(self.schedule, state)))
        used = self.used(state) if state > 1 else []
        if known is not None:
            return Pairs(self.strength * known.alpha, self.strength * known.beta)
        if len(used) < 2:
            return None
        each = np.stack([self.alone(one.name).applied(state).vector for one in used])
        return Pairs(*np.split(each.std(axis=0, ddof=1), 2))

    def pairs(self, state: int) -> Parameters:
        """The fitted parameters of `state` after transfer: a pair per group for adBiC, one for BiC."""
        state = self.schedule.check_state(state)
        if state == 1:
            return self.correction.outline(self.schedule, 1).identity()
        return self._history(state)[state]

    def reference(self, name: str) -> Reference:
        """The reference of that name."""
        if name not in self._by_name:
            raise TransilError(f"bank: no reference '{name}' (there are: {self.names()})")
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, Reference]:
        return {reference.name: reference for reference in self.references}

    def names(self) -> str:
        """The names of the references, or of the first of many, for a message."""
        names = [reference.name for reference in self.references[:SHOWN]]
        more = len(self.references) - len(names)
        return ", ".join(names) + (f" and {more:,} more" if more else "")

    def subset(self, names: Sequence[str]) -> Bank:
        """A bank of only these references, averaged: what an R-ablation draws."""
        return replace(
            self, references=tuple(self.reference(n) for n in names), transfer=Transfer()
        )

    def for_schedule(self, schedule: ScheduleLike) -> Bank:
        """The same pairs for a target whose groups are all larger or smaller by one factor.

        A pair belongs to a group, whatever its size; but how groups compare in size is part of
        the bias. So the number of groups and the ratios of their sizes must be the bank's: ten
        groups of 10 become ten of 20. The file then keeps the sizes it was fitted on.
        """
        own, sizes = self.schedule.sizes, Schedule.of(schedule).sizes
        check_ratios(own, sizes)
        if sizes == own:
            return self
        provenance = {"fitted_sizes": list(own), **self.provenance}  # the first ones, if again
        return replace(self, schedule=Schedule.from_sizes(sizes), provenance=provenance)

    def at_strength(self, strength: float) -> Bank:
        """The same bank with (1 + strength * (alpha - 1), strength * beta) for every group.

        1 is as fitted, whatever the bank has now, 0 corrects nothing, 2 is the most.
        """
        strength = read_strength(strength)
        if strength == self.strength:
            return self
        if strength not in self._strengths:
            self._strengths[strength] = replace(self, strength=strength)
        return self._strengths[strength]

    def at_scale(self, scales: Mapping[int, float]) -> Bank:
        """The same correction for scores that spread as `scales` says, by state (`score_scale`).

        Scores that are c times as large are corrected alike by the same alpha and c times the beta:
        the corrected scores are c times as large, too, and the predictions are the same. A model
        trained in another way has the same bias, perhaps, but scores of another size. References
        that are not in use are left out.
        """
        return at_scale(self, scales)

    def like(self, scores: Any, state: int) -> Bank:
        """The bank at the scale of these scores (..., columns) of a state; earlier states follow.

        Labels are not needed. State 1 is never corrected and tells nothing. It warns where the
        scores are so much larger or smaller that they are rather those of another method.
        """
        scores = array_of(scores)
        check_scores(scores)
        self.schedule.check_columns(scores.shape[-1], state)
        bank, found = brought_to(self, scores, state)
        self._tell(found)
        return bank

    def ready(self, scores: Any, state: int) -> Bank:
        """The bank itself, or measured on these scores where its correction needs that."""
        if not self.correction.measured or state in self.facts:
            return self
        return brought_to(self, scores, state)[0]

    def alone(self, name: str) -> Bank:
        """A bank of one reference."""
        # Without the others, which would be checked again: of many references all are asked for.
        return replace(self, references=(self.reference(name),), transfer=Transfer("single", name))

    def _history(self, state: int) -> Mapping[int, Parameters]:
        """The transferred parameters of the state, and of those before it where they stay in use."""
        rule, used = RULES.find(self.transfer.how), self.used(state)
        first = 2 if self.correction.lasting else state
        return {s: rule([r.pairs[s] for r in used]) for s in range(first, state + 1)}

    # -- does it fit? -------------------------------------------------------------------------

    def check_store(self, store: ScoreStore, *, same_method: bool = True) -> None:
        """An error where the bank is of another schedule or method than the store."""
        if not store.schedule.starts_like(self.schedule):
            remedy = "use a bank fitted on the same number of groups"
            if store.schedule.states == self.schedule.states:
                remedy = (
                    "use a bank fitted on the same group sizes, or change the sizes of this one "
                    "(Bank.for_schedule, transil transfer --schedule)"
                )
            raise TransilError(
                f"{store.name}: its schedule ({store.schedule}) is not the bank's "
                f"({self.schedule}); {remedy}"
            )
        named = self.method and store.method
        if self.score_kind != store.kind:
            raise TransilError(
                f"{store.name}: its scores are of kind '{store.kind}', the bank is for "
                f"'{self.score_kind}'; correct scores of the same kind"
            )
        if same_method and named and self.method != store.method:
            raise TransilError(
                f"{store.name}: its scores are from '{store.method}', the bank is for "
                f"'{self.method}'; parameters do not transfer between methods "
                "(--any-method tries it all the same)"
            )

    def scale(self, state: int) -> float | None:
        """The median over references in use of the spread of their scores, where it is known."""
        known = self.scales(state)
        return median(known) if known else None

    def scales(self, state: int) -> list[float]:
        """What is known of the spread of the scores of the references in use."""
        return [r.scale[state] for r in self.used(state) if r.scale.get(state)]

    def used(self, state: int | None = None) -> list[Reference]:
        """The references whose pairs are applied in a state, or in some state."""
        if self.transfer.reference is not None:
            return [self.reference(self.transfer.reference)]
        if not self.transfer.choice:
            return list(self.references)
        choice = self.transfer.choice
        wanted = set(choice.values()) if state is None else {choice[state]}
        return [r for r in self.references if r.name in wanted]

    def check_kind(self, scores: Any, where: str) -> None:
        """An error where a bank of raw scores is given (log-)probabilities (..., columns).

        It looks at the first rows; not at tensors on a GPU, nor in code that torch compiles.
        """
        if self.score_kind != "logit" or not readable(scores):
            return
        rows = scores.reshape(-1, scores.shape[-1])
        check_raw(rows, where, "the bank is for raw scores", self.correction.centred)

    def mismatch(self, scores: Any, state: int) -> Comparison | None:
        """How scores (..., columns) compare with the references' scores: in size, or all that is seen.

        It looks at some rows. None where it cannot tell: in state 1, with fewer than 64 rows, on a
        GPU or in code that torch compiles, and where the bank does not know its references' scale.
        """
        return compared(self, scores, state)

    def newest(self, scores: Any, state: int) -> Newest | None:
        """What bringing the bank to these scores (..., columns) does to the newest group.

        It looks at no labels, and of many rows at some. None where that is nothing or cannot be told:
        in state 1, with fewer than 64 rows, and for a correction that looks at the scores anyway.
        """
        return newest_of(self, scores, state)

    def check_scale(self, scores: Any, state: int) -> None:
        """Warn where the scores (..., columns) are of another size than those of the references."""
        self._tell(self.mismatch(scores, state))

    def _tell(self, found: Comparison | None) -> None:
        """Warn, once for each state: a model in use corrects one batch after the other."""
        if found is None or not found.matters:
            return
        what = (found.state, found.sort)
        if what not in self._told:
            self._told.add(what)
            found.warn(stacklevel=3)

    @cached_property
    def _told(self) -> set[tuple[int, str]]:
        """The warnings that this bank has given."""
        return set()

    def words(self) -> str:
        """What it is, for a message."""
        made_from = self.provenance.get("made_from")
        of = f"{made_from} " if isinstance(made_from, str) else ""
        return f"{of}bank ({', '.join(filter(None, (self.correction.name, self.solver)))})"

    # -- files --------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the bank as JSON, atomically."""
        write_json(path, self.to_json())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Bank:
        """Read the file of a bank of one schedule; anything wrong in it is told with its place."""
        return read_json_as(path, cls.from_json)

    def to_json(self) -> dict[str, Any]:
        """The bank as plain values. Times are left out: the same fit gives the same bytes."""
        from transil.correction.bank_json import bank_to_json

        return bank_to_json(self)

    @classmethod
    def from_json(cls, data: Any) -> Bank:
        """Read what `to_json` gave."""
        from transil.correction.bank_json import bank_from_json

        return bank_from_json(data)

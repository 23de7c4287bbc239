"""The corrections themselves: which pair (alpha, beta) reaches which group (Eq. 1 and 2).

Every correction gives each group k an affine map z = alpha_k * o + beta_k. They differ in what is
fitted in a state, and in how that becomes the pairs of the groups. A correction says so in its
*design*, a matrix. For the paper's, and every mode of its released code, it holds 0 and 1: row k
tells which fitted pair group k follows; a row of zeros leaves group k as it is, (1, 0). Others may
take what is known without labels (`Facts`) as coefficients.

| name            | fitted in state s | applied in state s                              | released code |
|-----------------|-------------------|-------------------------------------------------|---------------|
| `bic`           | one pair          | to the newest group only (Eq. 1)                | forward-last  |
| `adbic`         | s pairs           | pair k to group k (Eq. 2)                       | adaptive      |
| `bic-past`      | one pair          | to all past groups, the newest is left alone    | forward-past  |
| `bic-all`       | one pair, as bic  | pair fitted in state k to group k, all k <= s   | forward-all   |
| `adbic-centred` | s pairs           | as adbic, to the distance from a row's mean     | none          |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from transil._common.arrays import Float64Array, FloatArray, Scores, check_scores, is_torch
from transil.correction.affine import correct_groups
from transil.correction.design import Design
from transil.correction.facts import Facts, Moments
from transil.correction.parameters import Pairs, Parameters
from transil.errors import TransilError
from transil.schedule import Schedule, ScheduleLike


class Correction(ABC):
    """How the parameters of a state reach its groups. Subclasses say it in `design`.

    - `centred`: alpha multiplies the distance of o from the mean of its row;
    - `measured`: the design looks at `Facts.scale` and `Facts.moments`, so scores must be seen before;
    - `lasting`: the parameters of earlier states stay in use (see `applied`);
    - `rescales`: a bank may be brought to scores of another size (`Bank.at_scale`).
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    centred: ClassVar[bool] = False
    measured: ClassVar[bool] = False
    lasting: ClassVar[bool] = False
    rescales: ClassVar[bool] = True

    @abstractmethod
    def design(self, facts: Facts) -> Design | Float64Array:
        """How parameters become pairs: a 0/1 matrix (state, pairs), or a `Design`."""

    def designed(self, facts: Facts) -> Design:
        """`design`, or an error where it is none."""
        if self.measured and facts.moments is None:
            raise TransilError(
                f"{self.name}, state {facts.state}: this correction looks at the scores; measure them "
                "once, Bank.like(scores, state) or transil bank make --like, or correct 64 rows at once"
            )
        made: Any = self.design(facts)
        state = facts.state
        if isinstance(made, Design):
            if made.groups != state or not np.isfinite(made.matrix).all():
                raise TransilError(
                    f"{self.name}: the design of state {state} must be finite and of {state} groups"
                )
            return made
        form = f"{self.name}: the design of state {state} must be a 0/1 array of shape ({state}, m)"
        if not isinstance(made, np.ndarray) or made.ndim != 2 or len(made) != state:
            what = (
                f"one of {made.shape}"
                if isinstance(made, np.ndarray)
                else f"a {type(made).__name__}"
            )
            raise TransilError(f"{form} or a Design, not {what}")
        if not np.isin(made, (0, 1)).all() or (made.sum(axis=1) > 1).any():
            raise TransilError(f"{form}, with at most one 1 in a row")
        return Design.of_pairs(made.astype(np.float64))

    def settings(self) -> dict[str, Any]:
        """What a correction was made with, as plain values; `get_correction(name, **settings)`."""
        return {}

    def unlike(self, facts: Facts) -> float:
        """How far a state's scores lie from all that references showed; up to 1 is usual."""
        return 0.0

    def uncertainty(self, facts: Facts) -> Pairs | None:
        """By how much the pairs of another reference would differ (standard deviation), if known."""
        return None

    def outline(self, schedule: Schedule, state: int) -> Design:
        """The design where scores say nothing of any group: tells how many parameters there are."""
        even = Moments(*np.full((4, state), 1.0 / state))
        return self.designed(Facts(schedule, state, 1.0, even))

    def seen(self, scores: FloatArray) -> FloatArray:
        """What alpha multiplies in scores (n, columns).

        The mean of a row itself is the same for all classes: no loss depends on it.
        """
        if not self.centred:
            return scores
        around: FloatArray = scores - scores.mean(axis=1, keepdims=True, dtype=np.float64)
        return around

    def spread(self, parameters: Parameters, facts: Facts) -> Pairs:
        """The pair of each group, from what is fitted in the state."""
        design = self.designed(facts)
        if parameters.counts != design.counts:
            raise TransilError(
                f"{self.name}: state {facts.state} takes {told(design.counts)}, "
                f"not {told(parameters.counts)}"
            )
        return design.pairs_of(parameters)

    def applied(self, history: Mapping[int, Parameters], facts: Facts) -> Pairs:
        """The pair of each group, from what was fitted in this state (and in those before it)."""
        return self.spread(history[facts.state], facts)

    def apply(
        self,
        scores: Scores,
        parameters: Parameters | Mapping[str, Any],
        facts: Facts | ScheduleLike,
    ) -> Scores:
        """Corrected scores, same kind and dtype as `scores`, of shape (..., columns).

        `parameters`: what the state fits, by name. For `facts` a schedule does: the state is the one
        with as many columns as `scores`. With tensors it is differentiable in scores and parameters.
        """
        check_scores(scores)
        if not isinstance(facts, Facts):
            schedule = Schedule.of(facts)
            facts = Facts(schedule, schedule.state_with(scores.shape[-1]))
        design = self.designed(facts)
        values = dict(parameters.items())
        given = {name: int(np.shape(vector)[0]) for name, vector in values.items()}
        if given != design.counts:
            raise TransilError(
                f"{self.name}: expected {told(design.counts)} for these scores, got {told(given)}"
            )
        pairs: Any
        if is_torch(scores):
            import torch

            dtype = torch.promote_types(scores.dtype, torch.float32)
            vector = torch.cat(
                [
                    torch.as_tensor(values[n], dtype=dtype, device=scores.device)
                    for n in design.counts
                ]
            )
            matrix, offset = (vector.new_tensor(x) for x in (design.matrix, design.offset))
            pairs = (matrix @ vector + offset).chunk(2)
        else:
            vectors = [np.asarray(values[n], dtype=np.float64) for n in design.counts]
            pairs = np.split(design.spread(np.concatenate(vectors)), 2)
        return correct_groups(
            scores, pairs[0], pairs[1], facts.schedule, facts.state, centred=self.centred
        )


def told(counts: Mapping[str, int]) -> str:
    """How many parameters there are, in words."""
    if list(counts) == ["alpha", "beta"] and counts["alpha"] == counts["beta"]:
        return f"{counts['alpha']} pairs"
    return "parameters " + ", ".join(f"{name} ({count})" for name, count in counts.items())


class AdBiC(Correction):
    """Adaptive BiC (Eq. 2): every group k of state s has its own pair."""

    name = "adbic"
    summary = "a pair per group (Eq. 2)"

    def design(self, facts: Facts) -> Float64Array:
        return np.eye(facts.state)


class AdBiCCentred(AdBiC):
    """Eq. 2 around the mean m of each row: z = alpha_k * (o - m) + m + beta_k.

    What the scores of a row have in common changes no prediction, but Eq. 2 turns it into something
    that does: alpha_k * m differs between groups. LUCIR's rows have means as large as their
    spread. Beyond the paper.
    """

    name = "adbic-centred"
    summary = "a pair per group, around the mean of each row (beyond the paper)"
    centred = True


class BiC(Correction):
    """BiC (Eq. 1): one pair, applied to the newest group; past groups stay as they are."""

    name = "bic"
    summary = "one pair for the newest group (Eq. 1)"
    rescales = False

    def design(self, facts: Facts) -> Float64Array:
        return np.eye(facts.state, 1, 1 - facts.state)


class BiCPast(Correction):
    """One pair, applied to all past groups; the newest stays as it is (`forward-past`).

    In state 1 there is no past: its pair reaches nothing.
    """

    name = "bic-past"
    summary = "one pair for all past groups together"
    rescales = False

    def design(self, facts: Facts) -> Float64Array:
        return 1.0 - np.eye(facts.state, 1, 1 - facts.state)


class BiCAll(BiC):
    """Fitted as BiC, applied with the pairs of all states so far (`forward-all`).

    The pair fitted in state k, when group k was the newest, keeps being applied to group k in
    every later state. This is what evaluating BiC's checkpoints with all their pairs gives; it
    is not Eq. 1, because the pair of a past group was fitted for another model's scores.
    """

    name = "bic-all"
    summary = "BiC's pair of state k kept on group k for ever"
    lasting = True

    def applied(self, history: Mapping[int, Parameters], facts: Facts) -> Pairs:
        first = Pairs.identity(1)
        kept = [history[k] if k > 1 else first for k in range(1, facts.state + 1)]
        return Pairs(*(np.concatenate([pair[n] for pair in kept]) for n in ("alpha", "beta")))

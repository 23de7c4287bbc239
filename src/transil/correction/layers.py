"""The corrections themselves: which pair (alpha, beta) reaches which group (Eq. 1 and 2).

Every correction of the paper, and every mode of its released code, gives each group k an affine
map z = alpha_k * o + beta_k. They differ in how many pairs a state fits, and in the groups that
follow them, so a correction is written down as a 0/1 matrix (its *design*): row k tells which
fitted pair group k follows; a row of zeros leaves group k as it is, (1, 0).

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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike

from transil.arrays import Float64Array, FloatArray, Scores, check_scores, is_torch
from transil.errors import TransilError
from transil.schedule import Schedule, ScheduleLike

if TYPE_CHECKING:
    import torch

# Rows are corrected in blocks of about this many values, so that a block stays in the cache and
# a memory map larger than memory can pass through.
BLOCK = 1 << 17


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs (alpha, beta), one per row; float64 arrays of shape (m,)."""

    alpha: Float64Array
    beta: Float64Array

    def __post_init__(self) -> None:
        for name in ("alpha", "beta"):
            values = np.array(getattr(self, name), dtype=np.float64)
            if values.ndim != 1:
                raise TransilError(f"{name}: expected a list of numbers, one per pair")
            if not np.isfinite(values).all():
                raise TransilError(f"{name}: NaN or infinite parameter")
            object.__setattr__(self, name, values)
        if len(self.alpha) != len(self.beta):
            raise TransilError(
                f"pairs: {len(self.alpha)} values of alpha but {len(self.beta)} of beta"
            )

    @classmethod
    def identity(cls, count: int) -> Pairs:
        """`count` pairs that change nothing: (1, 0)."""
        return cls(np.ones(count), np.zeros(count))

    def __len__(self) -> int:
        return len(self.alpha)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Pairs)
            and np.array_equal(self.alpha, other.alpha)
            and np.array_equal(self.beta, other.beta)
        )


class Correction(ABC):
    """How the pairs of a state reach its groups. Subclasses say it in `design`."""

    name: ClassVar[str]
    summary: ClassVar[str]
    centred: ClassVar[bool] = False  # alpha multiplies the distance of o from the mean of its row

    @abstractmethod
    def design(self, state: int) -> Float64Array:
        """The 0/1 matrix, shape (state, m): row k has a 1 where group k follows a fitted pair."""

    def reach(self, state: int) -> Float64Array:
        """As `design`, for the pairs that `correct` takes: here those fitted in the state."""
        return self.matrix(state)

    def matrix(self, state: int) -> Float64Array:
        """`design`, or an error where it is none."""
        made: Any = self.design(state)
        form = f"{self.name}: the design of state {state} must be a 0/1 array of shape ({state}, m)"
        if not isinstance(made, np.ndarray) or made.ndim != 2 or len(made) != state:
            raise TransilError(f"{form}, not {_form(made)}")
        if not np.isin(made, (0, 1)).all() or (made.sum(axis=1) > 1).any():
            raise TransilError(f"{form}, with at most one 1 in a row")
        return made.astype(np.float64)

    def fitted(self, state: int) -> int:
        """How many pairs state `state` fits (m)."""
        return int(self.matrix(state).shape[1])

    def applied(self, history: Mapping[int, Pairs], state: int) -> Pairs:
        """One pair per group of `state`, from the pairs fitted in it (and before it)."""
        return self.spread(history[state], state)

    def spread(self, pairs: Pairs, state: int) -> Pairs:
        """One pair per group of `state` from the fitted ones; unmoved groups get (1, 0)."""
        design = self.matrix(state)
        if len(pairs) != design.shape[1]:
            raise TransilError(
                f"{self.name}: state {state} takes {design.shape[1]} pairs, not {len(pairs)}"
            )
        unmoved = 1.0 - design.sum(axis=1)
        return Pairs(design @ pairs.alpha + unmoved, design @ pairs.beta)

    def correct(
        self,
        scores: Scores,
        alpha: ArrayLike | torch.Tensor,
        beta: ArrayLike | torch.Tensor,
        schedule: ScheduleLike,
    ) -> Scores:
        """Corrected scores, same kind and dtype as `scores`, of shape (..., columns).

        `alpha` and `beta` hold the pairs of the state, shape (m,): one per group for `adbic` and
        `bic-all`, a single one for `bic` and `bic-past`. The state is the one with as many
        columns as `scores`. With tensors it is differentiable in all three.
        """
        check_scores(scores)
        schedule = Schedule.of(schedule)
        state = schedule.state_with(scores.shape[-1])
        reach: Any = self.reach(state)
        scale, shift = (_as_vector(v, scores, reach.shape[1], self.name) for v in (alpha, beta))
        if is_torch(scores):
            reach = scale.new_tensor(reach)
        unmoved = 1.0 - reach.sum(1)
        return correct_groups(
            scores, reach @ scale + unmoved, reach @ shift, schedule, state, centred=self.centred
        )


def _form(made: Any) -> str:
    return f"one of {made.shape}" if isinstance(made, np.ndarray) else f"a {type(made).__name__}"


class AdBiC(Correction):
    """Adaptive BiC (Eq. 2): every group k of state s has its own pair."""

    name = "adbic"
    summary = "a pair per group (Eq. 2)"

    def design(self, state: int) -> Float64Array:
        return np.eye(state)


class AdBiCCentred(AdBiC):
    """Eq. 2 around the mean m of each row: z = alpha_k * (o - m) + m + beta_k.

    What the scores of a row have in common changes no prediction, but Eq. 2 turns it into something
    that does: alpha_k * m differs between groups. LUCIR's rows have means as large as their
    spread. Beyond the paper (spec 4.5).
    """

    name = "adbic-centred"
    summary = "a pair per group, around the mean of each row (beyond the paper)"
    centred = True


class BiC(Correction):
    """BiC (Eq. 1): one pair, applied to the newest group; past groups stay as they are."""

    name = "bic"
    summary = "one pair for the newest group (Eq. 1)"

    def design(self, state: int) -> Float64Array:
        return np.eye(state, 1, 1 - state)


class BiCPast(Correction):
    """One pair, applied to all past groups; the newest stays as it is (`forward-past`).

    In state 1 there is no past: its pair reaches nothing.
    """

    name = "bic-past"
    summary = "one pair for all past groups together"

    def design(self, state: int) -> Float64Array:
        return 1.0 - np.eye(state, 1, 1 - state)


class BiCAll(BiC):
    """Fitted as BiC, applied with the pairs of all states so far (`forward-all`).

    The pair fitted in state k, when group k was the newest, keeps being applied to group k in
    every later state. This is what evaluating BiC's checkpoints with all their pairs gives; it
    is not Eq. 1, because the pair of a past group was fitted for another model's scores.
    """

    name = "bic-all"
    summary = "BiC's pair of state k kept on group k for ever"

    def applied(self, history: Mapping[int, Pairs], state: int) -> Pairs:
        kept = [history[k] if k > 1 else Pairs.identity(1) for k in range(1, state + 1)]
        return Pairs(
            np.concatenate([pair.alpha for pair in kept]),
            np.concatenate([pair.beta for pair in kept]),
        )

    def reach(self, state: int) -> Float64Array:
        return np.eye(state)


def correct_groups(
    scores: Scores,
    alpha: ArrayLike | torch.Tensor,
    beta: ArrayLike | torch.Tensor,
    schedule: Schedule,
    state: int,
    out: FloatArray | None = None,
    *,
    centred: bool = False,
) -> Scores:
    """alpha_k * o + beta_k on the columns of each group k: Eq. 2 for any pairs.

    `scores` (..., columns); `alpha`, `beta` one value per group, shape (state,). Half-precision
    scores are corrected in float32 and rounded once. `out` (NumPy only) receives the result.
    `centred`: alpha_k multiplies the distance of o from the mean of its row. A class masked by minus
    infinity stays so, whatever the sign of its alpha.
    """
    schedule.check_columns(scores.shape[-1], state)
    column_group = schedule.group_of_column(state) - 1
    if is_torch(scores):
        import torch

        from transil.correction.torch_layer import affine

        dtype = torch.promote_types(scores.dtype, torch.float32)
        index = torch.as_tensor(column_group, device=scores.device)
        scale, shift = (
            torch.as_tensor(v, dtype=dtype, device=scores.device)[index] for v in (alpha, beta)
        )
        return cast(Scores, affine(scores, scale, shift, centred))
    array = cast(FloatArray, scores)
    work = np.promote_types(array.dtype, np.float32)
    # What overflows becomes infinite, which those who look at the result tell.
    with np.errstate(over="ignore", invalid="ignore"):
        by_column = [np.asarray(v, dtype=work)[column_group] for v in (alpha, beta)]
        return cast(Scores, _affine_in_blocks(array, by_column[0], by_column[1], out, centred))


def _affine_in_blocks(
    scores: FloatArray,
    scale: FloatArray,
    shift: FloatArray,
    out: FloatArray | None,
    centred: bool,
) -> FloatArray:
    if out is None:
        out = np.empty(scores.shape, dtype=scores.dtype)
    columns = scores.shape[-1]
    flat_in, flat_out = scores.reshape(-1, columns), out.reshape(-1, columns)
    if out.size and not np.shares_memory(flat_out, out):
        raise TransilError("out: its rows do not lie one after the other; give a contiguous array")
    rows = max(1, BLOCK // columns)
    buffer = np.empty((min(rows, len(flat_in)), columns), dtype=scale.dtype)
    turned = bool((scale <= 0).any())  # minus infinity would become plus infinity, or no number
    for start in range(0, len(flat_in), rows):
        block = flat_in[start : start + rows]
        target = flat_out[start : start + rows]
        work = target if target.dtype == scale.dtype else buffer[: len(block)]
        mean = _row_means(block, scale.dtype) if centred else None
        masked = np.isneginf(block) if turned else None
        np.multiply(block, scale, out=work)
        np.add(work, shift, out=work)
        if mean is not None:
            work += mean * (1.0 - scale)
        if masked is not None:
            work[masked] = -np.inf
        if work is not target:
            target[...] = work
    return out


def _row_means(scores: FloatArray, dtype: Any) -> FloatArray:
    """Of finite scores, shape (n, 1): a class may be masked by minus infinity."""
    mean: FloatArray = scores.mean(axis=1, keepdims=True, dtype=dtype)
    if not np.isfinite(mean).all():
        finite = np.isfinite(scores)
        total = np.where(finite, scores, 0.0).sum(axis=1, keepdims=True, dtype=np.float64)
        mean = (total / np.maximum(finite.sum(axis=1, keepdims=True), 1)).astype(dtype)
    return mean


def _as_vector(values: Any, like: Any, length: int, name: str) -> Any:
    """`values` as a vector of the kind of `like`, in at least float32, of the wanted length."""
    if is_torch(like):
        import torch

        dtype = torch.promote_types(like.dtype, torch.float32)
        vector: Any = torch.as_tensor(values, dtype=dtype, device=like.device)
    else:
        vector = np.asarray(values, dtype=np.float64)
    if tuple(vector.shape) != (length,):
        raise TransilError(
            f"{name}: expected {length} pairs for these scores, got values of shape "
            f"{tuple(vector.shape)}"
        )
    return vector

"""`Corrector`: correct the scores of a deployed model, with what unlabelled scores tell.

    corrector = transil.Corrector(schedule=[12, 5, 5, 8, 3, 4], method="lwf-t")
    corrector.fit(unlabelled_scores, state=6)
    better = corrector.transform(scores)

It follows scikit-learn's conventions: the constructor stores what it is given, `fit` learns, learned
values end in `_`. No label is used.
"""

from __future__ import annotations

import inspect
import os
import warnings
from typing import Any, Self

import numpy as np

from transil._common.arrays import Float64Array, FloatArray, check_raw
from transil._common.pretrained import Pretrained
from transil.adaptation.columns import Columns, Corrected, temperature_of
from transil.adaptation.corrector_file import FORMAT, VERSION, read_corrector, write_corrector
from transil.adaptation.ledger import Ledger, open_ledger
from transil.adaptation.left import LEAST_LEFT, left_of, softmax
from transil.adaptation.matching import Spread, match, mean_softmax
from transil.adaptation.priors import CAUTIOUS, Prior, Situation, find_prior, with_newest
from transil.adaptation.sample import SIZE, Sample, different
from transil.adaptation.table import Table, read_table
from transil.correction.bank import Bank
from transil.correction.columns import OrderLike, backwards, read_order
from transil.correction.shipped import bank_for, load_bank
from transil.errors import AdaptationWarning, TransilError
from transil.schedule import IntArray, Schedule, ScheduleLike

NO_BANK = "none"  # in place of a bank: the prior alone is used
LEAST_ROWS = 64
# Size and moments of groups are told by so many values, the shares of groups by so many rows.
MOST_VALUES, MOST_ROWS = 1 << 22, 20_000
# With so many rows for each class frequencies are told so well that shrinking changes nothing.
MANY = 50
# Priors that look at what the model keeps of old classes: where it keeps nothing, they abstain.
REMEMBER = (CAUTIOUS, "remembered")


class Corrector(Pretrained):
    """A correction of one state: a bank, adapted to unlabelled scores under a stated prior.

    - `schedule`: the groups of classes learned so far, or all; without it no groups are known, and the
      prior alone is used;
    - `method`: how the model is trained, which names the shipped bank; None takes the generic one;
      `bank`: one of your own in its place, a file, or "none";
    - `prior`: which class frequencies are assumed (see `transil.adaptation.priors`): "uniform",
      "remembered", "predicted", shares of classes or groups, shares by class name; None is cautious:
      what the ledger remembers, else nothing is assumed;
    - `newest`: the share of the newest group, where it is known; it matters most;
    - `ledger`: what was remembered (`Ledger`, or its file);
    - `strength`: one factor on what the bank does, from 0 to 2 (None: the bank's own, mostly 1);
    - `order`: the column of the i-th class learned, where columns stand otherwise;
    - `half_life`: for `partial_fit`: after how many rows a row counts half; None counts all alike.

    Learned: `state_`; `columns_`, what is done to each column; `prior_`, the class frequencies that
    were assumed; `predicted_` and `expected_`, the shares of classes before and with the shifts
    `shifts_`, in learning order (None without scores); `left_`, what is left of old classes, from 0
    to 1; `abstained_`, why nothing was done, or None.
    """

    _kind = (FORMAT, VERSION)
    state_: int
    rows_: int
    n_features_in_: int
    feature_names_in_: Any
    classes_: Any
    columns_: Columns
    shifts_: Float64Array
    prior_: Prior | None
    predicted_: Float64Array | None
    expected_: Float64Array | None
    temperature_: float
    left_: float | None
    abstained_: str | None
    _schedule: Schedule
    _places: IntArray | None
    _bank: Bank | None
    _ledger: Ledger | None
    _sample: Sample

    def __init__(
        self,
        schedule: ScheduleLike | None = None,
        *,
        method: str | None = None,
        bank: Bank | str | os.PathLike[str] | None = None,
        prior: Any = None,
        newest: float | None = None,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        strength: float | None = None,
        order: OrderLike | None = None,
        half_life: int | None = None,
        least_rows: int = LEAST_ROWS,
    ) -> None:
        self.schedule = schedule
        self.method = method
        self.bank = bank
        self.prior = prior
        self.newest = newest
        self.ledger = ledger
        self.strength = strength
        self.order = order
        self.half_life = half_life
        self.least_rows = least_rows

    # -- learning -----------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, *, state: int | None = None) -> Self:  # noqa: N803
        """Learn from unlabelled scores (n, columns) of the traffic; labels are not looked at.

        `state`: that of the model; without it the one that has as many columns.
        """
        table = read_table(X)
        self._start(table, state)
        return self._adapt(table.scores, len(table.scores))

    def partial_fit(self, X: Any, y: Any = None, *, state: int | None = None) -> Self:  # noqa: N803
        """Learn from more unlabelled scores of the same state, in memory that does not grow."""
        table = read_table(X)
        sample: Sample | None = getattr(self, "_sample", None)
        if sample is None or (state is not None and state != self.state_):
            self._start(table, state, least=1)
            sample = Sample(_positive(self.half_life, "half_life"))
        self._check_columns(table)
        sample.add(self._learned(table.scores))
        self._sample = sample
        if len(sample.rows) < self.least_rows:
            self.columns_ = Columns.identity(self.n_features_in_)  # too little to say anything yet
            return self
        return self._adapt(sample.rows, sample.seen, learned=True)

    def _start(self, table: Table, state: int | None, least: int | None = None) -> None:
        """What is known before any score is looked at."""
        least = self.least_rows if least is None else least
        if len(table.scores) < least:
            rows = "1 sample" if len(table.scores) == 1 else f"{len(table.scores)} samples"
            raise TransilError(
                f"{rows} tell too little, a minimum of {least} is required; give "
                "more unlabelled scores (least_rows= sets how many)"
            )
        schedule = None if self.schedule is None else Schedule.of(self.schedule)
        if schedule is None and isinstance(self.bank, Bank):
            schedule = self.bank.schedule
        columns = table.scores.shape[1]
        if schedule is None:
            self._needs_schedule(state)
            schedule = Schedule.equal(columns, 1)
        self.state_ = schedule.state_with(columns) if state is None else schedule.check_state(state)
        schedule.check_columns(columns, self.state_)
        self.n_features_in_ = columns
        if table.names is not None:
            self.feature_names_in_ = np.array(table.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self._schedule = schedule
        self._places = None if self.order is None else read_order(self.order, columns)
        labels = schedule.classes(self.state_) if table.names is None else np.array(table.names)
        self.classes_ = labels if self._places is None or table.names is not None else labels[
            backwards(self._places)
        ]  # fmt: skip
        self._bank = self._find_bank(schedule)
        self._ledger = self._find_ledger(schedule)

    def _needs_schedule(self, state: int | None) -> None:
        bank = None if self.bank == NO_BANK else self.bank
        wants = {**vars(self), "state": state, "bank": bank}
        for what in ("method", "ledger", "newest", "state", "bank"):
            if wants[what] is not None:
                raise TransilError(
                    f"{what} needs the schedule, the sizes of the groups: schedule=[12, 5, 5]"
                )

    def _find_bank(self, schedule: Schedule) -> Bank | None:
        """The bank that is adapted; None where there is nothing to correct, or none is wanted."""
        if self.state_ == 1 or (isinstance(self.bank, str) and self.bank == NO_BANK):
            return None
        if self.bank is None:
            return load_bank(self.method, schedule=schedule)
        bank = bank_for(self.bank, schedule)
        if bank.schedule.sizes[: self.state_] != schedule.sizes[: self.state_]:
            raise TransilError(
                f"bank: it is of groups of {bank.schedule}, not of {schedule}; give the schedule it was "
                "made for, or name a method"
            )
        return bank

    def _find_ledger(self, schedule: Schedule) -> Ledger | None:
        """The ledger; where a file is lost or damaged that is told, and nothing is remembered."""
        if self.ledger is None:
            return None
        try:
            ledger = open_ledger(self.ledger)
        except TransilError as error:
            warnings.warn(
                f"the ledger is not used: {error}; nothing is remembered, so nothing is assumed",
                AdaptationWarning,
                stacklevel=4,
            )
            return None
        ledger.check(schedule, self.method)
        return ledger

    def _learned(self, scores: FloatArray) -> FloatArray:
        """Columns in the order in which their classes were learned."""
        return scores if self._places is None else scores[:, self._places]

    def _adapt(self, scores: FloatArray, rows: int, *, learned: bool = False) -> Self:
        """Scale, strength, shifts; scores (n, columns)."""
        scores = scores if learned else self._learned(scores)
        self.rows_ = rows
        corrected, base = self._based(scores)
        self.temperature_ = corrected.temperature
        sample = softmax(corrected[:: -(-len(scores) // SIZE)])
        old = self._schedule.seen[self.state_ - 2] if self.state_ > 1 else 0
        self.left_ = left_of(sample, old)
        self.predicted_ = mean_softmax(corrected.every(-(-len(scores) // MOST_ROWS)))
        remembered = None if self._ledger is None else self._ledger.within(self.state_)
        situation = Situation(self._group(), self.predicted_, remembered)
        self.prior_ = self._find_prior(situation)
        self.abstained_ = self._abstains()
        self.shifts_, self.expected_ = np.zeros(len(self.predicted_)), self.predicted_
        if self.abstained_ is not None:
            base = Columns.identity(len(self.predicted_))
            warnings.warn(self.abstained_, AdaptationWarning, stacklevel=3)
        elif self.prior_.shares is not self.predicted_ and len(self.predicted_) > 1:
            images = different(scores)
            spread = Spread() if images < MANY * len(self.predicted_) else None
            centre = situation.telling(self.prior_.shares)
            found = match(
                corrected, self.prior_.shares,
                group=self._group(), spread=spread, centre=centre, images=images,
            )  # fmt: skip
            self.shifts_, self.expected_ = corrected.temperature * found.shifts, found.after
        made = base.shifted(self.shifts_)
        self.columns_ = made if self._places is None else made.taken(backwards(self._places))
        return self

    def _based(self, scores: FloatArray) -> tuple[Corrected, Columns]:
        """The scores as the bank corrects them, at their own scale."""
        columns = Columns.identity(scores.shape[1])
        centred = self._bank is None or self._bank.correction.centred
        check_raw(scores, "scores", "a correction is for raw scores", centred)
        if self._bank is not None:
            rows = max(LEAST_ROWS, MOST_VALUES // scores.shape[1])
            bank = self._bank.like(scores[:: -(-len(scores) // rows)], self.state_)
            if self.strength is not None:
                bank = bank.at_strength(self.strength)
            columns = Columns.of(bank, self.state_)
        some = Corrected(scores[:: -(-len(scores) // SIZE)], columns)
        return Corrected(scores, columns, temperature_of(some[:])), columns

    def _group(self) -> IntArray:
        return self._schedule.group_of_column(self.state_) - 1

    def _find_prior(self, situation: Situation) -> Prior:
        names = self.classes_ if self._places is None else self.classes_[self._places]
        prior = find_prior(self.prior, situation, list(names))
        return prior if self.newest is None else with_newest(prior, situation, self.newest)

    def _abstains(self) -> str | None:
        """Why nothing is done, where nothing is left of old classes and the prior counts on them."""
        asked = CAUTIOUS if self.prior is None else self.prior
        counts = isinstance(asked, str) and asked in REMEMBER
        if not counts or self.left_ is None or self.left_ >= LEAST_LEFT:
            return None
        return (
            f"state {self.state_}: the model keeps nothing of its old classes ({self.left_:.2f} of 1; "
            f"below {LEAST_LEFT:g} no correction can bring them back), so scores are left as they are; "
            "retrain with a method that keeps old classes, such as lwf-t or lucir"
        )

    # -- using it -----------------------------------------------------------------------------

    def transform(self, X: Any) -> Any:  # noqa: N803
        """Corrected scores (n, columns), of the same kind as those given."""
        table = read_table(X)
        self._check_fitted()
        self._check_columns(table)
        return table.back(self.columns_.correct(table.given))

    def fit_transform(self, X: Any, y: Any = None, **words: Any) -> Any:  # noqa: N803
        """`fit`, then `transform` the same scores."""
        return self.fit(X, y, **words).transform(X)

    def predict(self, X: Any) -> Any:  # noqa: N803
        """The class of each row: a label of the schedule, or the name of a data frame's column."""
        table = read_table(X)
        self._check_fitted()
        self._check_columns(table)
        corrected: FloatArray = self.columns_.correct(table.scores)
        return self.classes_[corrected.argmax(axis=1)]

    def layer(self) -> Any:
        """The correction as a torch module, the last one of a model."""
        from transil.correction.torch_layer import CorrectionLayer

        self._check_fitted()
        made = self.columns_
        return CorrectionLayer(made.scale, made.shift, made.centred)

    def fold(self, head: Any, bias: Any = None) -> Any:
        """The correction inside a head: new weights, exactly, and no extra layer.

        `head`: a linear layer or a cosine head of torch, and a new module comes back; or weights
        (columns, d) with `bias` (columns,), and new ones come back.
        """
        from transil.adaptation.folding import fold

        self._check_fitted()
        return fold(self.columns_, head, bias)

    # -- files --------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what was learned as JSON, atomically; neither bank nor ledger is needed to use it."""
        self._check_fitted()
        write_corrector(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Corrector:
        """A corrector that was saved."""
        return read_corrector(path, cls)

    def _known(self, schedule: Schedule, state: int, columns: Columns) -> None:
        """Take what was not learned from scores here."""
        self._schedule, self._places, self._bank, self._ledger = schedule, None, None, None
        self.state_, self.rows_, self.columns_ = state, 0, columns
        self.n_features_in_ = len(columns.scale)
        self.classes_ = schedule.classes(state)
        self.shifts_ = np.zeros(self.n_features_in_)
        self.prior_ = self.predicted_ = self.expected_ = self.left_ = self.abstained_ = None
        self.temperature_ = 1.0

    # -- without a bank -----------------------------------------------------------------------

    @classmethod
    def from_weights(
        cls, weight: Any, schedule: ScheduleLike, *, state: int | None = None
    ) -> Corrector:
        """Weight alignment (Zhao et al., CVPR 2020): no bank, no scores, only the head's weights.

        `weight` (columns, d): rows of the last layer. Rows of the newest classes are scaled to the
        mean length of the older ones. For heads without normalised rows.
        """
        from transil.adaptation.controls import aligned

        return aligned(cls, weight, schedule, state)

    @classmethod
    def from_newest(
        cls, scores: Any, labels: Any, schedule: ScheduleLike, *, state: int | None = None
    ) -> Corrector:
        """One shift of the newest group, from scores of its own labelled images (n, columns).

        To such an image old classes and the other new ones are all wrong: a model without bias gives
        both the same mean score.
        """
        from transil.adaptation.controls import from_newest

        return from_newest(cls, scores, labels, schedule, state)

    # -- scikit-learn -------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """What the constructor was given."""
        names = list(inspect.signature(type(self).__init__).parameters)[1:]
        return {name: getattr(self, name) for name in names}

    def set_params(self, **given: Any) -> Self:
        """Change what the constructor was given."""
        known = self.get_params()
        for name, value in given.items():
            if name not in known:
                raise TransilError(
                    f"Corrector has no setting '{name}'; there are: {', '.join(known)}"
                )
            setattr(self, name, value)
        return self

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """The names of the columns that `transform` gives: those that came in."""
        self._check_fitted()
        if hasattr(self, "feature_names_in_"):
            return self.feature_names_in_
        if input_features is not None:
            return np.asarray(input_features, dtype=object)
        return np.array([f"x{i}" for i in range(self.n_features_in_)], dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "columns_")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=["float64", "float32"]),
            input_tags=InputTags(),
        )

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        given = (
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if value is not defaults[name].default
        )
        return f"{type(self).__name__}({', '.join(given)})"

    # -- checks -------------------------------------------------------------------------------

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise _not_fitted()

    def _check_columns(self, table: Table) -> None:
        columns = table.scores.shape[1]
        if columns != self.n_features_in_:
            raise TransilError(
                f"X has {columns} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input: scores of state {self.state_}"
            )
        table.check_names(getattr(self, "feature_names_in_", None))


def _positive(value: int | None, what: str) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise TransilError(f"{what}: expected a whole number of rows above 0, not {value!r}")
    return value


def _not_fitted() -> Exception:
    """scikit-learn's own error where that is in use, so that its users recognise it."""
    import sys

    text = "this Corrector is not fitted yet; call fit with unlabelled scores first"
    if "sklearn" in sys.modules:
        from sklearn.exceptions import NotFittedError

        error: Exception = NotFittedError(text)
        return error
    return TransilError(text)

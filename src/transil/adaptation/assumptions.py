"""What would follow from other class frequencies than those that a correction assumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from transil.adaptation.left import softmax
from transil.adaptation.matching import match
from transil.adaptation.newest import Counted, inside
from transil.adaptation.priors import CAUTIOUS, Prior, find_prior, with_newest
from transil.adaptation.risk import Risk, gain_of, risk_of
from transil.adaptation.view import View

# Of a newest group that is twice as common as assumed, the share is no more than this.
MOST_NEWEST = 0.9


@dataclass(frozen=True)
class Assumption:
    """What would follow from other class frequencies.

    `share`: what is assumed of the newest group; `called`: the share of predictions that it would have;
    `moved`: the share of predictions that would differ from the advised correction's; `gain`: what the
    advised correction would gain over raw scores if this were so, as the scores themselves tell it.
    """

    name: str
    says: str
    share: float
    called: float
    moved: float
    gain: float | None = None
    advised: bool = False


def assumptions_of(view: View, counted: Counted) -> tuple[tuple[Assumption, ...], Risk | None]:
    """What would follow from each of several priors, and the risk of what is advised."""
    advised = view.made.prior_
    assert advised is not None
    acts = bool(np.any(view.raw != view.corrected))
    rows: list[Assumption] = []
    risk = None
    for label, prior in _priors(view, advised, counted):
        base = np.asarray(view.base[:], dtype=np.float64)
        shifts = np.zeros(base.shape[1])
        if prior.shares is not view.situation.predicted:
            shifts = match(view.base, prior.shares).shifts
        powers = softmax(base + shifts)
        own = prior is advised
        predictions = view.corrected if own else powers.argmax(axis=1)
        if acts and own:
            risk = risk_of(powers, view.raw, view.corrected, view.start)
        rows.append(
            Assumption(
                name=label,
                says=prior.says,
                share=float(prior.shares[view.start :].sum() / prior.shares.sum()),
                called=float(np.mean(predictions >= view.start)),
                moved=float(np.mean(predictions != view.corrected)),
                gain=gain_of(powers, view.raw, view.corrected) if acts else None,
                advised=own,
            )
        )
    return tuple(rows), risk


def _priors(view: View, advised: Prior, counted: Counted) -> Sequence[tuple[str, Prior]]:
    """The advised prior first, then the others; each with a short name."""
    situation = view.situation
    names = ["predicted", "uniform"]
    if situation.remembered is not None:
        names += [CAUTIOUS, "remembered"]
    found = [(advised.name, advised)]
    found += [(n, find_prior(n, situation, ())) for n in names if n != advised.name]
    newest = advised.shares[view.start :].sum() / advised.shares.sum()
    twice = min(2 * float(newest), MOST_NEWEST)
    if twice > newest:
        found.append(("newest twice as common", with_newest(advised, situation, twice)))
    estimate = counted.estimate
    if counted.source == "given" and estimate is not None and estimate.share is not None:
        other = inside(estimate.share)
        found.append((f"newest {other:.0%}, estimated", with_newest(advised, situation, other)))
    if counted.share is None and estimate is not None and 0 < estimate.high < 1:
        most = estimate.high
        found.append((f"newest {most:.0%}, at most", with_newest(advised, situation, most)))
    return found

"""The share of the newest group, estimated from images that are known to be of it.

Of unlabelled images a share p is predicted as the newest group. It is made up of images of that group
that are recognised, at a rate t, and of others that are mistaken for it, at a rate f:

    p = t q + f (1 - q),        so        q = (p - f) / (t - f)

Held-out labelled images of the newest group tell t. Only images that cannot be of it tell f: traffic
from before its classes existed. Without f all that is known is that it is not below 0, so q is at most
p / t.

Two things are assumed: images of the newest group in the traffic are like the labelled ones, and the
others are like those from before.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, sqrt
from statistics import NormalDist

from transil.errors import TransilError

Count = tuple[int, int]  # predicted as the newest group, and of how many


@dataclass(frozen=True)
class NewestShare:
    """The share of the newest group, None where only its range is known, and its interval.

    `predicted`, `recognised` and `mistaken` are p, t and f; `level` is that of the interval, or of the
    upper end alone where there is no `share`.
    """

    share: float | None
    low: float
    high: float
    predicted: float
    recognised: float
    mistaken: float | None = None
    level: float = 0.95

    @property
    def tells(self) -> bool:
        """Whether anything is known at all."""
        return self.share is not None or self.high < 1


@dataclass(frozen=True)
class Counted:
    """The share of the newest group that is counted on, where it comes from, and what labels say of it.

    `source`: 'given' or 'estimated'; None, as the share, where nothing is known of it.
    """

    share: float | None = None
    source: str | None = None
    estimate: NewestShare | None = None

    @classmethod
    def of(cls, given: float | None, estimate: NewestShare | None) -> Counted:
        """What a person says comes first."""
        if given is not None:
            return cls(given, "given", estimate)
        if estimate is not None and estimate.share is not None:
            return cls(inside(estimate.share), "estimated", estimate)
        return cls(estimate=estimate)


def inside(share: float) -> float:
    """The nearest share that a prior can have: neither none nor all."""
    return min(max(share, 0.001), 0.999)


def newest_share(
    predicted: Count, recognised: Count, mistaken: Count | None = None, *, level: float = 0.95
) -> NewestShare:
    """Estimate it from three counts, each (predicted as the newest group, of how many images).

    `predicted`: unlabelled images of the traffic; `recognised`: labelled images of the newest group;
    `mistaken`: images from before it existed. The interval is that of the delta method on binomial
    rates. Where t is not surely above f, the predictions tell nothing: the range is then 0 to 1.
    """
    if not isfinite(level) or not 0 < level < 1:
        raise TransilError(f"level: between 0 and 1, as 0.95, not {level!r}")
    p, p_error = _rate(predicted, "predicted")
    t, t_error = _rate(recognised, "recognised")
    if mistaken is None:
        high = _most(p, p_error, t, t_error, NormalDist().inv_cdf(level))
        return NewestShare(None, 0.0, high, p, t, None, level)
    f, f_error = _rate(mistaken, "mistaken")
    z = NormalDist().inv_cdf(0.5 + level / 2)
    apart = t - f
    if apart <= z * sqrt(t_error**2 + f_error**2):
        return NewestShare(None, 0.0, 1.0, p, t, f, level)
    share = min(1.0, max(0.0, (p - f) / apart))
    error = sqrt(p_error**2 + (share * t_error) ** 2 + ((1 - share) * f_error) ** 2) / apart
    low, high = max(0.0, share - z * error), min(1.0, share + z * error)
    return NewestShare(share, low, high, p, t, f, level)


def _most(p: float, p_error: float, t: float, t_error: float, z: float) -> float:
    """The upper end of p / t, with its uncertainty."""
    if t <= z * t_error or p >= t:
        return 1.0
    ratio = p / t
    error = sqrt(p_error**2 + (ratio * t_error) ** 2) / t
    return min(1.0, ratio + z * error)


def _rate(count: Count, what: str) -> tuple[float, float]:
    """A rate and its standard error, which is that of one success and one failure more.

    So it is above 0 even where all or none of the images are predicted so.
    """
    hits, of = count
    if of < 1 or not 0 <= hits <= of:
        raise TransilError(
            f"{what}: {hits} of {of} images; give counts from 0 to the number of them"
        )
    near = (hits + 1) / (of + 2)
    return hits / of, sqrt(near * (1 - near) / of)

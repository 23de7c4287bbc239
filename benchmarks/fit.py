"""How much faster the fitters are than a straightforward loop; ratios, measured side by side.

    python benchmarks/fit.py [FOLDER]        # or: make bench

The baseline is what one would write first: a module per group, a loop over groups and batches,
torch's Adam, 200 epochs. All three fit the nine states of scores of the released size (100
classes, S = 10, 500 validation rows per group: 1.9 million values), on one thread. With the
folder of the released LUCIR scores the data are those, else they are generated.
"""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from transil import ScoreStore, fit
from transil.testing import biased_scores

RELEASED = Path(__file__).resolve().parents[2] / "shared/released-scores/logits_lucir_s10"
EPOCHS, BATCH = 200, 128


class Head(torch.nn.Module):
    """One pair."""

    def __init__(self) -> None:
        super().__init__()
        self.alpha = torch.nn.Parameter(torch.ones(1))
        self.beta = torch.nn.Parameter(torch.zeros(1))

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        """Alpha * scores + beta."""
        return self.alpha * scores + self.beta


def baseline(store: ScoreStore, correction: str) -> None:
    """Per-group, per-batch Adam: the straightforward way to write the released recipe."""
    heads = [Head()]
    for state in range(2, store.schedule.states + 1):
        heads.append(Head())
        data = store.get("val", state)
        scores = torch.from_numpy(data.scores.copy())
        target = torch.from_numpy(data.columns.copy())
        group = torch.from_numpy(store.schedule.group_of_column(state))[target]
        groups = [(scores[group == k], target[group == k]) for k in range(1, state + 1)]
        moved = heads if correction == "adbic" else heads[-1:]  # BiC: only the newest group
        optimiser = torch.optim.Adam(
            [p for head in moved for p in head.parameters()], lr=1e-3, weight_decay=0.005
        )
        best, kept = -1.0, heads
        for _ in range(EPOCHS):
            hits = rows = 0
            for x, y in groups:
                for start in range(0, len(x), BATCH):
                    part, true = x[start : start + BATCH], y[start : start + BATCH]
                    chunks = torch.split(part, list(store.schedule.sizes[:state]), dim=1)
                    kept_as_is = chunks[: state - len(moved)]
                    new = [h(c) for h, c in zip(moved, chunks[-len(moved) :], strict=True)]
                    z = torch.cat([*kept_as_is, *new], dim=1)
                    loss = torch.nn.functional.cross_entropy(z, true)
                    loss = loss + 0.05 * torch.cat([h.beta for h in moved]).square().sum()
                    optimiser.zero_grad()
                    loss.backward()  # type: ignore[no-untyped-call]
                    optimiser.step()
                    top = z.topk(5, dim=1).indices
                    hits += int((top == true[:, None]).any(dim=1).sum())
                    rows += len(true)
            if hits / rows > best:
                best, kept = hits / rows, copy.deepcopy(heads)
        heads = kept


def seconds(work: Callable[[], object], repeats: int) -> float:
    """The median time of a call."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return sorted(times)[len(times) // 2]


def main() -> None:
    torch.set_num_threads(1)
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else RELEASED
    if folder.is_dir():
        from transil.interop import dkt

        store, source = dkt.import_scores(folder), "released LUCIR scores"
    else:
        store = biased_scores("100/10", images_per_class=50, splits=("val",))
        source = "generated scores"
    values = sum(store.get("val", s).scores.size for s in range(2, store.schedule.states + 1))
    print(f"fit of states 2..10, {source}, {values:,} values, one thread", flush=True)
    for correction in ("adbic", "bic"):
        slow = seconds(lambda c=correction: baseline(store, c), 1)  # type: ignore[misc]
        print(f"{correction:<8}{'loop over groups and batches, Adam':<36}{slow:9.2f} s", flush=True)
        goals = {"newton": 100, "authors": 20} if correction == "adbic" else {}
        for solver in ("newton", "authors", "paper"):
            fast = seconds(lambda s=solver, c=correction: fit(store, solver=s, correction=c), 3)  # type: ignore[misc]
            wanted = f"(goal: {goals[solver]}x)" if solver in goals else ""
            print(
                f"{correction:<8}{solver:<36}{fast:9.2f} s {slow / fast:7.0f}x {wanted}", flush=True
            )


if __name__ == "__main__":
    main()

"""The corrections: a contract that every one must keep, and what each of them does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from support import UNEQUAL, unequal_store
from transil import AdBiC, Bank, BiC, BiCAll, BiCPast, Schedule, ScoreStore, TransilError, fit
from transil.correction import (
    Facts,
    Pairs,
    Parameters,
    correct_groups,
    get_correction,
    register_correction,
)
from transil.correction.affine import BLOCK
from transil.correction.any_schedule import AdBiCAny
from transil.correction.layers import AdBiCCentred, Correction
from transil.correction.registry import CORRECTIONS
from transil.testing import biased_scores

SCHEDULE = Schedule.of(UNEQUAL)


class FirstAndRest(Correction):
    """A third-party correction: one pair for group 1, one for all others."""

    name = "first-and-rest"
    summary = "a pair for the first group, one for the rest"

    def design(self, facts: Facts) -> Any:
        first = np.arange(facts.state) == 0
        return np.stack([first, ~first], axis=1).astype(float)[:, : min(2, facts.state)]


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    register_correction(FirstAndRest)
    yield
    del CORRECTIONS._things[FirstAndRest.name]


EVERY = pytest.mark.parametrize(
    "correction",
    [AdBiC(), BiC(), BiCPast(), BiCAll(), AdBiCCentred(), AdBiCAny(), FirstAndRest()],
    ids=lambda c: c.name,
)


def _scores(state: int, shape: tuple[int, ...] = (7,), seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(0, 5, (*shape, SCHEDULE.columns(state)))


def _pairs(correction: Correction, state: int, seed: int = 1) -> Pairs:
    count = correction.outline(SCHEDULE, state).counts["alpha"]
    random = np.random.default_rng(seed)
    return Pairs(random.uniform(0.5, 1.5, count), random.normal(0, 1, count))


def _facts(state: int) -> Facts:
    """What scores of that state say."""
    return Facts.of(_scores(state, (70,)), SCHEDULE, state)


def _parameters(correction: Correction, state: int, seed: int = 1) -> Parameters:
    """Some that change scores."""
    start = correction.outline(SCHEDULE, state).identity()
    noise = np.random.default_rng(seed).uniform(-0.4, 0.4, len(start.vector))
    return start.replaced(start.vector + noise)


# -- the contract ------------------------------------------------------------------------------


def test_the_contract_covers_all_that_is_registered() -> None:
    ours = {"adbic", "bic", "bic-past", "bic-all", "adbic-centred", "adbic-any", "first-and-rest"}
    assert ours == set(CORRECTIONS.names())


@EVERY
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_layer_does_what_the_bank_does(correction: Correction, dtype: torch.dtype) -> None:
    """As a module it can be compiled in one piece, exported, and moved with its model."""
    bank = fit(biased_scores("12/3", images_per_class=8), correction=correction.name)
    for state in (1, 3):
        scores = torch.from_numpy(biased_scores("12/3", seed=3).get("test", state).scores)
        bank = bank.ready(scores, state)
        scores = scores[:9].to(dtype)
        layer = bank.layer(state)
        expected = bank.correct(scores, state)
        torch.testing.assert_close(layer(scores).float(), expected.float())
        assert layer(scores[0]).dtype == dtype
        assert set(layer.state_dict()) == {"scale", "shift", "_extra_state"}
        assert not list(layer.parameters())
        with pytest.raises(TransilError, match="scores of 1 columns, but this layer corrects"):
            layer(scores[:, :1])
    exact = layer.scale.clone()
    assert torch.equal(layer.to(torch.bfloat16).half().scale, exact)  # not rounded with a model
    assert layer.to("meta").scale.is_meta
    layer = bank.layer(state)
    whole = torch.compile(layer, backend="eager", fullgraph=True)
    torch.testing.assert_close(whole(scores), layer(scores))


@pytest.mark.parametrize("correction", [AdBiC(), AdBiCCentred()])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_a_layer_is_scripted_and_traced(correction: Correction) -> None:
    layer = replace(fit(unequal_store()), correction=correction).layer(3)
    scores = torch.randn(4, 65)
    scores[0, 2] = -torch.inf
    scripted, traced = torch.jit.script(layer), torch.jit.trace(layer, scores)  # type: ignore[no-untyped-call]
    for form in (scripted, traced, torch.export.export(layer, (scores,)).module()):
        assert torch.equal(form(scores), layer(scores))
    assert "isneginf" not in str(traced.inlined_graph)  # unknown to the older exporter to ONNX
    half = scores.half()
    assert torch.equal(scripted(half), layer(half))
    with pytest.raises(torch.jit.Error, match="scores of 2 columns, but this layer corrects 65"):
        scripted(scores[:, :2])


def test_a_layer_refuses_the_state_dict_of_another_kind() -> None:
    bank = fit(unequal_store())
    plain, other = bank.layer(3), fit(unequal_store(1)).layer(3)
    centred = replace(bank, correction=AdBiCCentred()).layer(3)
    model = torch.nn.Sequential(torch.nn.Identity(), plain)
    with pytest.raises(TransilError, match="is centred, and the layer is not centred; make the"):
        model.load_state_dict({f"1.{k}": v for k, v in centred.state_dict().items()})
    plain.load_state_dict(other.state_dict())
    assert torch.equal(plain.shift, other.shift)
    earlier = {k: v for k, v in other.state_dict().items() if k != "_extra_state"}
    assert not any(plain.load_state_dict(earlier))


def test_a_compiled_or_exported_model_may_correct_its_scores() -> None:
    bank = fit(biased_scores("12/3", images_per_class=8))

    class Model(torch.nn.Module):
        def forward(self, scores: torch.Tensor) -> torch.Tensor:
            return bank.correct(scores, 3)

    scores = torch.from_numpy(biased_scores("12/3", seed=3).get("test", 3).scores)
    expected = bank.correct(scores, 3)
    torch.testing.assert_close(torch.compile(Model(), backend="eager")(scores), expected)
    exported = torch.export.export(Model(), (scores,)).module()
    torch.testing.assert_close(exported(scores), expected)


@cache
def _fitted(name: str) -> Bank:
    return fit([biased_scores("12/3", images_per_class=8, seed=s) for s in (1, 2)], correction=name)


@EVERY
@settings(max_examples=15, deadline=None)
@given(strength=st.floats(0.0, 2.0), state=st.integers(1, 3))
def test_corrected_scores_are_affine_in_strength(
    correction: Correction, strength: float, state: int
) -> None:
    scores = biased_scores("12/3", seed=3).get("test", state).scores.astype(np.float64)
    bank = _fitted(correction.name).ready(scores, state)
    full = bank.correct(scores, state)
    np.testing.assert_array_equal(bank.correct(scores, state, strength=0.0), scores)
    assert bank.correct(scores, state, strength=1.0).tobytes() == full.tobytes()
    found = bank.correct(scores, state, strength=strength)
    np.testing.assert_allclose(found, scores + strength * (full - scores), rtol=1e-9, atol=1e-9)
    kept = Bank.from_json(json.loads(json.dumps(bank.at_strength(strength).to_json())))
    assert kept.strength == strength
    assert kept.correct(scores, state).tobytes() == found.tobytes()
    # All in one layer: buffers are float32.
    layer = kept.layer(state)(torch.from_numpy(scores))
    torch.testing.assert_close(layer, torch.from_numpy(found), rtol=1e-5, atol=1e-4)


@EVERY
@pytest.mark.parametrize("state", [1, 2, 5])
def test_identity_at_one_and_zero(correction: Correction, state: int) -> None:
    scores = _scores(state)
    nothing = correction.outline(SCHEDULE, state).identity()
    same = correction.apply(scores, nothing, _facts(state))
    np.testing.assert_array_equal(same, scores)


@EVERY
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (0,), (2, 0, 3)])
def test_kind_dtype_and_shape_are_kept(
    correction: Correction, dtype: str, shape: tuple[int, ...]
) -> None:
    scores = _scores(3, shape).astype(dtype)
    parameters = _parameters(correction, 3)
    array = correction.apply(scores, parameters, _facts(3))
    assert isinstance(array, np.ndarray)
    assert (array.dtype, array.shape) == (scores.dtype, scores.shape)
    tensor = correction.apply(torch.from_numpy(scores), parameters, _facts(3))
    assert isinstance(tensor, torch.Tensor)
    assert tensor.dtype == torch.from_numpy(scores).dtype
    # NumPy and torch agree to the last bit or two of the type.
    np.testing.assert_allclose(
        array, tensor.numpy(), rtol=2 * float(np.finfo(dtype).eps), atol=1e-6
    )


@EVERY
def test_bfloat16_rounds_once(correction: Correction) -> None:
    scores = torch.from_numpy(_scores(3)).bfloat16()
    parameters = _parameters(correction, 3)
    result = correction.apply(scores, parameters, _facts(3))
    exact = correction.apply(scores.double(), parameters, _facts(3))
    assert result.dtype == torch.bfloat16
    assert torch.equal(result, exact.float().bfloat16())


@EVERY
def test_differentiable_in_scores_and_pairs(correction: Correction) -> None:
    scores = torch.from_numpy(_scores(3)).requires_grad_()
    names, given = zip(*_parameters(correction, 3).items(), strict=True)
    vectors = [torch.from_numpy(vector).requires_grad_() for vector in given]

    def run(s: torch.Tensor, *v: torch.Tensor) -> torch.Tensor:
        return correction.apply(s, dict(zip(names, v, strict=True)), _facts(3))

    assert torch.autograd.gradcheck(run, (scores, *vectors))


@EVERY
def test_pairs_are_affine_in_the_parameters(correction: Correction) -> None:
    """So the likelihood is convex, and Newton's optimum the only one."""
    one, other = (_parameters(correction, 4, seed) for seed in (1, 2))
    half = one.replaced((one.vector + other.vector) / 2)
    ends = [correction.spread(p, _facts(4)).vector for p in (one, other)]
    np.testing.assert_allclose(
        correction.spread(half, _facts(4)).vector, np.mean(ends, axis=0), atol=1e-12
    )


@pytest.mark.parametrize(
    "correction", [AdBiC(), BiC(), BiCPast(), BiCAll(), FirstAndRest()], ids=lambda c: c.name
)
def test_each_group_follows_one_pair_at_most(correction: Correction) -> None:
    for state in range(1, 6):
        design = correction.outline(SCHEDULE, state).follows
        assert design.shape == (state, correction.outline(SCHEDULE, state).counts["beta"])
        assert set(np.unique(design)) <= {0.0, 1.0}
        assert design.sum(axis=1).max() <= 1


@EVERY
@given(permutation=st.permutations(range(6)))
def test_rows_are_independent(correction: Correction, permutation: list[int]) -> None:
    scores, parameters = _scores(4, (6,)), _parameters(correction, 4)
    whole = correction.apply(scores, parameters, _facts(4))
    part = correction.apply(scores[permutation], parameters, _facts(4))
    np.testing.assert_array_equal(part, whole[permutation])


@EVERY
def test_wrong_number_of_pairs_is_told(correction: Correction) -> None:
    right = _parameters(correction, 3)
    wrong = {name: np.append(vector, 1.0) for name, vector in right.items()}
    with pytest.raises(TransilError, match=r"expected (\d pairs|parameters of_alpha \(1\))"):
        correction.apply(_scores(3), wrong, _facts(3))


# -- what each of them does --------------------------------------------------------------------


def test_bic_moves_only_the_newest_group() -> None:
    scores = _scores(3)
    corrected = BiC().apply(scores, Pairs([0.5], [-1.0]), SCHEDULE)
    np.testing.assert_array_equal(corrected[:, :60], scores[:, :60])
    np.testing.assert_allclose(corrected[:, 60:], 0.5 * scores[:, 60:] - 1.0)  # Eq. 1


def test_adbic_moves_each_group_by_its_pair() -> None:
    scores = _scores(3)
    corrected = AdBiC().apply(scores, Pairs([0.5, 2.0, 1.5], [1.0, -1.0, 0.0]), SCHEDULE)
    np.testing.assert_allclose(corrected[:, :50], 0.5 * scores[:, :50] + 1.0)  # Eq. 2
    np.testing.assert_allclose(corrected[:, 50:60], 2.0 * scores[:, 50:60] - 1.0)
    np.testing.assert_allclose(corrected[:, 60:], 1.5 * scores[:, 60:])


def test_centred_adbic_moves_around_the_mean_of_a_row() -> None:
    scores = _scores(3)
    group = SCHEDULE.group_of_column(3) - 1
    alpha, beta = np.array([0.5, 2.0, 1.5]), np.array([1.0, -1.0, 0.0])
    mean = scores.mean(axis=1, keepdims=True)
    expected = alpha[group] * (scores - mean) + mean + beta[group]
    corrected = AdBiCCentred().apply(scores, Pairs(alpha, beta), SCHEDULE)
    np.testing.assert_allclose(corrected, expected, rtol=1e-12)
    again = correct_groups(scores, alpha, beta, SCHEDULE, 3, out=scores, centred=True)
    assert again is scores  # in place, too
    np.testing.assert_array_equal(scores, corrected)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_a_masked_class_stays_masked(kind: str) -> None:
    """Minus infinity is how some models leave classes out."""
    scores = _scores(3).astype(np.float32)
    scores[:, 7] = -np.inf
    pairs = _pairs(AdBiCCentred(), 3)
    given: Any = scores if kind == "numpy" else torch.from_numpy(scores)
    found = np.asarray(AdBiCCentred().apply(given, pairs, SCHEDULE))
    assert np.isneginf(found[:, 7]).all()
    rest = np.delete(scores, 7, axis=1)
    group = np.delete(SCHEDULE.group_of_column(3) - 1, 7)
    mean = rest.mean(axis=1, keepdims=True)
    expected = pairs.alpha[group] * (rest - mean) + mean + pairs.beta[group]
    np.testing.assert_allclose(np.delete(found, 7, axis=1), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("alpha", [-0.5, 0.0])
@pytest.mark.parametrize("kind", ["numpy", "torch", "in place"])
def test_a_masked_class_stays_masked_where_alpha_turns_its_group(kind: str, alpha: float) -> None:
    scores = _scores(3).astype(np.float32)
    scores[:, 0] = -np.inf
    before, unmoved = scores.copy(), SCHEDULE.group_of_column(3) > 1
    given: Any = torch.from_numpy(scores) if kind == "torch" else scores
    out = scores if kind == "in place" else None
    alphas = np.array([alpha, 1.0, 1.0])
    found = np.asarray(correct_groups(given, alphas, np.zeros(3), SCHEDULE, 3, out=out))
    assert np.isneginf(found[:, 0]).all()
    np.testing.assert_array_equal(found[:, unmoved], before[:, unmoved])
    np.testing.assert_array_equal(
        found[:, 1:][:, ~unmoved[1:]], alpha * before[:, 1:][:, ~unmoved[1:]]
    )


def test_out_must_be_written_in_place() -> None:
    scores = _scores(3, (4, 5))
    out = np.zeros((5, 4, scores.shape[-1])).transpose(1, 0, 2)
    with pytest.raises(TransilError, match="contiguous"):
        correct_groups(scores, np.ones(3), np.ones(3), SCHEDULE, 3, out=out)


def offset(store: ScoreStore, seed: int = 0) -> ScoreStore:
    """The same scores, each row moved by a number of its own."""
    random = np.random.default_rng(seed)
    made = ScoreStore(store.schedule, method=store.method, dataset=store.dataset)
    for split, state in store:
        data = store.get(split, state)
        moved = data.scores + random.normal(0, 30, (len(data.scores), 1)).astype(np.float32)
        made.put(split, state, moved, data.labels)
    return made


def test_offsets_of_rows_mean_nothing_to_centred_adbic() -> None:
    store = biased_scores("12/3", images_per_class=20)
    moved = offset(store)
    bank, other = (fit(s, correction="adbic-centred") for s in (store, moved))
    plain, disturbed = (fit(s, correction="adbic") for s in (store, moved))
    for state in (2, 3):
        np.testing.assert_allclose(bank.pairs(state).alpha, other.pairs(state).alpha, rtol=1e-3)
        np.testing.assert_allclose(bank.pairs(state).beta, other.pairs(state).beta, atol=1e-3)
        before, after = (
            np.asarray(bank.correct(s.get("test", state).scores, state)).argmax(1)
            for s in (store, moved)
        )
        assert (before == after).mean() > 0.999
    # Eq. 2 as it stands can no longer give groups slopes of their own.
    assert np.ptp(disturbed.pairs(3).alpha) < 0.3 * np.ptp(plain.pairs(3).alpha)


@given(columns=st.sampled_from([50, 60, 66]), shift=st.floats(-20, 20), seed=st.integers(0, 9))
def test_a_common_offset_passes_through_centred_adbic(
    columns: int, shift: float, seed: int
) -> None:
    state = SCHEDULE.state_with(columns)
    scores, pairs = _scores(state, seed=seed), _pairs(AdBiCCentred(), state, seed)
    corrected, moved = (AdBiCCentred().apply(s, pairs, SCHEDULE) for s in (scores, scores + shift))
    np.testing.assert_allclose(moved, corrected + shift, atol=1e-9)


def test_bic_past_moves_all_but_the_newest() -> None:
    scores = _scores(3)
    corrected = BiCPast().apply(scores, Pairs([0.5], [1.0]), SCHEDULE)
    np.testing.assert_allclose(corrected[:, :60], 0.5 * scores[:, :60] + 1.0)
    np.testing.assert_array_equal(corrected[:, 60:], scores[:, 60:])


def test_bic_all_keeps_the_pair_of_every_state() -> None:
    history = {2: Pairs([0.5], [1.0]), 3: Pairs([0.7], [-2.0])}
    facts = Facts(SCHEDULE, 3)
    applied = BiCAll().applied(history, facts)
    assert applied.alpha.tolist() == [1.0, 0.5, 0.7]
    assert applied.beta.tolist() == [0.0, 1.0, -2.0]
    assert BiC().applied(history, facts).alpha.tolist() == [1.0, 1.0, 0.7]


def test_arrays_larger_than_a_block() -> None:
    rows = 3 * BLOCK // 66 + 5
    scores = np.random.default_rng(0).normal(size=(rows, 66)).astype(np.float32)
    alpha, beta = np.linspace(0.5, 1.5, 4), np.linspace(-1, 1, 4)
    group = SCHEDULE.group_of_column(4) - 1
    expected = scores * alpha[group].astype(np.float32) + beta[group].astype(np.float32)
    np.testing.assert_array_equal(correct_groups(scores, alpha, beta, SCHEDULE, 4), expected)


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        (np.zeros((2, 61)), "61 columns"),
        (np.zeros((2, 60), dtype=int), "floating-point scores, not int64"),
        (np.float64(3.0), "expected a NumPy array"),
        (np.array(3.0), "a single number"),
        ([[1.0]], "expected a NumPy array, a torch tensor or a DataFrame, not list"),
        (torch.zeros(2, 60, dtype=torch.int32), "floating-point scores, not torch.int32"),
    ],
)
def test_bad_scores_are_told(scores: Any, words: str) -> None:
    with pytest.raises(TransilError, match=words):
        BiC().apply(scores, Pairs([1.0], [0.0]), SCHEDULE)


def test_pairs_are_checked() -> None:
    with pytest.raises(TransilError, match="2 values of alpha but 1 of beta"):
        Pairs([1.0, 2.0], [0.0])
    with pytest.raises(TransilError, match="alpha: NaN"):
        Pairs([np.nan], [0.0])


def test_names() -> None:
    assert isinstance(get_correction("adbic"), AdBiC)
    with pytest.raises(TransilError, match="did you mean 'adbic'"):
        get_correction("adbick")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@EVERY
def test_on_the_gpu(correction: Correction) -> None:
    scores, pairs = _scores(4, (100,)), _pairs(correction, 4)
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        here = torch.from_numpy(scores).to(dtype)
        there = correction.apply(here.cuda(), pairs, SCHEDULE)
        assert there.is_cuda
        assert there.dtype == dtype
        close = correction.apply(here, pairs, SCHEDULE)
        torch.testing.assert_close(there.cpu(), close)


@pytest.mark.parametrize(
    ("design", "says"),
    [
        (np.eye(4), r"must be a 0/1 array of shape \(3, m\) or a Design, not one of \(4, 4\)"),
        (np.eye(3).tolist(), "or a Design, not a list"),
        (np.full((3, 1), 0.5), "with at most one 1 in a row"),
        (np.ones((3, 2)), "with at most one 1 in a row"),
    ],
)
def test_a_design_that_is_none(design: Any, says: str) -> None:
    class Wrong(FirstAndRest):
        def design(self, facts: Facts) -> Any:
            return design

    with pytest.raises(TransilError, match=f"first-and-rest: the design of state 3 .*{says}"):
        Wrong().spread(Pairs.identity(2), Facts(SCHEDULE, 3))

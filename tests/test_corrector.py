"""`Corrector`: scikit-learn's conventions, exactness, files, and what is refused."""

from __future__ import annotations

import json
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from transil import (
    AdaptationWarning,
    Corrector,
    Ledger,
    Schedule,
    ScoreStore,
    TransilError,
    load_bank,
)
from transil.adaptation.columns import Columns
from transil.adaptation.folding import folded
from transil.nets.heads import CosineHead, LinearHead
from transil.testing import biased_scores

SIZES = [12, 5, 5, 8, 3, 4]

# scikit-learn asks for a TypeError here; all our bad input is a ValueError.
OTHERWISE = {"check_dtype_object": "what is no number is a ValueError, as all bad input"}


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it inherits from nothing of scikit-learn, which is an extra
    CHECKS: Callable[[Callable[..., None]], Callable[..., None]] = parametrize_with_checks(
        [Corrector(prior="uniform", least_rows=2), Corrector(prior="predicted", least_rows=2)],
        expected_failed_checks=lambda _: OTHERWISE,
    )


@CHECKS
def test_it_passes_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


@pytest.fixture(scope="module")
def store() -> ScoreStore:
    return biased_scores(Schedule.of(SIZES), seed=5, images_per_class=20, splits=("test",))


@pytest.fixture(scope="module")
def scores(store: ScoreStore) -> Any:
    return np.asarray(store.get("test", 6).scores)


@pytest.fixture(scope="module")
def fitted(scores: Any) -> Corrector:
    return Corrector(SIZES, method="lwf-t", prior="uniform").fit(scores, state=6)


def test_scores_of_any_kind_come_back_as_they_came(fitted: Corrector, scores: Any) -> None:
    expected = fitted.transform(scores)
    assert expected.dtype == np.float32
    made = fitted.transform(torch.from_numpy(scores))
    assert isinstance(made, torch.Tensor)
    assert_allclose(made.numpy(), expected, rtol=1e-5, atol=1e-5)
    assert_allclose(fitted.transform(scores.tolist()), expected, rtol=1e-4, atol=1e-4)
    assert_allclose(fitted.transform(scores.astype(np.float64)), expected, rtol=1e-4, atol=1e-4)
    assert_array_equal(fitted.predict(scores), expected.argmax(axis=1))


def test_without_a_prior_it_is_the_bank_at_the_size_of_the_scores(scores: Any) -> None:
    usual = Corrector(SIZES, method="lwf-t").fit(scores)
    bank = load_bank("lwf-t", schedule=SIZES).like(scores, 6)
    assert_allclose(usual.transform(scores), bank.correct(scores, 6), rtol=1e-5, atol=1e-5)
    assert usual.prior_ is not None
    assert usual.prior_.name == "predicted"
    named = Corrector(SIZES, bank=load_bank("lwf-t", schedule=SIZES)).fit(scores)
    assert_array_equal(named.transform(scores), usual.transform(scores))


def test_strength_is_a_factor_on_what_the_bank_does(scores: Any) -> None:
    make = {f: Corrector(SIZES, method="lwf-t", strength=f).fit(scores) for f in (0.0, 0.5, 1.0)}
    none, half, whole = (make[f].transform(scores.astype(float)) for f in (0.0, 0.5, 1.0))
    assert_allclose(none, scores, atol=1e-9)
    assert_allclose(half, (none + whole) / 2, atol=1e-9)


def test_after_fitting_it_predicts_what_was_assumed(fitted: Corrector) -> None:
    assert fitted.expected_ is not None
    assert fitted.prior_ is not None
    assert_allclose(fitted.expected_, fitted.prior_.shares, atol=2e-3)
    assert fitted.left_ is not None
    assert 0.1 < fitted.left_ < 1


def test_columns_in_another_order_give_the_same(scores: Any, fitted: Corrector) -> None:
    order = np.random.default_rng(0).permutation(37)
    mixed = np.empty_like(scores)
    mixed[:, order] = scores
    there = Corrector(SIZES, method="lwf-t", prior="uniform", order=order).fit(mixed)
    assert_allclose(there.transform(mixed)[:, order], fitted.transform(scores), atol=1e-4)
    assert_array_equal(there.predict(mixed), fitted.predict(scores))


def test_a_class_is_named_by_the_label_of_the_schedule(scores: Any, fitted: Corrector) -> None:
    labels = np.arange(137, 100, -1)
    groups = np.split(labels, np.cumsum(SIZES)[:-1])
    named = Corrector([list(map(int, g)) for g in groups], method="lwf-t", prior="uniform")
    assert_array_equal(named.fit(scores).predict(scores), labels[fitted.predict(scores)])
    shares = {int(label): 1.0 for label in labels}
    same = Corrector(named.schedule, method="lwf-t", prior=shares).fit(scores)
    assert_allclose(same.transform(scores), named.transform(scores), atol=1e-4)


def test_a_ledger_tells_what_is_rare_within_a_group(store: ScoreStore, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.json", SIZES, "lwf-t")
    for state in range(1, 7):
        ledger.record(state, np.asarray(store.get("test", state).scores))
    data = store.get("test", 6)
    hits = {}
    for name, words in {"bank": {}, "ledger": {"ledger": ledger}}.items():
        made = Corrector(SIZES, method="lwf-t", **words).fit(data.scores)  # type: ignore[arg-type]
        hits[name] = float((made.predict(data.scores) == data.columns).mean())
    assert hits["ledger"] > hits["bank"]


def test_only_the_newest_share_may_be_known(scores: Any) -> None:
    made = Corrector(SIZES, method="lwf-t", newest=0.5).fit(scores)
    assert made.expected_ is not None
    assert made.expected_[33:].sum() == pytest.approx(0.5, abs=5e-3)


def test_a_model_that_keeps_nothing_is_left_alone(store: ScoreStore, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    scores = random.normal(0.0, 1.0, 37) + random.normal(0.0, 0.05, (400, 37))
    scores[:, 33:] += 8.0 + random.normal(0.0, 2.0, (400, 4))
    made = Corrector(SIZES, bank="none")
    with pytest.warns(AdaptationWarning, match="keeps nothing of its old classes"):
        made.fit(scores)
    assert made.abstained_ is not None
    assert_array_equal(made.transform(scores), scores)
    told = Corrector(SIZES, bank="none", prior="uniform").fit(scores)
    assert told.abstained_ is None  # what is assumed was said: it is done


def test_batches_of_a_stream_give_nearly_what_all_at_once_give(scores: Any) -> None:
    rows = np.random.default_rng(1).permutation(np.repeat(scores, 10, axis=0))
    whole = Corrector(SIZES, method="lwf-t", prior="uniform").fit(rows)
    stream = Corrector(SIZES, method="lwf-t", prior="uniform")
    first = stream.partial_fit(rows[:10], state=6).transform(rows)
    assert_array_equal(first, rows)  # ten rows say nothing yet
    for start in range(10, len(rows), 512):
        stream.partial_fit(rows[start : start + 512])
    assert stream.rows_ == len(rows)
    away = stream.shifts_ - whole.shifts_
    assert np.abs(away - away.mean()).max() < 0.25
    agree = stream.predict(rows) == whole.predict(rows)
    assert agree.mean() > 0.97


def test_with_a_half_life_a_stream_follows_the_traffic(scores: Any, store: ScoreStore) -> None:
    columns = store.get("test", 6).columns
    random = np.random.default_rng(2)
    often = random.choice(np.flatnonzero(columns < 12), 3000)
    seldom = random.choice(np.flatnonzero(columns >= 12), 3000)
    shares = {}
    for half_life in (None, 500):
        made = Corrector(SIZES, bank="none", half_life=half_life)
        for rows in (often, seldom):
            for part in np.split(rows, 6):
                made.partial_fit(scores[part], state=6)
        assert made.predicted_ is not None
        shares[half_life] = float(made.predicted_[:12].sum())
    assert shares[500] < 0.6 * shares[None]


def test_what_is_saved_corrects_alike(fitted: Corrector, scores: Any, tmp_path: Path) -> None:
    path = tmp_path / "corrector.json"
    fitted.save(path)
    again = Corrector.load(path)
    assert_array_equal(again.transform(scores), fitted.transform(scores))
    assert_array_equal(again.predict(scores), fitted.predict(scores))
    assert again.prior_ is not None
    assert again.prior_.name == "uniform"
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()
    for copy in (pickle.loads(pickle.dumps(fitted)), again):
        assert_array_equal(copy.transform(scores), fitted.transform(scores))
    assert clone(fitted).get_params() == fitted.get_params()


@pytest.mark.parametrize("damage", ["cut", "scale", "number", "version", "bank"])
def test_damaged_correctors_are_told(fitted: Corrector, tmp_path: Path, damage: str) -> None:
    path = tmp_path / "corrector.json"
    fitted.save(path)
    data = json.loads(path.read_text())
    if damage == "scale":
        data["scale"] = data["scale"][:-1]
    elif damage == "number":
        data["shift"][0] += 0.1
    elif damage == "version":
        data["version"] = 9
    elif damage == "bank":
        data["format"] = "transil-bank"
    path.write_text(path.read_text()[:200] if damage == "cut" else json.dumps(data))
    with pytest.raises(TransilError, match=r"corrector\.json"):
        Corrector.load(path)


# -- heads ------------------------------------------------------------------------------------------


@pytest.fixture(params=["adbic", "adbic-centred", "adbic-any"])
def of_any_form(request: pytest.FixtureRequest) -> tuple[Corrector, Any]:
    """A corrector with class shifts, and features of a model with 100 classes."""
    name = str(request.param)
    store = biased_scores("100/10", seed=2, images_per_class=4, splits=("test",))
    scores = 2.4 * np.asarray(store.get("test", 10).scores)
    bank = (
        load_bank("lucir", schedule="100/10")
        if name == "adbic-any"
        else load_bank("lucir", states=10, correction=name)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = Corrector("100/10", bank=bank, prior="uniform").fit(scores)
    features = torch.from_numpy(np.random.default_rng(1).normal(size=(50, 16)).astype(np.float32))
    return made, features


@pytest.mark.parametrize("kind", ["linear", "torch", "cosine", "no bias", "arrays", "all columns"])
def test_a_head_is_folded_exactly(of_any_form: tuple[Corrector, Any], kind: str) -> None:
    corrector, features = of_any_form
    torch.manual_seed(0)
    heads: dict[str, Any] = {
        "linear": LinearHead(16, 100),
        "torch": torch.nn.Linear(16, 100),
        "cosine": CosineHead(16, 100),
        "no bias": torch.nn.Linear(16, 100, bias=False),
        "arrays": torch.nn.Linear(16, 100),
        "all columns": torch.nn.Linear(16, 130),
    }
    head = heads[kind].requires_grad_(False)
    if kind == "cosine":
        head.eta.fill_(9.0)
    before = head(features)
    expected = corrector.transform(before[:, :100])
    if kind == "arrays":
        weight, bias = corrector.fold(head.weight.numpy(), head.bias.numpy())
        assert weight.dtype == np.float32
        after = torch.from_numpy(features.numpy() @ weight.T + bias)
    else:
        after = corrector.fold(head)(features)
    size = float(expected.abs().max())
    assert_allclose(after[:, :100].detach(), expected, atol=1e-5 * max(1.0, size))
    assert_array_equal(after[:, 100:].detach(), before[:, 100:])


def test_folded_models_and_layers_survive_every_export(
    of_any_form: tuple[Corrector, Any], tmp_path: Path
) -> None:
    corrector, features = of_any_form
    torch.manual_seed(0)
    head = CosineHead(16, 100).requires_grad_(False)
    head.eta.fill_(9.0)
    models = {
        "folded": corrector.fold(head),
        "layer": torch.nn.Sequential(head, corrector.layer()),
    }
    for name, model in models.items():
        expected = model(features).detach()
        scripted = torch.jit.script(model)
        torch.jit.save(scripted, str(tmp_path / f"{name}.pt"))
        exported = torch.export.export(model, (features,))
        read: Any = torch.jit.load
        for made in (read(str(tmp_path / f"{name}.pt")), exported.module()):
            assert_allclose(made(features).detach(), expected, atol=1e-4)


def test_a_folded_head_runs_in_onnx(fitted: Corrector, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    head = fitted.fold(torch.nn.Linear(8, 37))
    features = torch.randn(5, 8, generator=torch.Generator().manual_seed(0))
    path = str(tmp_path / "head.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            head, (features,), path, dynamo=False, input_names=["x"],
            dynamic_axes={"x": {0: "n"}},
        )  # fmt: skip
    made = runtime.InferenceSession(path).run(None, {"x": features.numpy()})[0]
    assert_allclose(made, head(features).detach().numpy(), atol=1e-5)


def test_folding_is_affine_in_the_head() -> None:
    random = np.random.default_rng(0)
    columns = Columns(random.normal(1, 0.3, 5), random.normal(size=5), centred=True)
    weight, bias = random.normal(size=(5, 3)), random.normal(size=5)
    made = folded(columns, weight, bias)
    inputs = random.normal(size=(20, 3))
    assert_allclose(inputs @ made[0].T + made[1], columns.correct(inputs @ weight.T + bias))


# -- controls ---------------------------------------------------------------------------------------


def test_weights_alone_align_the_newest_classes() -> None:
    random = np.random.default_rng(0)
    weight = random.normal(size=(37, 16))
    weight[33:] *= 3
    made = Corrector.from_weights(weight, SIZES)
    assert made.state_ == 6
    new_weight, _ = made.fold(weight)
    lengths = np.linalg.norm(new_weight, axis=1)
    assert lengths[33:].mean() == pytest.approx(lengths[:33].mean())


def test_labelled_images_of_the_newest_group_tell_one_shift(store: ScoreStore) -> None:
    data = store.get("test", 6)
    newest = data.columns >= 33
    scores = np.asarray(data.scores)
    made = Corrector.from_newest(scores[newest], data.labels[newest], SIZES)
    assert made.columns_.shift[-1] < -0.5
    before, after = (
        float((x == data.columns).mean()) for x in (scores.argmax(1), made.predict(scores))
    )
    assert after > before


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: Corrector.from_weights(np.eye(31) + 1, SIZES), "scores have 31 columns"),
        (lambda: Corrector.from_weights(np.ones((37, 4)), SIZES), "cosine head"),
        (lambda: Corrector.from_weights(np.zeros((37, 4)), SIZES), "all zeros"),
        (lambda: Corrector.from_weights(np.ones((12, 4)), SIZES), "no older classes"),
        (lambda: Corrector.from_newest(np.ones((40, 37)), np.zeros(40, int), SIZES), "old class"),
        (lambda: Corrector.from_newest(np.ones((3, 37)), np.full(3, 35), SIZES), "at least 16"),
        (lambda: Corrector.from_newest(np.ones((40, 37)), np.full(40, 99), SIZES), "label 99"),
    ],
)
def test_controls_that_cannot_be(call: Any, says: str) -> None:
    with pytest.raises(TransilError, match=says):
        call()


# -- bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "fit_words", "says"),
    [
        ({"prior": [-1.0] * 37}, {}, "shares are 0 or more"),
        ({"prior": {"cat": 1.0}}, {}, "no class 'cat'"),
        ({"newest": 1.5}, {}, "between 0 and 1"),
        ({"strength": 3}, {}, "strength"),
        ({"method": "lwff"}, {}, "lwff"),
        ({"bank": "nosuch.json"}, {}, "nosuch.json"),
        ({"order": [0, 1]}, {}, "order"),
        ({"prior": "remembered"}, {}, "give a ledger"),
        ({}, {"state": 7}, "state 7"),
        ({}, {"state": 5}, "columns"),
        ({"least_rows": 10_000}, {}, "minimum of 10000"),
    ],
)
def test_bad_settings_get_one_line(scores: Any, words: Any, fit_words: Any, says: str) -> None:
    with pytest.raises(TransilError, match=says) as error:
        Corrector(SIZES, **{"method": "lwf-t", **words}).fit(scores, **fit_words)
    assert "\n" not in str(error.value)


def test_bad_scores_get_one_line(scores: Any) -> None:
    def softmax(x: Any) -> Any:
        powers = np.exp(x - x.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    def with_value(value: float) -> Any:
        spoiled = scores.copy()
        spoiled[3, 2] = value
        return spoiled

    cases = {
        "score nan in row 3, column 2": with_value(np.nan),
        "score -inf in row 3": with_value(-np.inf),
        "probabilities": softmax(scores),
        "minimum of 64": scores[:63],
        "37 columns|have 36 columns": scores[:, :36],
        "rows and columns": scores[0],
        "not numbers": [["a", "b"]] * 70,
        "Complex": scores.astype(complex),
    }
    for says, given in cases.items():
        with pytest.raises(TransilError, match=says):
            Corrector(SIZES, method="lwf-t").fit(given)
    with pytest.raises(TransilError, match="probabilities"):
        Corrector(SIZES, bank="none", prior="uniform").fit(softmax(scores))


def test_settings_that_need_a_schedule_say_so(scores: Any) -> None:
    cases: list[dict[str, Any]] = [{"method": "lwf-t"}, {"newest": 0.5}, {"ledger": "l.json"}]
    for words in cases:
        with pytest.raises(TransilError, match="needs the schedule"):
            Corrector(**words).fit(scores)


def test_unknown_settings_and_unfitted_use_are_told(scores: Any) -> None:
    with pytest.raises(TransilError, match="no setting 'pior'"):
        Corrector().set_params(pior="uniform")
    with pytest.raises(ValueError, match="not fitted yet"):
        Corrector(SIZES).transform(scores)
    assert repr(Corrector(SIZES, newest=0.5)) == f"Corrector(schedule={SIZES}, newest=0.5)"

"""The contract of every method, and each loss against its formula in plain NumPy."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import outside_method
from transil import Schedule, ScoreStore
from transil.cli.app import run as main
from transil.data import ClassStream, Images, open_images
from transil.engine import RunConfig, RunFolder, resolve, train, training
from transil.engine.learner import Learner
from transil.engine.setup import completed, make_stream
from transil.engine.workers import Workers
from transil.errors import DataWarning, TransilError
from transil.methods import METHODS, Context, Method, family_of, get_method
from transil.nets import Outputs, build_net

DATA = "formula:strokes?classes=6&train=12&test=5&size=16"
SIZES = [2, 3, 1]
NAMES = ["ft", "ft+", "siw", "lwf", "lwf-t", "lwf-all", "lucir", "joint", "anchored"]
INCREMENTAL = [name for name in NAMES if name != "joint"]


pytestmark = pytest.mark.usefixtures("outside")


@pytest.fixture(scope="module")
def images() -> Images:
    return open_images(DATA)


def settings(method: str, **over: Any) -> RunConfig:
    known = METHODS.find(method).trained_as()
    data = {
        "data": {
            "path": DATA,
            "schedule": [[0, 1], [2, 3, 4], [5]],
            "role": "reference",
            "val_per_class": 2,
        },
        "train": {"epochs": 2, "lr": 0.05, "schedule": "constant", "batch_size": 8},
    }
    recipe = "ft-tiny" if method == "anchored" else f"{known}-tiny"
    return resolve(method=method, recipe=recipe, overrides=[data, over])


def learner(method: str, images: Images, **over: Any) -> tuple[Learner, ClassStream]:
    workers = Workers(torch.device("cpu"))
    config = settings(method, **over)
    made = get_method(config.method, config.settings)
    config = completed(config, made, images, workers.device)
    stream = make_stream(config, images)
    return Learner(config, made, stream, workers), stream


def run_state(one: Learner, stream: ClassStream, number: int, epochs: int = 1) -> None:
    one.begin(stream.enter(number))
    for epoch in range(1, epochs + 1):
        one.draw(epoch)
        for _ in one.epoch(0.05):
            pass
    one.end()


# -- the contract ------------------------------------------------------------------------------


def test_every_registered_method_is_under_contract() -> None:
    assert sorted(NAMES) == METHODS.names()


@pytest.mark.parametrize("name", NAMES)
def test_says_what_it_is(name: str) -> None:
    cls = METHODS.find(name)
    assert cls.name == name
    assert cls.summary
    assert cls.paper
    assert name in (cls.family or (name,))
    assert [m.name for m in family_of(cls())] == list(cls.family or (name,))
    assert cls.trained_as() in METHODS.names()


@pytest.mark.parametrize("name", NAMES)
def test_loss_is_one_finite_number_per_image(name: str) -> None:
    context, student, teacher, labels = problem(name)
    method = METHODS.find(name)()
    for taught in (None, teacher):
        losses = method.loss(student, taught, labels, context)
        assert losses.shape == (len(labels),)
        assert torch.isfinite(losses).all()


@pytest.mark.parametrize("name", NAMES)
def test_loss_of_an_image_depends_on_no_other_image(name: str) -> None:
    context, student, teacher, labels = problem(name)
    method = METHODS.find(name)()
    whole = method.loss(student, teacher, labels, context)
    part = method.loss(
        Outputs(*(t[:3] for t in student)), Outputs(*(t[:3] for t in teacher)), labels[:3], context
    )
    torch.testing.assert_close(whole[:3], part)


@pytest.mark.parametrize("name", [n for n in NAMES if n != "lwf"])
def test_scores_of_unseen_classes_do_not_matter(name: str) -> None:
    context, student, teacher, labels = problem(name)
    method = METHODS.find(name)()
    changed = student.scores.clone()
    changed[:, ~context.seen] += 100.0
    torch.testing.assert_close(
        method.loss(student, teacher, labels, context),
        method.loss(Outputs(student.features, changed), teacher, labels, context),
    )


@pytest.mark.parametrize("name", INCREMENTAL)
def test_a_state_trains_what_it_may(name: str, images: Images) -> None:
    one, stream = learner(name, images)
    run_state(one, stream, 1)
    before = {k: v.clone() for k, v in one.net.state_dict().items()}
    run_state(one, stream, 2)
    after = one.net.state_dict()
    conv = next(k for k in before if k.startswith("body") and before[k].dim() == 4)
    assert not torch.equal(before[conv], after[conv])
    # The teacher is the model of the previous state, in evaluation mode, and never learns.
    if one.teacher is not None:
        assert not one.teacher.training
        assert not any(p.requires_grad or p.grad is not None for p in one.teacher.parameters())
        for key, value in one.teacher.state_dict().items():
            torch.testing.assert_close(value, before[key], msg=key)
    if name == "lucir":
        assert torch.equal(before["head.weight"][:2], after["head.weight"][:2])
        assert not torch.equal(before["head.weight"][2:5], after["head.weight"][2:5])
        assert not torch.equal(before["head.eta"], after["head.eta"])


@pytest.mark.parametrize("name", NAMES)
def test_a_run_gives_scores_of_every_state(name: str, images: Images, tmp_path: Path) -> None:
    config = settings(name, engine={"checkpoint_minutes": 0})
    run = train(config, tmp_path / "run", images=images)
    for member in METHODS.find(name).family or (name,):
        store = ScoreStore.open(run.scores_path(member))
        assert store.method == member
        sizes = (6,) if name == "joint" else (2, 5, 6)
        assert store.schedule.seen == sizes
        for split in ("val", "test"):
            for state in store.require(split):
                data = store.get(split, state)
                # Only columns of classes seen: a masked one cannot win.
                assert data.scores.shape[1] == sizes[state - 1]
                assert data.scores.dtype == np.float32
                assert np.isfinite(data.scores).all()
                assert set(np.unique(data.labels)) == set(range(sizes[state - 1]))
    # Again, but stopped after an epoch of its second state, or of the only one.
    again = training(config, tmp_path / "again", images=images)
    list(islice(again, 3 if name == "joint" else 6))
    again.close()
    begun = RunFolder(tmp_path / "again")
    assert (begun.finished(), len(begun.lines())) == ((0, 1) if name == "joint" else (1, 3))
    train(config, begun.path, images=images)
    shutil.rmtree(begun.path / "scores")  # they are made again, by what the checkpoints hold
    with pytest.warns(DataWarning, match="scores of finished states are missing"):
        train(config, begun.path, images=images)
    for member in METHODS.find(name).family or (name,):
        found = [ScoreStore.open(one.scores_path(member)).fingerprint() for one in (run, begun)]
        assert found[0] == found[1]
    other = settings(name, seed=1)
    assert (
        ScoreStore.open(train(other, tmp_path / "other", images=images).path).fingerprint()
        != ScoreStore.open(run.path).fingerprint()
    )


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_or_wrong_setting_is_told(name: str) -> None:
    with pytest.raises(TransilError, match="has no setting 'nonsense'"):
        get_method(name, {"nonsense": 1})
    for key, value in vars(METHODS.find(name)()).items():
        with pytest.raises(TransilError, match=key):
            get_method(name, {key: "text"})
        assert getattr(get_method(name, {key: value}), key) == value


# -- the losses, from their formulas -----------------------------------------------------------


def problem(name: str, state: int = 2) -> tuple[Context, Outputs, Outputs, torch.Tensor]:
    """A context in state 2 of 3 and random outputs for ten images of its new classes."""
    random = np.random.default_rng(3)
    context = Context(Schedule.from_sizes(SIZES), torch.device("cpu"))
    context.enter(state, 0, lambda: (student, labels))

    def outputs() -> Outputs:
        features, scores = random.normal(size=(10, 64)), random.normal(0.0, 2.0, (10, 6))
        return Outputs(torch.from_numpy(features).float(), torch.from_numpy(scores).float())

    student, teacher = outputs(), outputs()
    labels = torch.from_numpy(random.integers(2, 5, 10))
    cls = METHODS.find(name)
    with torch.no_grad():
        cls().begin(build_net("convnet", cls.head, 6), context)
    return context, student, teacher, labels


def log_softmax(scores: Any) -> Any:
    return scores - np.log(np.exp(scores).sum(1, keepdims=True))


def arrays(*outputs: Outputs) -> list[Any]:
    return [t.double().numpy() for out in outputs for t in out]


def loss_of(method: Method, *problem: Any) -> Any:
    context, student, teacher, labels = problem
    return method.loss(student, teacher, labels, context).double().numpy()


@pytest.mark.parametrize("name", ["ft", "ft+", "siw", "joint"])
def test_ft_is_cross_entropy_over_the_classes_seen(name: str) -> None:
    case = problem(name)
    _, scores, _, _ = arrays(case[1], case[2])
    expected = -log_softmax(scores[:, :5])[np.arange(10), case[3].numpy()]
    np.testing.assert_allclose(loss_of(METHODS.find(name)(), *case), expected, rtol=1e-5)


def test_lwf_is_sigmoid_cross_entropy_over_all_outputs() -> None:
    case = problem("lwf")
    _, scores, _, old = arrays(case[1], case[2])
    targets = np.eye(6)[case[3].numpy()]
    targets[:, :2] = 1 / (1 + np.exp(-old[:, :2]))  # the classes of state 1
    p = 1 / (1 + np.exp(-scores))
    expected = -(targets * np.log(p) + (1 - targets) * np.log(1 - p)).mean(1)
    np.testing.assert_allclose(loss_of(METHODS.find("lwf")(), *case), expected, rtol=1e-5)


# The new images are compared with the new classes (2 to 4), or with all classes seen.
@pytest.mark.parametrize(("name", "first"), [("lwf-t", 2), ("lwf-all", 0)])
def test_lwf_distils_the_old_classes_at_a_temperature(name: str, first: int) -> None:
    case = problem(name)
    _, scores, _, old = arrays(case[1], case[2])
    new = -log_softmax(scores[:, first:5])[np.arange(10), case[3].numpy() - first]
    p = np.exp(log_softmax(old[:, :2] / 3.0))
    expected = new - 0.7 * (p * log_softmax(scores[:, :2] / 3.0)).sum(1)
    method = get_method(name, {"temperature": 3.0, "weight": 0.7})
    np.testing.assert_allclose(loss_of(method, *case), expected, rtol=1e-5)


def test_lucir_keeps_features_near_the_old_ones() -> None:
    case = problem("lucir")
    f, scores, g, _ = arrays(case[1], case[2])
    ce = -log_softmax(scores[:, :5])[np.arange(10), case[3].numpy()]
    cosine = (f * g).sum(1) / np.linalg.norm(f, axis=1) / np.linalg.norm(g, axis=1)
    expected = ce + 5.0 * np.sqrt(2 / 3) * (1 - cosine)  # 2 old classes, 3 new ones
    np.testing.assert_allclose(loss_of(METHODS.find("lucir")(), *case), expected, rtol=1e-5)


def test_lucir_imprints_new_rows(images: Images) -> None:
    one, stream = learner("lucir", images)
    run_state(one, stream, 1)
    state = stream.enter(2)
    rows = one.net.head.weight.detach().clone()
    outputs, labels = one.outputs_of(state.train)
    one.begin(state)
    f = outputs.features / outputs.features.norm(dim=1, keepdim=True)
    length = rows[:2].norm(dim=1).mean()
    for label in (2, 3, 4):
        mean = f[labels == label].mean(0)
        torch.testing.assert_close(one.net.head.weight[label], length * mean / mean.norm())
    assert torch.equal(one.net.head.weight[:2], rows[:2])


def test_cosine_head_is_eta_times_the_cosine() -> None:
    net = build_net("convnet", "cosine", 4)
    with torch.no_grad():
        net.head.get_parameter("eta").fill_(3.0)
    f = torch.randn(5, 64, generator=torch.Generator().manual_seed(0))
    w = net.head.weight.detach()
    expected = 3.0 * torch.nn.functional.cosine_similarity(f[:, None], w[None], dim=2)
    torch.testing.assert_close(net.head(f).detach(), expected)


# -- the family of FT --------------------------------------------------------------------------


@pytest.mark.parametrize("calibrated", [False, True])
def test_ft_plus_and_siw_score_with_first_rows(images: Images, calibrated: bool) -> None:
    one, stream = learner("ft", images, settings={"mean_calibration": calibrated})
    rows, means = [], []
    for number in (1, 2, 3):
        run_state(one, stream, number)
        group = stream.schedule.group_columns(number)
        head = one.net.head
        rows.append((head.weight[group].detach().clone(), head.bias[group].detach().clone()))  # type: ignore[index]
        scores = one.outputs_of(one.state.train)[0].scores[:, : group.stop]
        means.append(float(scores.max(1).values.mean()))
    weight, bias = (torch.cat(part) for part in zip(*rows, strict=True))
    outputs, _ = one.outputs_of(one.state.test)
    found = one.scores_of(one.state.test)
    torch.testing.assert_close(found["ft"], outputs.scores)
    torch.testing.assert_close(found["ft+"], outputs.features @ weight.T + bias)
    standard = torch.stack([(w - w.mean()) / w.std() for w in weight])
    siw = outputs.features @ standard.T + bias
    if calibrated:
        factors = [means[2] / m for m, n in zip(means, SIZES, strict=True) for _ in range(n)]
        siw = siw * torch.tensor(factors)
    torch.testing.assert_close(found["siw"], siw, rtol=1e-4, atol=1e-4)


def test_ft_draws_its_last_layer_anew(images: Images) -> None:
    one, stream = learner("ft", images)
    run_state(one, stream, 1)
    before = one.net.head.weight.detach().clone()
    one.begin(stream.enter(2))
    assert not torch.isclose(one.net.head.weight, before).all(dim=1).any()
    assert one.net.head.weight.abs().max() <= 1 / 8  # 1 / sqrt(64 features)


def test_lwf_t_gives_new_classes_fresh_rows(images: Images) -> None:
    one, stream = learner("lwf-t", images)
    run_state(one, stream, 1)
    before = one.net.head.weight.detach().clone()
    one.begin(stream.enter(2))
    after = one.net.head.weight
    assert torch.equal(after[:2], before[:2])
    assert torch.equal(after[5:], before[5:])
    assert not torch.isclose(after[2:5], before[2:5]).all(dim=1).any()


# -- what the engine does for every method -----------------------------------------------------


def test_scoring_changes_nothing_and_is_an_evaluation(images: Images) -> None:
    one, stream = learner("lwf", images)
    run_state(one, stream, 1)
    before = {k: v.clone() for k, v in one.net.state_dict().items()}
    subset = one.state.test
    outputs, labels = one.outputs_of(subset)
    assert one.net.training
    for key, value in one.net.state_dict().items():
        assert torch.equal(value, before[key]), key
    mean, std = (torch.tensor(v) for v in (stream.statistics.mean, stream.statistics.std))
    pixels = torch.from_numpy(subset.read()).float() / 255
    one.net.eval()
    with torch.no_grad():
        expected = one.net(((pixels - mean) / std).permute(0, 3, 1, 2))
    torch.testing.assert_close(outputs.scores, expected.scores, rtol=1e-4, atol=1e-4)
    assert labels.tolist() == subset.labels.tolist()
    augmented, _ = one.outputs_of(subset, augmented=True)
    assert not torch.allclose(augmented.scores, outputs.scores, atol=1e-3)


@pytest.mark.parametrize("decayed", [True, False])
def test_weight_decay_reaches_what_it_should(images: Images, decayed: bool) -> None:
    over = {"weight_decay": 0.5, "decay_biases": decayed}
    one, _ = learner("lwf", images, train=over)
    decays = {
        id(p): group["weight_decay"]
        for group in one.optimiser.param_groups
        for p in group["params"]
    }
    for name, parameter in one.net.named_parameters():
        spared = name.endswith("bias") and not decayed
        assert decays[id(parameter)] == (0.0 if spared else 0.5), name


def test_a_subclass_from_outside_is_a_method_of_its_own(images: Images, tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Mine(METHODS.find("ft")):  # type: ignore[misc]
        name = "mine"
        extra: float = 1.0

    class NoData(METHODS.find("ft")):  # type: ignore[misc]
        name = "no-data"

    before = dict(METHODS._things)
    try:
        METHODS.register(Mine)
        METHODS.register(NoData)
        over = {"data": settings("ft").to_dict()["data"], "train": {"epochs": 1}}
        config = resolve(method="mine", recipe="ft-tiny", overrides=[over])
        run = train(config, tmp_path / "run", images=images)
        assert [p.name for p in (run.path / "scores").iterdir()] == ["mine"]
        with pytest.raises(TransilError, match="must be a dataclass"):
            get_method("no-data", {})
    finally:
        METHODS._things = before


def test_a_loss_that_is_a_mean_is_refused(images: Images, tmp_path: Path) -> None:
    """It would give the filling of a last batch its weight."""

    @dataclass(frozen=True)
    class Mean(METHODS.find("ft")):  # type: ignore[misc]
        name = "mean"
        family = ("mean",)

        def loss(self, *given: Any) -> torch.Tensor:
            return super().loss(*given).mean()  # type: ignore[no-any-return]

    METHODS.register(Mean)
    try:
        with pytest.raises(TransilError, match=r"'mean': its loss must give one number per image"):
            over = {"data": settings("ft").to_dict()["data"]}
            config = resolve(method="mean", recipe="ft-tiny", overrides=[over])
            train(config, tmp_path / "run", images=images)
    finally:
        del METHODS._things["mean"]


@dataclass(frozen=True)
class Varied(outside_method.Anchored):
    """Settings of many types."""

    name = "varied"

    share: float = 1
    when: float | None = None
    parts: tuple[int, ...] = (1, 2)


def test_settings_are_of_the_annotated_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS._things, "varied", Varied)
    found = get_method("varied", {"share": 0.5, "when": 3, "parts": [4]})
    assert found.settings() == {**Varied().settings(), "share": 0.5, "when": 3.0, "parts": (4,)}
    with pytest.raises(TransilError, match=r"settings\.when is 'x', but must be a number"):
        get_method("varied", {"when": "x"})


@pytest.mark.parametrize("recipe", ["lucir-32", "lwf-t-224", "ft-tiny"])
def test_a_method_from_outside_borrows_any_recipe(recipe: str) -> None:
    config = resolve(method="anchored", recipe=recipe, overrides=[{"data": {"path": DATA}}])
    assert config.settings == {}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("no_such_module:Foo", "cannot be loaded: No module named 'no_such_module'"),
        ("outside_method:Foo", "cannot be loaded: module 'outside_method' has no attribute 'Foo'"),
        ("outside_method:Path", "that is no method whose name is 'broken'"),
        ("outside_method:Anchored", "that is no method whose name is 'broken'"),
    ],
)
def test_a_broken_package_is_told_and_harms_no_other(
    value: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with outside_method.installed(tmp_path, f"broken = {value}"):
        with pytest.raises(TransilError, match=f"method 'broken', announced as {value}.*{says}"):
            METHODS.find("broken")
        assert main(["methods"]) == 0
    said = capsys.readouterr()
    assert says in said.err
    assert "lucir " in said.out

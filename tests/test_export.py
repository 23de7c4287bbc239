"""Corrected heads for services: every form, read back by the library that serves it."""

from __future__ import annotations

import io
import re
import runpy
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from support import ok_here, refused
from transil import Bank, Corrector, TransilError, fit, load_bank
from transil.adaptation.columns import Columns
from transil.errors import ScheduleWarning
from transil.interop import export as module
from transil.interop.export import FORMS, export, read_head
from transil.nets.heads import CosineHead, LinearHead
from transil.testing import biased_scores

SIZES, WIDTH = "6,3,3", 8
ENDINGS = [form.ending for form in FORMS.values()]


@pytest.fixture(scope="module")
def scores() -> Any:
    return biased_scores(SIZES, seed=3, images_per_class=20).get("test", 3).scores


@pytest.fixture(scope="module")
def bank() -> Bank:
    return fit(biased_scores(SIZES, seed=1, images_per_class=20))


@pytest.fixture(scope="module")
def corrector(bank: Bank, scores: Any) -> Corrector:
    return Corrector(SIZES, bank=bank, prior="uniform").fit(scores)


@pytest.fixture
def work(bank: Bank, corrector: Corrector, tmp_path: Path) -> Path:
    bank.save(tmp_path / "bank.json")
    corrector.save(tmp_path / "corrector.json")
    save_file(head_of("linear").state_dict(), tmp_path / "head.safetensors")
    return tmp_path


def head_of(kind: str) -> torch.nn.Module:
    torch.manual_seed(0)
    head: torch.nn.Module
    if kind == "cosine":
        head = CosineHead(WIDTH, 12).requires_grad_(False)
        head.eta.fill_(7.0)
    elif kind == "plain":
        head = torch.nn.Linear(WIDTH, 12, bias=False).half()
    elif kind == "whole":  # of classes to come, too
        head = LinearHead(WIDTH, 20)
    else:
        head = torch.nn.Linear(WIDTH, 12)
    return head.requires_grad_(False)


def run_file(path: Path, features: torch.Tensor) -> torch.Tensor:
    """What a service gets from a file."""
    read: Any = torch.jit.load
    if path.suffix == ".onnx":
        runtime = pytest.importorskip("onnxruntime")
        session = runtime.InferenceSession(path)
        return torch.from_numpy(session.run(["scores"], {"features": features.numpy()})[0])
    if path.suffix == ".pt":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made: torch.Tensor = read(path)(features)
            return made
    if path.suffix == ".pt2":
        exported: torch.Tensor = torch.export.load(path).module()(features)
        return exported
    found = load_file(path)
    if "1.weight" in found:
        features = features / features.norm(dim=1, keepdim=True)
    names = sorted(name.rpartition(".")[2] for name in found)
    assert names == ["bias", "weight"]
    weight, bias = (next(x for n, x in found.items() if n.endswith(part)) for part in names[::-1])
    return features @ weight.T + bias


@pytest.mark.parametrize("kind", ["linear", "cosine", "plain", "whole"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_every_form_gives_the_corrected_scores(
    corrector: Corrector, tmp_path: Path, ending: str, kind: str
) -> None:
    head, path = head_of(kind), tmp_path / f"model{ending}"
    assert export(corrector.columns_, head, path) < 1e-6
    assert head.state_dict().keys() == head_of(kind).state_dict().keys()
    for rows in (1, 5):  # any number of images
        features = torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(rows))
        expected = head.float()(features)
        expected[:, :12] = corrector.transform(expected[:, :12])
        torch.testing.assert_close(run_file(path, features), expected, atol=1e-4, rtol=1e-4)
    again = tmp_path / f"again{ending}"
    export(corrector.columns_, head_of(kind), again)
    if ending != ".pt2":  # torch counts what it exports in one process
        assert again.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_command(bank: Bank, scores: Any, work: Path, ending: str) -> None:
    """Heads as they lie in files: named among others, of a cosine, in another type."""
    cosine = {"fc.weight": torch.randn(12, WIDTH), "fc.sigma": torch.tensor(4.0)}
    save_file({**cosine, "conv.weight": torch.zeros(2, 3, 3, 3)}, work / "cosine.safetensors")
    torch.save({"a.weight": torch.zeros(3, 3), **cosine}, work / "two.pt")
    head = CosineHead(WIDTH, 12).requires_grad_(False)
    head.load_state_dict({"weight": cosine["fc.weight"], "eta": torch.tensor([4.0])})
    features = torch.randn(4, WIDTH)
    order = list(range(12))[::-1]
    for source, words, make in (
        ("cosine.safetensors", ("corrector.json",), Corrector.load(work / "corrector.json").layer),
        ("two.pt", ("bank.json", "--state", "3", "--key", "fc"), lambda: bank.layer(3)),
        ("two.pt", ("bank.json", "--state", "3", "--key", "fc", "--strength", "0.5", "--order",
                    ",".join(map(str, order))),
         lambda: bank.at_strength(0.5).layer(3, order=order)),
    ):  # fmt: skip
        said = ok_here("export", *words, "--head", source, "-o", f"m{ending}", cwd=work)
        assert re.match(
            rf"m{ending}: 12 classes corrected; read back, it differs .* by \S+e-", said
        )
        expected = make()(head(features))
        found = run_file(work / f"m{ending}", features)
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_a_file_that_differs_is_not_written(
    corrector: Corrector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shaken(made: torch.nn.Module) -> bytes:
        state = {name: x + 0.01 for name, x in made.state_dict().items()}
        file = io.BytesIO()
        torch.save(state, file)
        return file.getvalue()

    def read(data: bytes) -> Any:
        state = torch.load(io.BytesIO(data))
        return lambda x: torch.nn.functional.linear(x, state["weight"], state["bias"])

    monkeypatch.setitem(FORMS, "safetensors", module.Form(".safetensors", shaken, read))
    with pytest.raises(TransilError, match="not written, what it gives differs"):
        export(corrector.columns_, head_of("linear"), tmp_path / "m.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_mistakes_get_one_line(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weight = torch.randn(12, WIDTH)
    files: dict[str, dict[str, torch.Tensor]] = {
        "two": {"a.weight": weight, "b.weight": weight.clone()},
        "none": {"conv.weight": torch.zeros(2, 2, 3, 3)},
        "nan": {"weight": weight * torch.nan},
        "whole": {"weight": weight.long()},
        "empty": {"weight": weight[:, :0]},
        "short": {"weight": weight[:9]},
        "bias": {"weight": weight, "bias": torch.zeros(3)},
        "etas": {"weight": weight, "eta": torch.zeros(3)},
    }
    for name, tensors in files.items():
        save_file(tensors, work / f"{name}.safetensors")
    np.save(work / "one.npy", weight.numpy())
    head = ("--head", "head.safetensors")
    cases: list[tuple[tuple[str, ...], str]] = [
        (("--head", "two.safetensors"), "2 layers have tables of weights; name the head: --key b"),
        (
            ("--head", "two.safetensors", "--key", "c"),
            "no layer 'c' with a table of weights; there",
        ),
        (("--head", "none.safetensors"), "no table 'weight' (classes, width) in it"),
        (("--head", "nan.safetensors"), "weight: NaN or infinity in it"),
        (("--head", "whole.safetensors"), "weight: expected floating-point numbers"),
        (("--head", "empty.safetensors"), "weight: nothing in it"),
        (("--head", "short.safetensors"), "at least 12 rows are expected"),
        (("--head", "bias.safetensors"), "bias of shape (3,), but the weight has 12 x 8"),
        (("--head", "etas.safetensors"), "eta of shape (3,)"),
        (("--head", "one.npy"), "one array without a name"),
        (("--head", "corrector.json"), "unknown kind of file"),
        ((*head, "--to", "onxx"), "did you mean 'onnx'?"),
        ((*head, "--to", "torchscript"), "unknown ending; name the file *.pt"),
        ((*head, "--state", "3"), "a corrector knows its state; leave out --state"),
        ((*head, "--order", "1,0"), "a corrector knows its order; leave out --order"),
    ]
    for words, says in cases:
        refused(work, "export", "corrector.json", *words, "-o", "m.onnx", says=says)
    given = ("export", "corrector.json", *head, "-o")
    refused(work, *given, "m.bin", says="name the file *.onnx or *.pt or *.pt2 or *.safetensors")
    refused(work, *given, "head.safetensors", says="these are the weights; write to another file")
    refused(work, "export", "bank.json", *head, "-o", "m.pt", says="say which one: --state")
    words = ("export", "lwf-t", "--schedule", SIZES, "--state", "3", *head, "-o", "m.pt")
    refused(work, *words, says="looks at the scores; measure them once")
    monkeypatch.setitem(sys.modules, "onnx", None)
    refused(work, *given, "m.onnx", says="ONNX needs onnx; run: pip install onnx")


def test_a_head_comes_from_any_file_of_arrays(tmp_path: Path) -> None:
    head = head_of("linear")
    state = {name: x.numpy() for name, x in head.state_dict().items()}
    np.savez(tmp_path / "head.npz", **state)
    torch.save(
        {"fc." + name: torch.from_numpy(x) for name, x in state.items()}, tmp_path / "a.ckpt"
    )
    for name in ("head.npz", "a.ckpt"):
        found = read_head(tmp_path / name).state_dict()
        assert all(torch.equal(found[n].float(), x) for n, x in head.state_dict().items())


def test_a_bank_is_brought_to_the_scores_of_a_layer(bank: Bank, scores: Any) -> None:
    large = 1.4 * scores
    expected = bank.like(large, 3).correct(large[:5], 3)
    for state in (3, None):
        layer = bank.layer(state, like=large)
        np.testing.assert_allclose(layer(torch.from_numpy(large[:5])), expected, atol=1e-5)
    order = np.random.default_rng(0).permutation(12)
    mixed = large[:, np.argsort(order)]
    found = bank.layer(like=mixed, order=order)(torch.from_numpy(mixed[:5]))
    np.testing.assert_allclose(found[:, order], expected, atol=1e-5)
    with pytest.warns(ScheduleWarning):  # so few classes
        open_bank = load_bank("lwf-t", schedule=SIZES)
    made = open_bank.layer(like=scores)(torch.from_numpy(np.array(scores[:5])))
    np.testing.assert_allclose(made, open_bank.like(scores, 3).correct(scores[:5], 3), atol=1e-5)
    with pytest.raises(TransilError, match="give the state, or scores of it"):
        bank.layer()
    assert Columns.of(bank, 1).scale.tolist() == [1.0] * 6


def test_folders_as_hugging_face_has_them(
    bank: Bank, corrector: Corrector, scores: Any, tmp_path: Path
) -> None:
    bank.save_pretrained(tmp_path / "bank")
    corrector.save_pretrained(tmp_path / "corrector")
    assert [p.name for p in (tmp_path / "bank").iterdir()] == ["config.json"]
    found = Bank.from_pretrained(tmp_path / "bank")
    np.testing.assert_array_equal(found.correct(scores, 3), bank.correct(scores, 3))
    same = Corrector.from_pretrained(str(tmp_path / "corrector"))
    np.testing.assert_array_equal(same.transform(scores), corrector.transform(scores))
    bank.save_pretrained(tmp_path / "bank")  # its own file may be replaced
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"model_type": "vit"}')
    for made in (bank, corrector):
        with pytest.raises(TransilError, match="is not a transil-.* file; remove it"):
            made.save_pretrained(tmp_path / "model")
    with pytest.raises(TransilError, match="no such folder, and nothing is downloaded"):
        Bank.from_pretrained("somebody/bank")
    with pytest.raises(TransilError, match=r"config\.json"):
        Corrector.from_pretrained(tmp_path / "bank")


def test_the_service_of_the_documents_under_mlflow(
    corrector: Corrector, scores: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow.pyfunc")
    pandas = pytest.importorskip("pandas")
    example = Path(__file__).resolve().parents[1] / "examples/mlflow_service.py"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(example), "corrector.json", "service"])
    corrector.save("corrector.json")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of mlflow, about other packages
        runpy.run_path(str(example), run_name="__main__")
        served = mlflow.load_model("service")
        frame = pandas.DataFrame(np.array(scores[:3]))
        np.testing.assert_allclose(
            served.predict(frame), corrector.transform(scores[:3]), rtol=1e-5
        )

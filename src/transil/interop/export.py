"""Corrected heads as files that other programs run: ONNX, TorchScript, torch.export, safetensors.

The correction is folded into the head, so nothing is served but a linear layer, behind features of
length 1 where the head is a cosine one. What was made is read back and compared with the head and
the correction one after the other, before it is written.
"""

from __future__ import annotations

import copy
import io
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import nn

from transil._common.arrays import Float64Array
from transil._common.files import atomic_file, check_output
from transil._common.registry import nearest
from transil.adaptation.columns import Columns
from transil.adaptation.folding import fold
from transil.errors import TransilError, missing
from transil.nets.heads import CosineHead
from transil.scores.array_files import as_array, load_arrays

# What a file may differ from head and correction one after the other, as a share of the largest
# score: float32, and other orders of summation.
TOLERANCE = 1e-4
TRIED = 64  # feature vectors that both are given
FACTORS = ("eta", "sigma")  # how cosine heads call their one scale
OPSET, IR = 17, 8  # of ONNX: old enough for runtimes of years ago

Run: TypeAlias = Callable[[torch.Tensor], torch.Tensor]


class Form(NamedTuple):
    """One kind of file: how its names end, how it is made, and how what is in it runs."""

    ending: str
    write: Callable[[nn.Module], bytes]
    read: Callable[[bytes], Run]


def export(
    columns: Columns, head: nn.Module, path: str | os.PathLike[str], to: str | None = None
) -> float:
    """Write a head (features (n, d) to scores) with the correction inside; float32, for any n.

    `head`: a linear or cosine head, as `Corrector.fold` takes them; `columns`: `Corrector.columns_`, or
    `Columns.of(bank, state)`; `to`: one of `FORMS`, else told by the ending. Returns the largest
    difference to head and correction one after the other, as a share of the largest score.
    """
    path = Path(path)
    form = FORMS[_form_of(path, to)]
    check_output(path)
    head = copy.deepcopy(head).cpu().double().requires_grad_(False)
    made = fold(columns, head).float().requires_grad_(False)
    data = form.write(made)
    off = _difference(columns, head, made, form.read(data))
    if not off <= TOLERANCE:
        raise TransilError(
            f"{path}: not written, what it gives differs from the corrected scores by {off:.1e} of the "
            "largest; is a weight of the head, or the correction, out of all bounds?"
        )
    with atomic_file(path) as file:
        file.write(data)
    return off


def read_head(path: Path, key: str | None = None) -> nn.Module:
    """The head in a file of weights, in float64: `weight` (classes, d) and `bias`, if there is one.

    `eta` or `sigma` beside the weight makes it a cosine head. Among other layers the head is the only
    one with a table of weights, or the one that `key` names.
    """
    found = load_arrays(path)
    if not isinstance(found, Mapping):
        raise TransilError(f"{path}: one array without a name; a head has 'weight' and 'bias'")
    start = _start(path, found, key)
    parts = {"weight": _values(found, start + "weight", path)}
    classes, width = parts["weight"].shape
    factor = next((start + name for name in FACTORS if start + name in found), None)
    head = nn.Linear(width, classes) if factor is None else CosineHead(width, classes)
    if factor is not None:
        parts["eta"] = _values(found, factor, path).reshape(-1)
    elif start + "bias" in found:
        parts["bias"] = _values(found, start + "bias", path)
    else:
        parts["bias"] = np.zeros(classes)
    for name, wanted in head.state_dict().items():
        if parts[name].shape != wanted.shape:
            raise TransilError(
                f"{path}: {start}{name} of shape {parts[name].shape}, but the weight has {classes} x "
                f"{width}"
            )
    head.double().load_state_dict({name: torch.from_numpy(x) for name, x in parts.items()})
    return head


def _start(path: Path, found: Mapping[str, Any], key: str | None) -> str:
    """How the names of the head's parts begin: 'fc.', or nothing."""
    tables = [n for n, x in found.items() if getattr(x, "ndim", 0) == 2]
    layers = [n.removesuffix(".weight") for n in tables if n.endswith(".weight")]
    if key is not None:
        if key not in layers:
            raise TransilError(
                f"{path}: no layer '{key[:40]}' with a table of weights; {nearest(key, layers[-8:])}"
            )
        return f"{key}."
    if "weight" in tables:
        return ""
    if len(layers) == 1:
        return f"{layers[0]}."
    raise TransilError(
        f"{path}: "
        + (f"{len(layers)} layers have tables of weights; name the head: --key {layers[-1]}" if layers
           else "no table 'weight' (classes, width) in it; give the weights of the last layer")
    )  # fmt: skip


def _values(found: Mapping[str, Any], name: str, path: Path) -> Float64Array:
    where = f"{path}: {name}"
    array = as_array(found[name], where)
    if not isinstance(array, np.ndarray) or array.dtype.kind != "f":
        raise TransilError(f"{where}: expected floating-point numbers")
    if not array.size or not np.isfinite(array).all():
        raise TransilError(f"{where}: {'NaN or infinity' if array.size else 'nothing'} in it")
    return np.array(array, dtype=np.float64)


def _form_of(path: Path, to: str | None) -> str:
    """The form that is asked for, or that of the ending; they must agree."""
    endings = {form.ending: name for name, form in FORMS.items()}
    if to is not None and to not in FORMS:
        raise TransilError(f"--to '{to}' is unknown; {nearest(to, list(FORMS))}")
    if path.suffix not in endings or to not in (None, endings[path.suffix]):
        wanted = endings if to is None else [FORMS[to].ending]
        raise TransilError(
            f"{path}: unknown ending; name the file {' or '.join(f'*{e}' for e in wanted)}"
        )
    return endings[path.suffix]


def _difference(columns: Columns, head: nn.Module, made: nn.Module, run: Run) -> float:
    """The largest difference between a file and what it stands for, as a share of the largest score."""
    width, seen = _linear(made).in_features, len(columns.scale)
    features = torch.randn(TRIED, width, generator=torch.Generator().manual_seed(0))
    scores = head(features.double())
    expected = torch.cat([columns.correct(scores[:, :seen]), scores[:, seen:]], dim=1)
    found = torch.cat([run(features[:1]), run(features[1:])])  # batches of two sizes
    largest = max(float(scores.abs().max()), float(expected.abs().max())) or 1.0
    return float((found - expected).abs().max()) / largest


# -- the forms ---------------------------------------------------------------------------------


def _linear(made: nn.Module) -> nn.Linear:
    """The linear layer of a folded head."""
    layer = made if isinstance(made, nn.Linear) else made.get_submodule("1")
    assert isinstance(layer, nn.Linear)
    return layer


def _onnx() -> Any:
    try:
        import onnx
        import onnx.reference
    except ModuleNotFoundError:
        raise missing("ONNX needs", "onnx") from None
    return onnx


def _to_onnx(made: nn.Module) -> bytes:
    """Node by node: torch's exporter needs another package, and its older one is about to go."""
    onnx, layer = _onnx(), _linear(made)
    node, nodes, inputs = onnx.helper.make_node, [], "features"
    arrays = {"weight": layer.weight.numpy(), "bias": layer.bias.numpy()}
    if layer is not made:
        arrays["least"] = np.array(1e-12, np.float32)  # as torch has it, for features of length 0
        nodes = [
            node("ReduceL2", ["features"], ["lengths"], axes=[1]),
            node("Max", ["lengths", "least"], ["positive"]),
            node("Div", ["features", "positive"], ["normalised"]),
        ]
        inputs = "normalised"
    nodes.append(node("Gemm", [inputs, "weight", "bias"], ["scores"], transB=1))
    value, kind = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        nodes,
        "corrected-head",
        [value("features", kind, ["batch", layer.in_features])],
        [value("scores", kind, ["batch", layer.out_features])],
        [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    opset = onnx.helper.make_opsetid("", OPSET)
    model = onnx.helper.make_model(
        graph, opset_imports=[opset], ir_version=IR, producer_name="transil"
    )
    onnx.checker.check_model(model, full_check=True)
    data: bytes = model.SerializeToString()
    return data


def _from_onnx(data: bytes) -> Run:
    model = _onnx().reference.ReferenceEvaluator(_onnx().load_from_string(data))
    return lambda features: torch.from_numpy(model.run(None, {"features": features.numpy()})[0])


def _to_torchscript(made: nn.Module) -> bytes:
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that torch.export is its successor: both are offered
        torch.jit.save(torch.jit.script(made), file)
    return file.getvalue()


def _from_torchscript(data: bytes) -> Run:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run: Run = torch.jit.load(io.BytesIO(data))  # type: ignore[no-untyped-call]
    return run


def _to_exported(made: nn.Module) -> bytes:
    file, some = io.BytesIO(), torch.zeros(2, _linear(made).in_features)
    batch = torch.export.Dim("batch")
    torch.export.save(torch.export.export(made, (some,), dynamic_shapes=({0: batch},)), file)
    return file.getvalue()


def _from_exported(data: bytes) -> Run:
    return torch.export.load(io.BytesIO(data)).module()


def _to_safetensors(made: nn.Module) -> bytes:
    """The state dict of the folded head; '1.weight' stands behind features of length 1."""
    from safetensors.torch import save

    data: bytes = save(made.state_dict(), {"format": "pt"})
    return data


def _from_safetensors(data: bytes) -> Run:
    from safetensors.torch import load

    found = load(data)
    if "weight" in found:
        return lambda x: nn.functional.linear(x, found["weight"], found["bias"])
    return lambda x: nn.functional.linear(
        nn.functional.normalize(x), found["1.weight"], found["1.bias"]
    )


FORMS = {
    "onnx": Form(".onnx", _to_onnx, _from_onnx),
    "torchscript": Form(".pt", _to_torchscript, _from_torchscript),
    "torch.export": Form(".pt2", _to_exported, _from_exported),
    "safetensors": Form(".safetensors", _to_safetensors, _from_safetensors),
}

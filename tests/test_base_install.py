"""The base install: quick to import, without torch, and without any of the extras."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from transil import Corrector, fit
from transil.testing import biased_scores

EXTRAS = (
    "pandas", "polars", "pyarrow", "timm", "torchvision", "avalanche", "onnx", "onnxruntime", "wandb",
    "mlflow", "tensorboard", "matplotlib", "PIL", "yaml", "ray", "sklearn", "scipy", "huggingface_hub",
)  # fmt: skip
BLOCK = f"import sys; sys.modules.update(dict.fromkeys({EXTRAS!r}))"  # as if they were not there


def run_script(script: str, cwd: Path) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_import_is_quick_and_without_torch(tmp_path: Path) -> None:
    script = """
import sys, time
start = time.process_time()
import transil
print(time.process_time() - start, "torch" in sys.modules)
"""
    for _ in range(6):  # other work on the machine slows some down
        seconds, torch = run_script(script, tmp_path).split()
        assert torch == "False"
        if float(seconds) < 0.25:
            return
    pytest.fail(f"import transil took {seconds} s")


def test_what_needs_no_extra_works_without_them(tmp_path: Path) -> None:
    """And what needs one names the package to install."""
    scores = biased_scores("6,3,3", seed=3, images_per_class=20).get("test", 3).scores
    fit(biased_scores("6,3,3")).save(tmp_path / "bank.json")
    Corrector("6,3,3", bank=tmp_path / "bank.json", prior="uniform").fit(scores).save(
        tmp_path / "corrector.json"
    )
    np.save(tmp_path / "scores.npy", scores)
    np.savez(tmp_path / "head.npz", weight=np.eye(12, 5, dtype=np.float32))
    (tmp_path / "table.csv").write_text("a,b\n1.5,2\n")
    script = f"""{BLOCK}
from transil.cli import main
for line in '''correct scores.npy --bank bank.json -o out.npz
correct out.npz --bank corrector.json -o out.safetensors
correct scores.npy --bank bank.json -o out.pt
advise scores.npy --schedule 6,3,3
export corrector.json --head head.npz -o head.safetensors
correct table.csv --bank bank.json -o out.npy
correct scores.npy --bank bank.json -o out.parquet
export corrector.json --head head.npz -o out.onnx
evaluate nothing --figure x.png
train --data formula:strokes --recipe ft-tiny -o run'''.splitlines():
    print("===", main(line.split()), flush=True)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path
    )
    codes = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("===")]
    assert codes == ["0"] * 5 + ["2"] * 5, done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    for error, package in zip(errors, ("pyarrow", "pyarrow", "onnx", "", "pyyaml"), strict=True):
        assert f"; run: pip install {package}" in error or not package

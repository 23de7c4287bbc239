"""Banks as files: everything is kept, in the same bytes, and what is wrong is told."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from support import UNEQUAL, unequal_bank
from transil import Bank, Penalty, TransilError, evaluate, fit, load_bank
from transil.testing import biased_scores


@pytest.mark.parametrize("correction", ["adbic", "bic", "bic-past", "bic-all"])
@pytest.mark.parametrize("solver", ["newton", "authors", "paper"])
def test_a_file_keeps_everything(tmp_path: Path, correction: str, solver: str) -> None:
    settings = {} if solver == "newton" else {"epochs": 2}
    bank = unequal_bank((1,), correction, solver=solver, **settings)
    bank.save(tmp_path / "a.json")
    again = load_bank(tmp_path / "a.json")
    again.save(tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert again.to_json() == bank.to_json()
    for state in range(1, 6):
        assert again.applied(state) == bank.applied(state)


def test_the_same_fit_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        unequal_bank((1, 2), solver="paper", epochs=3).save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_it_tells_where_it_comes_from() -> None:
    data = unequal_bank().to_json()
    assert data["format"] == "transil-bank"
    assert data["version"] == 2
    assert data["method"] == "generated"
    assert data["schedule"] == {"sizes": UNEQUAL}
    assert data["solver"] == "newton"
    assert data["settings"]["penalty"] == {"alpha": 0.0, "beta": 0.0}
    assert data["score_kind"] == "logit"
    assert data["provenance"]["datasets"] == ["generated-1", "generated-2", "generated-3"]
    assert len(data["provenance"]["config_hash"]) == 64
    assert data["provenance"]["versions"]["transil"]
    first = data["references"][0]["states"]["5"]
    assert first["fit"]["converged"] is True
    assert first["fit"]["gradient_norm"] <= 1e-8
    assert first["score_scale"] > 0


def test_config_hash_follows_the_settings_and_the_data() -> None:
    def config_hash(bank: Bank) -> str:
        return str(bank.provenance["config_hash"])

    base = config_hash(unequal_bank((1,)))
    assert base == config_hash(unequal_bank((1,)))
    assert base != config_hash(unequal_bank((2,)))
    assert base != config_hash(unequal_bank((1,), penalty=Penalty()))
    assert base != config_hash(unequal_bank((1,), "bic"))


# -- files that are wrong ----------------------------------------------------------------------


def _broken(change: Any) -> Any:
    data = copy.deepcopy(unequal_bank((1,)).to_json())
    change(data)
    return data


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.update(format="x"), "not a bank"),
        (lambda d: d.update(version=3), "bank version 3, but this transil reads 1 to 2"),
        (lambda d: d.pop("settings"), "bank: settings is missing"),
        (lambda d: d.update(references=[]), "no references"),
        (lambda d: d.update(correction="nix"), "correction 'nix' is unknown"),
        (lambda d: d.update(correction=3), "correction is 3, but must be a text"),
        (lambda d: d.update(schedule={"sizes": [50, 10]}), "state 3 does not belong"),
        (lambda d: d["references"][0]["states"].pop("3"), "state 3 does not belong or is missing"),
        (
            lambda d: d["references"][0]["states"]["3"]["parameters"]["alpha"].pop(),
            "references\\[0\\].states.3: pairs: 2 values of alpha but 3 of beta",
        ),
        (
            lambda d: d["references"][0]["states"]["3"]["parameters"].update(
                alpha=[1.0], beta=[0.0]
            ),
            "state 3: 1 pairs, but 'adbic' has 3",
        ),
        (
            lambda d: d["references"][0]["states"]["3"]["parameters"].update(alpha=["a", 1, 1]),
            "references\\[0\\].states.3.parameters.alpha\\[0\\] is 'a', but must be a number",
        ),
        (lambda d: d["transfer"].update(how="magic"), "transfer 'magic' is unknown"),
        (lambda d: d["transfer"].update(how="single"), "no reference"),
        (lambda d: d["transfer"].update(how="oracle"), "no reference for state 2"),
        (lambda d: d.update(references=3), "references is 3, but must be a list"),
    ],
)
def test_what_is_wrong_in_a_file_is_told(change: Any, words: str) -> None:
    with pytest.raises(TransilError, match=words) as raised:
        Bank.from_json(_broken(change))
    assert "\n" not in str(raised.value)


def test_evaluate_takes_the_name_or_file_of_a_bank(tmp_path: Path) -> None:
    store = biased_scores("12/3", images_per_class=8)
    bank = fit(store)
    bank.save(tmp_path / "b.json")
    found = evaluate(store, tmp_path / "b.json").last_accuracy
    assert found == evaluate(store, bank).last_accuracy
    with pytest.raises(TransilError, match="no such file, and no shipped bank"):
        evaluate(store, "nothing")

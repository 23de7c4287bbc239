"""CIFAR's pickles: what proper ones hold is read, and what crafted ones want is refused."""

from __future__ import annotations

import pickle
import struct
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from image_files import make_cifar, refuses
from support import run_transil
from transil.data import open_images
from transil.data.sources import plain_pickle
from transil.data.sources.plain_pickle import Array, PlainPickleError, load_plain


class Call:
    """A pickle that calls a function, and fills with `state` what it gave."""

    def __init__(self, *what: Any, state: Any = None) -> None:
        self.what, self.state = what, state

    def __reduce__(self) -> Any:
        call, *given = self.what
        return (call, tuple(given)) if self.state is None else (call, tuple(given), self.state)


def array_of(dtype: Any, data: Any = b"\x01", shape: Any = (1,), version: int = 1) -> Call:
    return Call(
        np.arange(3).__reduce__()[0], np.ndarray, (0,), b"b",
        state=(version, shape, dtype, False, data),
    )  # fmt: skip


def hidden_object() -> Call:
    """An array whose dtype has a field of Python objects, and says that it has none."""
    pointer = Call(np.dtype, "O8", False, True, state=(3, "|", None, None, None, -1, -1, 63))
    dtype = Call(
        np.dtype, "V8", False, True,
        state=(3, "|", None, ("a",), {"a": (pointer, 0)}, 8, 1, 0),
    )  # fmt: skip
    return array_of(dtype, (0x4141414141414141).to_bytes(8, "little"))


def test_an_address_from_a_file_is_not_followed(tmp_path: Path) -> None:
    """NumPy would take the eight bytes for an object, and printing it ends the process."""
    folder = make_cifar(tmp_path / "c", 100, "python")
    (folder / "meta").write_bytes(pickle.dumps({b"fine_label_names": [hidden_object()]}, 2))
    done = run_transil("data", "show", folder, "--cache-dir", tmp_path / "cache")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "meta: refused, not a file of arrays" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("protocol", range(6))
def test_plain_values(protocol: int) -> None:
    shared = [1, 2]
    values: dict[str | bytes, Any] = {
        "a": [None, True, False, 1.5, -1.0, 0, -5, 255, 256, 70_000, -(2**31), 2**100, -(2**90)],
        b"b": (b"", b"x" * 300, "", "ü\U0001f600", (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)),
        "c": {"d": [], "e": {}, "f": [[[[]]]]},
        "g": [shared, shared],
    }
    if protocol < 3:  # written as a call of `bytes`
        values[b"b"] = values[b"b"][1:]
    loaded = load_plain(pickle.dumps(values, protocol))
    assert loaded == values
    assert [type(value) for value in loaded["a"]] == [type(value) for value in values["a"]]
    assert loaded["g"][0] is loaded["g"][1]


@pytest.mark.parametrize("protocol", range(6))
def test_arrays_of_whole_numbers(protocol: int) -> None:
    flat = np.arange(24)
    arrays = [
        flat, flat.reshape(2, 3, 4), np.asfortranarray(flat.reshape(4, 6)), flat[::2],
        *(flat.astype(kind) for kind in ("u1", "i1", "<i2", ">i2", "<u4", ">u4", "<i8", ">u8")),
    ]  # fmt: skip
    for array, loaded in zip(arrays, load_plain(pickle.dumps(arrays, protocol)), strict=True):
        assert type(loaded) is Array
        assert loaded.values is not None
        np.testing.assert_array_equal(loaded.values, array)
        assert loaded.values.dtype == array.dtype


def test_what_python_2_wrote(tmp_path: Path) -> None:
    """The official files: texts are bytes, the dtype is named by one, numbers stand for bools."""
    dtype = (
        b"cnumpy\ndtype\nq\x07U\x02u1K\x00K\x01\x87Rq\x08(K\x03U\x01|NNN"
        b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    )
    labels = b"\x80\x02}q\x01(U\x0bfine_labelsq\x02]q\x03(K\x01K\x00eU\x04dataq\x04"
    made = b"cnumpy.core.multiarray\n_reconstruct\nq\x05cnumpy\nndarray\nq\x06K\x00\x85U\x01b\x87R"
    folder = make_cifar(tmp_path / "c", 100, "python")
    for name, first in (("train", 0), ("test", 1)):
        pixels = bytes((first + i) % 256 for i in range(2 * 3072))
        state = b"(K\x01K\x02M\x00\x0c\x86" + dtype + b"\x89T\x00\x18\x00\x00" + pixels + b"tb"
        (folder / name).write_bytes(labels + made + state + b"u.")
    (folder / "meta").write_bytes(
        b"(dp1\nS'fine_label_names'\np2\n(lp3\nS'apple'\np4\naS\"cat's\"\np6\nas."
    )
    images = open_images(folder, cache_dir=tmp_path / "cache")
    assert images.class_names == ("apple", "cat's")
    assert images.splits["train"].pixels[0, 0, :3, 0].tolist() == [0, 1, 2]
    assert images.splits["train"].labels.tolist() == [1, 0]
    oldest = load_plain(b"(lp0\nI1\naI01\naI00\naL5L\naF0.5\naV\\u00fc\na(tag0\na.")
    assert oldest[:-1] == [1, True, False, 5, 0.5, "ü", ()]
    assert oldest[-1] is oldest


PLAIN = np.dtype("u1")
CRAFTED: dict[str, Any] = {
    "a hidden object": hidden_object(),
    "an array of objects": np.array([{}, "x"], dtype=object),
    "an array with fields": np.zeros(2, dtype=[("a", "u1"), ("b", "i4")]),
    "an array of texts": np.array(["a"]),
    "an array of floats": np.zeros(2),
    "an array of dates": np.zeros(2, "M8[s]"),
    "a masked array": np.ma.masked_array([1], [True]),
    "a dtype with notes": array_of(np.dtype("u1", metadata={"a": 1})),
    "a dtype with parts": array_of(np.dtype(("u1", (2, 2))), b"1234"),
    "a dtype named by Python": array_of(Call(np.dtype, "object", False, True)),
    "a dtype of a list": Call(np.dtype, [("a", "O")], False, True),
    "a type": int,
    "a dtype of no size": array_of(Call(np.dtype, "V", False, True)),
    "an odd order of bytes": array_of(
        Call(np.dtype, "u1", False, True, state=(3, "x", None, None, None, -1, -1, 0))
    ),
    "flags of objects": array_of(
        Call(np.dtype, "u1", False, True, state=(3, "|", None, None, None, -1, -1, 63))
    ),
    "a size of its own": array_of(
        Call(np.dtype, "u1", False, True, state=(3, "|", None, None, None, 8, 8, 0))
    ),
    "fewer bytes than its shape": array_of(PLAIN, b"1234", (5,)),
    "more bytes than its shape": array_of(PLAIN, b"1234", (3,)),
    "a shape beyond memory": array_of(PLAIN, b"", (2**70, 0)),
    "a negative shape": array_of(PLAIN, b"1234", (-1, -4)),
    "a shape of floats": array_of(PLAIN, b"1234", (4.0,)),
    "a shape of bools": array_of(PLAIN, b"1", (True,)),
    "a shape of many sizes": array_of(PLAIN, b"1", (1,) * 40),
    "no shape": array_of(PLAIN, b"1", None),
    "values in a list": array_of(PLAIN, [1]),
    "another version": array_of(PLAIN, version=2),
    "an array without a dtype": array_of(None),
    "a subclass": Call(np.arange(3).__reduce__()[0], np.recarray, (0,), b"b"),
    "a shape given early": Call(np.arange(3).__reduce__()[0], np.ndarray, (2**40,), b"b"),
    "a number of NumPy's": np.float64(3),
    "a call of abs": Call(abs, 1),
    "a call of eval": Call(eval, "1"),
    "a text in rot13": Call(__import__("codecs").encode, "x", "rot13"),
    "a text that is no text": Call(__import__("codecs").encode, b"x", "latin1"),
    "a set": {1, 2},
    "a frozen set": frozenset({1}),
    "a complex number": 1j,
    "a class of ours": Path("x"),
    "numbers as keys": {1: 2},
    "tuples as keys": {(1, 2): 2},
    "a bytearray of the old kind": bytearray(b"x"),
}  # fmt: skip


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("what", CRAFTED)
def test_crafted_values(what: str, protocol: int) -> None:
    with pytest.raises(PlainPickleError) as raised:
        load_plain(pickle.dumps([CRAFTED[what]], protocol))
    assert len(str(raised.value)) < 150
    assert str(raised.value).isprintable()


STEPS = {
    "nothing": b"",
    "no end": b"N",
    "an end without a value": b".",
    "a cut text": b"X\xff\x00\x00\x00abc.",
    "a text of 2^63 bytes": b"\x8e" + b"\xff" * 7 + b"\x7f.",
    "a text of less than nothing": b"T\xff\xff\xff\xff.",
    "no line": b"I12",
    "a number of no digits": b"Ix\n.",
    "a number of 5,000 digits": b"L" + b"9" * 5000 + b"L\n.",
    "a place of 5,000 digits": b"Np" + b"9" * 5000 + b"\n.",
    "text that is not UTF-8": b"X\x01\x00\x00\x00\xff.",
    "half of an escape": b"V\\u12\n.",
    "a text without quotes": b"Sabc\n.",
    "a text with escapes": b"S'\\x41'\n.",
    "a place that was not kept": b"h\x05.",
    "keeping nothing": b"q\x05.",
    "too few for a tuple": b"N\x87.",
    "no mark": b"t.",
    "appending to nothing": b"Na.",
    "appending to a tuple": b")Na.",
    "setting in a list": b"]NNs.",
    "an odd number of items": b"}(X\x01\x00\x00\x00au.",
    "marks that were passed": b"(((NNaa.",
    "a persistent name": b"Pos.system\n.",
    "a persistent object": b"NQ.",
    "an extension": b"\x82\x01.",
    "an object": b"(ios\nsystem\n.",
    "a new object": b"cnumpy\nndarray\n)\x81.",
    "a new object by words": b"cnumpy\nndarray\n)}\x92.",
    "an old object": b"(cnumpy\nndarray\no.",
    "a buffer from outside": b"\x97.",
    "a set": b"\x8f.",
    "a name of two numbers": b"NN\x93.",
    "a name with escapes": b"c\x1b[31m\n\x07\n.",
    "calling a number": b"K\x01)R.",
    "calling with a list": b"cnumpy\ndtype\n]R.",
    "filling a function": b"cnumpy\ndtype\n}b.",
    "filling a number": b"K\x01}b.",
    "filling a list": b"]}b.",
}


@pytest.mark.parametrize("what", STEPS)
def test_crafted_steps(what: str) -> None:
    for head in (b"", b"\x80\x04\x95" + struct.pack("<Q", 2**63)):
        with pytest.raises(PlainPickleError) as raised:
            load_plain(head + STEPS[what])
        assert str(raised.value).isprintable()


def test_work_and_memory_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"X" + struct.pack("<I", 100_000) + b"a" * 100_000 + b"q\x00"
    again = b"c_codecs\nencode\nh\x00X\x06\x00\x00\x00latin1\x86R"
    started = time.monotonic()
    tracemalloc.start()
    for raw in (
        b"Nr\xff\xff\xff\xff.",  # kept at a place far away
        b"]" * 100_000 + b"a" * 99_999 + b".",
        b")" + b"\x85" * 100_000 + b".",
    ):
        load_plain(raw)
    with pytest.raises(PlainPickleError, match="more bytes than it holds"):
        load_plain(text + again * 1000 + b".")
    assert tracemalloc.get_traced_memory()[1] < 30e6
    tracemalloc.stop()
    monkeypatch.setattr(plain_pickle, "MOST_STEPS", 1000)
    with pytest.raises(PlainPickleError, match="more than 1,000 steps"):
        load_plain(b"}" * 2000)
    monkeypatch.setattr(plain_pickle, "LONG_TEXT", 1000)
    assert load_plain(b"X" + struct.pack("<I", 2000) + "ü".encode() * 1000 + b".") == "ü" * 1000
    for raw in (
        b"X" + struct.pack("<I", 1004) + b"a" * 1000 + "\U0001f600".encode() + b".",
        b"V" + b"a" * 2000 + b"\n.",
    ):
        with pytest.raises(PlainPickleError, match="a text of megabytes"):
            load_plain(raw)
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("train", [1], "train: expected a dictionary, found list"),
        ("train", {b"data": 1}, "no 'data' and 'fine_labels' in it"),
        ("train", {b"data": b"x", b"fine_labels": [0]}, "'data' must be an array of bytes"),
        ("train", {b"data": np.zeros((1, 3)).astype("u1"), b"fine_labels": [0]}, "rows of 3072"),
        ("train", {b"data": np.zeros((1, 3072), "i8"), b"fine_labels": [0]}, "rows of 3072"),
        ("train", {b"data": np.zeros((1, 3072), "u1"), b"fine_labels": [True]}, "whole number an"),
        ("train", {b"data": np.zeros((1, 3072), "u1"), b"fine_labels": [2**70]}, "whole number an"),
        ("train", {b"data": np.zeros((1, 3072), "u1"), b"fine_labels": [-1]}, "whole number an"),
        ("meta", {b"fine_label_names": [1, 2]}, "no class names in it"),
        ("meta", {b"fine_label_names": "ab"}, "no class names in it"),
        ("meta", {b"fine_label_names": np.zeros(4, "u1")}, "no class names in it"),
        ("meta", {b"other": [b"a"]}, "no class names in it"),
    ],
)
def test_files_of_plain_values_that_are_not_those_of_cifar(
    tmp_path: Path, name: str, content: Any, words: str
) -> None:
    folder = make_cifar(tmp_path / "c", 100, "python")
    (folder / name).write_bytes(pickle.dumps(content, 3))
    refuses(words, folder, cache_dir=tmp_path / "cache")

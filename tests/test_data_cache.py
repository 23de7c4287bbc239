from __future__ import annotations

import copy
import errno
import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from image_files import make_folder, picture, pixels
from transil import TransilError
from transil.data import cache as cache_module
from transil.data import open_images
from transil.data.cache import convert, default_cache_dir
from transil.data.entries import Entry, clear, entry_paths, open_entry
from transil.data.sources.folder import FolderSource


def _only(folder: Path) -> Path:
    found = [path for path in folder.iterdir() if path.is_dir()]
    assert len(found) == 1
    return found[0]


def test_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_folder(tmp_path / "set")
    seen: list[tuple[float, str]] = []
    first = open_images(root, cache_dir=tmp_path / "c", progress=lambda a, b: seen.append((a, b)))
    assert seen[-1] == (1.0, "decoding 18/18")
    monkeypatch.setattr("transil.data.cache.decode", None)  # would fail if it were called
    second = open_images(root, cache_dir=tmp_path / "c")
    np.testing.assert_array_equal(first.splits["train"].pixels, second.splits["train"].pixels)
    assert first.fingerprint == second.fingerprint
    assert not second.splits["train"].pixels.flags.owndata
    # A run's config names the size the images have; that is no reason to decode them again.
    sized = open_images(root, cache_dir=tmp_path / "c", size=first.size)
    np.testing.assert_array_equal(first.splits["test"].pixels, sized.splits["test"].pixels)
    assert len(entry_paths(tmp_path / "c")) == 1


def test_key_follows_content_size_and_rule(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "set")
    folder = tmp_path / "c"
    for options in ({}, {"size": 4}, {"size": 4, "rule": "stretch"}, {"size": 6}):
        open_images(root, cache_dir=folder, **options)
    assert len(entry_paths(folder)) == 4
    picture(99).save(root / "train/class0/000.png")  # a file written anew
    os.utime(root / "train/class0/000.png", ns=(1, 1))
    changed = open_images(root, cache_dir=folder)
    assert len(entry_paths(folder)) == 5
    np.testing.assert_array_equal(changed.splits["train"].pixels[0], pixels(99))


def test_images_are_the_same_wherever_they_lie(tmp_path: Path) -> None:
    root, folder = make_folder(tmp_path / "set"), tmp_path / "c"
    first = open_images(root, cache_dir=folder)
    moved = root.rename(tmp_path / "other")
    for path in moved.rglob("*.png"):
        os.utime(path, ns=(1, 1))
    again = open_images(moved, cache_dir=folder)
    assert (again.fingerprint, again.name) == (first.fingerprint, "other")
    converted = convert(FolderSource(moved), tmp_path / "made", size=None, rule="crop")
    assert converted.fingerprint == first.fingerprint
    (moved / "train/class0").rename(moved / "train/class00")
    (moved / "test/class0").rename(moved / "test/class00")
    assert open_images(moved, cache_dir=folder).fingerprint != first.fingerprint
    picture(99).save(moved / "test/class00/000.png")
    assert open_images(moved, size=8, cache_dir=folder).fingerprint != first.fingerprint


def test_entries_of_early_versions_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, folder = make_folder(tmp_path / "set"), tmp_path / "c"
    images = open_images(root, cache_dir=folder)
    meta = _only(folder) / "meta.json"
    data = json.loads(meta.read_text())
    stamp = FolderSource(root).stamp()
    meta.write_text(json.dumps({**data, "fingerprint": stamp}))
    monkeypatch.setattr("transil.data.cache.decode", None)  # would fail if it were called
    again = open_images(root, cache_dir=folder)
    assert again.fingerprint == images.fingerprint != stamp


def test_a_cache_that_was_cut_or_altered_is_built_again(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "set")
    whole = np.array(open_images(root, cache_dir=tmp_path / "c").splits["train"].pixels)
    entry = _only(tmp_path / "c")

    def again() -> Any:
        return open_images(root, cache_dir=tmp_path / "c").splits["train"].pixels

    raw = (entry / "train.u8").read_bytes()
    (entry / "train.u8").write_bytes(raw[:-7])
    np.testing.assert_array_equal(again(), whole)
    (entry / "train.u8").write_bytes(b"\x00" + raw[1:])
    np.testing.assert_array_equal(again(), whole)
    (entry / "test.u8").unlink()
    np.testing.assert_array_equal(again(), whole)
    (entry / "meta.json").write_text("{")
    np.testing.assert_array_equal(again(), whole)
    (entry / "train.labels.npy").write_bytes(b"")
    np.testing.assert_array_equal(again(), whole)


def test_a_full_disk_is_told_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_folder(tmp_path / "set")

    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cache_module._SplitWriter, "_keep", full)
    with pytest.raises(TransilError, match="cannot write the cache .*No space left on device"):
        open_images(root, cache_dir=tmp_path / "c")
    monkeypatch.undo()
    assert [p.name for p in (tmp_path / "c").iterdir() if not p.name.endswith(".lock")] == []
    assert len(open_images(root, cache_dir=tmp_path / "c").splits["train"]) == 12


def test_killed_while_building(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "set")
    script = f"""
import os, signal
os.rename = lambda a, b: os.kill(os.getpid(), signal.SIGKILL)
from transil.data import open_images
open_images({str(root)!r}, cache_dir={str(tmp_path / "c")!r})
"""
    done = subprocess.run([sys.executable, "-c", script], timeout=60)
    assert done.returncode == -9
    assert entry_paths(tmp_path / "c") == []
    assert len(open_images(root, cache_dir=tmp_path / "c").splits["train"]) == 12


def test_two_processes_at_once_build_it_once(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "set", train=30)
    script = f"""
import transil.data.cache as cache
from transil.data import open_images
real = cache._Build.into
def into(self, path, progress):
    print("built", flush=True)
    return real(self, path, progress)
cache._Build.into = into
print(len(open_images({str(root)!r}, cache_dir={str(tmp_path / "c")!r}).splits["train"]))
"""
    jobs = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    outputs = [job.communicate(timeout=60)[0] for job in jobs]
    assert all(output.strip().endswith("90") for output in outputs)
    assert sum("built" in output for output in outputs) == 1


def test_listing_verifying_and_clearing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "c"
    monkeypatch.setenv("TRANSIL_CACHE", str(folder))
    assert default_cache_dir() == folder
    assert entry_paths(folder) == []
    open_images(make_folder(tmp_path / "one"))
    open_images(make_folder(tmp_path / "two"))
    assert [path.name[:3] for path in entry_paths(folder)] == ["one", "two"]
    assert all(Entry.read(path).verify() for path in entry_paths(folder))
    for name in ("train.u8", "train.labels.npy"):
        file = entry_paths(folder)[0] / name
        file.write_bytes(file.read_bytes()[::-1])
        assert [Entry.read(path).verify() for path in entry_paths(folder)] == [False, True]
        assert open_entry(entry_paths(folder)[0]) is None
        file.write_bytes(file.read_bytes()[::-1])
    (entry_paths(folder)[0] / "meta.json").write_text("{")  # still listed, and can be cleared
    assert len(clear(folder, "two")) == 1
    assert [path.name[:3] for path in entry_paths(folder)] == ["one"]
    clear(folder)
    assert list(folder.iterdir()) == []


def test_clearing_touches_nothing_else(tmp_path: Path) -> None:
    for name, text in (("thesis", '{"splits": {}}'), ("a-32-0123456789abcdef", '{"a": 1}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "meta.json").write_text(text)
        (tmp_path / name / "chapter.txt").write_text("mine")
    assert clear(tmp_path) == []
    assert len(list(tmp_path.rglob("chapter.txt"))) == 2


@pytest.mark.filterwarnings("ignore::transil.errors.DataWarning")  # 7 duplicates are possible
def test_every_field_of_the_meta_file_may_be_junk(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "set")
    whole = np.array(open_images(root, cache_dir=tmp_path / "c").splits["train"].pixels)
    entry = _only(tmp_path / "c")
    good = json.loads((entry / "meta.json").read_text())
    for key in good:
        for junk in (None, [], {}, "x", 7, [1], {"train": 3}):
            (entry / "meta.json").write_text(json.dumps({**good, key: junk}))
            again = open_images(root, cache_dir=tmp_path / "c")
            np.testing.assert_array_equal(again.splits["train"].pixels, whole)
    for key in good["splits"]["train"]:
        for junk in (None, [6, 64, 16, 3], [1, 1, 1, 3], "x", -1):
            broken = copy.deepcopy(good)
            broken["splits"]["train"][key] = junk
            (entry / "meta.json").write_text(json.dumps(broken))
            again = open_images(root, cache_dir=tmp_path / "c")
            np.testing.assert_array_equal(again.splits["train"].pixels, whole)


def test_altered_labels_are_noticed(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "set")
    labels = open_images(root, cache_dir=tmp_path / "c").splits["train"].labels
    entry = _only(tmp_path / "c")
    for altered in (labels[::-1], labels * 0 + 77, labels.astype(float)):
        np.save(entry / "train.labels.npy", altered)
        again = open_images(root, cache_dir=tmp_path / "c").splits["train"].labels
        np.testing.assert_array_equal(again, labels)


def test_equal_names_sizes_and_times_are_not_equal_content(tmp_path: Path) -> None:
    for number, name in enumerate(("n1", "n2")):
        (tmp_path / name).mkdir()
        pictures = np.random.default_rng(number).integers(0, 256, (4, 8, 8, 3), dtype=np.uint8)
        np.savez(tmp_path / name / "data.npz", x_train=pictures, y_train=[0, 1, 0, 1])
        picture(number).save(_made(tmp_path / name / "folder" / "x") / "0.bmp")
        for file in (tmp_path / name).rglob("*.*"):
            os.utime(file, (1e9, 1e9))
    for spec in ("data.npz", "folder"):
        first, second = (
            open_images(tmp_path / name / spec, cache_dir=tmp_path / "c").splits["train"].pixels
            for name in ("n1", "n2")
        )
        assert (first != second).any()


def test_a_changed_image_of_a_list_is_noticed(tmp_path: Path) -> None:
    picture(0).save(tmp_path / "0.png")
    (tmp_path / "train.lst").write_text("0.png 0\n")
    first = np.array(open_images(tmp_path, cache_dir=tmp_path / "c").splits["train"].pixels)
    picture(1).save(tmp_path / "0.png")
    os.utime(tmp_path / "0.png", ns=(5, 5))
    second = open_images(tmp_path, cache_dir=tmp_path / "c").splits["train"].pixels
    assert (first != second).any()


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def test_a_converted_folder_opens_anywhere(tmp_path: Path) -> None:
    from transil.data.cache import convert
    from transil.data.opening import find_source

    source = find_source(make_folder(tmp_path / "set"))
    made = convert(source, tmp_path / "out", size=4, rule="crop")
    moved = (tmp_path / "out").rename(tmp_path / "moved")
    again = open_images(moved)
    np.testing.assert_array_equal(made.splits["test"].pixels, again.splits["test"].pixels)
    assert again.class_names == ("class0", "class1", "class2")
    with pytest.raises(TransilError, match="it exists"):
        convert(source, moved, size=4, rule="crop")
    with pytest.raises(TransilError, match="have 4 pixels; convert the original"):
        open_images(moved, size=8)
    (moved / "train.u8").write_bytes(b"")
    with pytest.raises(TransilError, match="cut short or altered"):
        open_images(moved)


def test_memory_of_a_large_folder_grows_slowly(tmp_path: Path) -> None:
    """The index of a tree costs tens of bytes a file: a million files stay far below 2 GB."""
    costs = {}
    for count in (2_000, 6_000):
        root = tmp_path / str(count)
        for label in range(4):
            folder = root / "train" / f"class{label}"
            folder.mkdir(parents=True)
            for i in range(count // 4):
                (folder / f"a_rather_long_file_name_{i:08d}.png").touch()
        peaks = []
        for _ in range(3):  # Python's own table of names may grow in one of them: not counted
            tracemalloc.start()
            source = FolderSource(root)
            source.stamp()
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
            assert len(source.labels["train"]) == count
        costs[count] = min(peaks)
    per_file = (costs[6_000] - costs[2_000]) / 4_000
    assert per_file < 300  # bytes at the peak (105 measured): 0.3 GB for a million


def test_images_are_never_all_decoded_into_memory(tmp_path: Path) -> None:
    import transil.data.source as source_module

    source_module_block = source_module.BLOCK
    root = tmp_path / "set"
    folder = root / "x"
    folder.mkdir(parents=True)
    small = picture(0)
    for i in range(3 * source_module_block):
        small.save(folder / f"{i}.bmp")
    open_images(root, size=4, cache_dir=tmp_path / "warm")  # imports are not counted
    tracemalloc.start()
    images = open_images(root, size=64, cache_dir=tmp_path / "c")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    total = images.splits["train"].pixels.nbytes
    assert peak < 0.8 * total  # a block, and at most as much that waits for it; not all three

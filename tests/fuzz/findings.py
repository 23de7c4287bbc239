"""What people have found, by hand: each is a case, and none may come back."""

from __future__ import annotations

from fuzz import findings_folders as folders
from fuzz import findings_formats as formats

GROUPS = {
    "pickles": formats.pickles,
    "kept": folders.kept,
    "images": formats.images,
    "yaml": formats.yaml,
    "archives": formats.archives,
    "surroundings": folders.surroundings,
    "values": folders.values,
    "numbers": formats.numbers,
    "tables": formats.tables,
    "pipes": folders.pipes,
    "escapes": folders.escapes,
    "foreign": folders.foreign,
    "remembered": folders.remembered,
    "shares": folders.shares,
}
FINDINGS = {case.name: case for group in GROUPS.values() for case in group()}

"""Which data sets share classes: such a set is never a reference for the other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from transil.data.images import Images


def class_key(name: str) -> str:
    """What classes are compared by: the WordNet id where the name begins with one, else the name.

    >>> class_key("n02480495 orangutan"), class_key("Aquarium_Fish")
    ('n02480495', 'aquarium fish')
    """
    found = re.match(r"n\d{8}\b", name)
    return found[0] if found else name.casefold().replace("_", " ").strip()


def shared_classes(one: Images, other: Images) -> list[str]:
    """The classes that two sets have in common."""
    return sorted(
        {class_key(n) for n in one.class_names} & {class_key(n) for n in other.class_names}
    )


def same_names(one: Images, other: Images, others: Iterable[Images] = ()) -> list[str]:
    """Names that classes of two sets have in common though they are not told to be the same.

    One set has WordNet ids and the other has none: 'n02206856 bee' and 'bee'. Such sets were
    collected apart, so they may be used with each other; but a reader must know. A set that has
    ids alone takes the names that `others` have for them.
    """
    shared = set(shared_classes(one, other))
    known = {class_key(name): _words(name) for images in others for name in images.class_names
             if _words(name)}  # fmt: skip
    mine, theirs = (
        {
            word
            for name in images.class_names
            if class_key(name) not in shared
            for word in _words(name) or known.get(class_key(name), set())
        }
        for images in (one, other)
    )
    return sorted(mine & theirs)


def _words(name: str) -> set[str]:
    """A class in plain words: without its id, synonyms apart.

    >>> sorted(_words("n02206856 bee, honey_bee"))
    ['bee', 'honey bee']
    """
    plain = re.sub(r"^n\d{8}\b", "", name).casefold().replace("_", " ")
    return {word.strip() for word in plain.split(",")} - {""}


def allowed_references(
    target: str, references: Iterable[str], images: Mapping[str, Images]
) -> list[str]:
    """The references that share no class with the target, which is none of them."""
    return [
        name
        for name in references
        if name != target and not shared_classes(images[target], images[name])
    ]

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


def allowed_references(
    target: str, references: Iterable[str], images: Mapping[str, Images]
) -> list[str]:
    """The references that share no class with the target, which is none of them."""
    return [
        name
        for name in references
        if name != target and not shared_classes(images[target], images[name])
    ]

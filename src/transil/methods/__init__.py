"""Backbone methods: how a model is updated, state by state. One short file each.

Another package adds one by decorator (`register_method`) or by entry point:

    [project.entry-points."transil.methods"]
    mine = "package.module:MyMethod"
"""

from transil.methods.base import Context, Method
from transil.methods.ft import Ft
from transil.methods.ft_plus import FtPlus
from transil.methods.joint import Joint
from transil.methods.lucir import Lucir
from transil.methods.lwf import Lwf
from transil.methods.lwf_t import LwfT
from transil.methods.registry import METHODS, family_of, get_method, register_method
from transil.methods.siw import Siw

__all__ = [
    "METHODS",
    "Context",
    "Ft",
    "FtPlus",
    "Joint",
    "Lucir",
    "Lwf",
    "LwfT",
    "Method",
    "Siw",
    "family_of",
    "get_method",
    "register_method",
]

"""Weft designs and simulates data-centre networks: this package runs it from Python.

    import weft

    result = weft.run("scenarios/first.toml", control__scheduler="annealing")
    result.metrics      # a DataFrame, one row per run
    result.flows        # a DataFrame, one row per flow

The engine is that of the ``weft`` program; see ``docs/python.md`` for every call.
"""

from weft._errors import WeftError
from weft._weft import __version__
from weft.algorithms import estimate_demands, max_min
from weft.fabrics import Fabric, fabric
from weft.results import Result, Run
from weft.studies import Check, check, run
from weft.vlans import Spain, spain

__all__ = [
    "Check",
    "Fabric",
    "Result",
    "Run",
    "Spain",
    "WeftError",
    "__version__",
    "check",
    "estimate_demands",
    "fabric",
    "max_min",
    "run",
    "spain",
]

"""SPAIN's VLANs for a fabric: :func:`spain`."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from weft import _weft
from weft._settings import Settings, dotted, to_json
from weft.studies import Scenario


def spain(scenario: Scenario, *, set: Settings | None = None, **overrides: Any) -> "Spain":
    """Plans several paths between edge switches by VLANs, as ``weft spain`` does.

    Args:
        scenario: the path of a scenario file, or the same as nested dicts, of which only these keys count:
        ``[fabric]``, ``spain_paths``, ``spain_orders`` and ``special_trees``
            of ``[control]``, ``seed`` of ``[world]``, and the hosts of ``[[tenant]]``.
        set: overrides by dotted key: ``{"control.spain_paths": 4}``.
        **overrides: the same with two underscores for the dot: ``control__spain_paths=4``. They override ``set``.

    Raises:
        WeftError: something is wrong with the scenario, or it needs more VLANs than there are.
    """
    settings = [*(set or {}).items(), *dotted(overrides)]
    path, table = (None, to_json(scenario)) if isinstance(scenario, Mapping) else (os.fspath(scenario), None)
    text = _weft.spain(
        scenario=path,
        table=table,
        folder="",
        settings="[" + ", ".join(f"[{json.dumps(key)}, {to_json(value, key)}]" for key, value in settings) + "]",
    )
    return Spain(json.loads(text))


@dataclass(frozen=True)
class Spain:
    """What :func:`spain` planned."""

    #: What ``weft spain --json`` prints.
    summary: dict[str, Any]

    @property
    def vlans(self) -> int:
        """VLANs needed."""
        return int(self.summary["vlans"])

    @property
    def bound(self) -> int:
        """The most paths of any pair: no packing has fewer VLANs."""
        return int(self.summary["bound"])

    @cached_property
    def ports(self) -> pd.DataFrame:
        """One row per port of a switch: `switch`, `port` (from 1), `to`, `vlans` (all tagged: ``1-4,7``)."""
        rows = [(s["switch"], p["port"], p["to"], p["vlans"]) for s in self.summary["switches"] for p in s["ports"]]
        return pd.DataFrame(rows, columns=["switch", "port", "to", "vlans"])

"""Configurations of real switches, by the program ``weft``.

    from weft import switches

    switches.export("@vl2/lab-first", "switches", format="sonic")["switches"]

``docs/switches.md`` describes what is exported.
"""

import json
import os
from typing import Any

from weft._programs import run_program
from weft._settings import Settings, dotted, to_json

__all__ = ["export"]

PathLike = str | os.PathLike[str]


def export(
    scenario: PathLike,
    out: PathLike,
    *,
    format: str = "sonic",
    lanes: int = 4,
    set: Settings | None = None,
    **overrides: Any,
) -> dict[str, Any]:
    """Writes the configurations of the switches of a scenario with VL2 or NetLord: what ``weft lab export --json`` prints.

    Args:
        scenario: a scenario file.
        out: the folder to create, with one folder per switch; it must not exist.
        format: ``"sonic"`` or ``"generic"``.
        lanes: lanes per port, which determine the port numbers of SONiC.
        set: overrides by dotted key: ``{"fabric.tors": 8}``.
        **overrides: the same with two underscores for the dot: ``fabric__tors=8``. They override ``set``.

    Raises:
        WeftError: the scenario has neither VL2 nor tenants, or a file cannot be written.
    """
    arguments = ["lab", "export", os.fspath(scenario), "--out", os.fspath(out), "--format", format, "--lanes", str(lanes)]
    for key, value in [*(set or {}).items(), *dotted(overrides)]:
        arguments += ["--set", f"{key}={to_json(value, key)}"]
    report: dict[str, Any] = json.loads(run_program("weft", [*arguments, "--json"]))
    return report

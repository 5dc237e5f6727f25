"""Running scenarios: :func:`run` and :func:`check`."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from weft import _weft
from weft._settings import Settings, dotted, to_json
from weft.results import Result, Summary, TemporaryFolder, verdicts

Scenario: TypeAlias = str | os.PathLike[str] | Settings


def run(
    scenario: Scenario,
    *,
    out: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    quick: bool = False,
    full: bool = False,
    seed: int | None = None,
    world: Any = None,
    set: Settings | None = None,
    **overrides: Any,
) -> Result:
    """Runs a scenario, as ``weft run`` does, and returns its results.

    Args:
        scenario: the path of a scenario file, or the same as nested dicts: ``{"fabric": {"kind": "fat-tree", "k": 4}, ...}``.
            Paths inside a file start at its folder, those inside a dict at the working directory.
        out: the results folder; an earlier one is replaced when the run has succeeded. Without it the results are in a temporary
            folder that lives as long as what this function returns.
        threads: runs of a sweep executed in parallel; one per core if absent. The results do not depend on it.
        quick: apply the scenario's ``[quick]`` table.
        full: apply the scenario's ``[full]`` table: the paper's size.
        seed: the same as ``world__seed``.
        world: ``"flow"``, ``"packet"`` or ``"lab"``: the same as ``world__kind``. A dict is the scenario's table,
            as without this argument. The lab needs root; it comes up for the run and goes down after it. With an overlay, its
            programs (``make build``) must be on the PATH.
        set: overrides by dotted key: ``{"control.scheduler": "annealing"}``. A key that is swept loses its sweep.
        **overrides: the same with two underscores for the dot: ``control__scheduler="annealing"``. They override ``set``.

    Raises:
        WeftError: something is wrong with the scenario or with ``out``; nothing has been written then.
        KeyboardInterrupt: Ctrl-C; nothing has been written then.
    """
    if out is not None:
        summary = _call(scenario, out, threads, _form(quick, full), seed, world, set, overrides)
        return Result(summary, Path(out))
    temporary = TemporaryFolder()
    folder = temporary.path / "results"
    summary = _call(scenario, folder, threads, _form(quick, full), seed, world, set, overrides)
    return Result(summary, folder, temporary)


def check(
    scenario: Scenario,
    *,
    full: bool = False,
    threads: int | None = None,
    seed: int | None = None,
    world: Any = None,
    set: Settings | None = None,
    **overrides: Any,
) -> "Check":
    """Runs a scenario in its quick form, or with ``full`` at the paper's size, and compares it with its ``[[expect]]`` entries.

    The other arguments are those of :func:`run`. Nothing is written.

    Raises:
        WeftError: something is wrong with the scenario.
        KeyboardInterrupt: Ctrl-C.
    """
    form = "full" if full else "quick"
    return Check(_call(scenario, None, threads, form, seed, world, set, overrides))


@dataclass(frozen=True)
class Check:
    """What :func:`check` found."""

    #: What ``weft run --json`` prints.
    summary: Summary

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """One row per expectation of a run, as :attr:`weft.Result.verdicts`."""
        return verdicts(self.summary)

    @property
    def ok(self) -> bool:
        """Whether no expectation was missed without a known cause; then ``weft check`` exits with 0."""
        return bool((self.verdicts["verdict"] != "miss").all())


def _form(quick: bool, full: bool) -> str:
    if quick and full:
        raise TypeError("a run is quick or full, not both")
    return "quick" if quick else "full" if full else "plain"


def _call(
    scenario: Scenario,
    out: str | os.PathLike[str] | None,
    threads: int | None,
    form: str,
    seed: int | None,
    world: Any,
    set: Settings | None,
    overrides: Settings,
) -> Summary:
    settings = [*(set or {}).items(), *dotted(overrides)]
    if world is not None:
        settings.append(("world.kind", world) if isinstance(world, str) else ("world", world))
    if seed is not None:
        settings.append(("world.seed", seed))
    path, table = (None, to_json(scenario)) if isinstance(scenario, Mapping) else (scenario, None)
    text = _weft.run(
        scenario=path,
        table=table,
        folder="",
        settings="[" + ", ".join(f"[{json.dumps(key)}, {to_json(value, key)}]" for key, value in settings) + "]",
        form=form,
        out=out,
        threads=threads,
    )
    summary: Summary = json.loads(text)
    return summary

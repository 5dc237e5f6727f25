"""Python values as TOML's types, and keyword arguments as dotted keys."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft._errors import WeftError

# A scenario's settings are as free as TOML: the engine checks every key and names what is wrong.
Settings = Mapping[str, Any]


def to_json(value: object, key: str = "") -> str:
    """Writes a setting, or a dict of them, as the JSON that the engine reads. ``key`` names it in errors."""
    return json.dumps(_plain(value, key), allow_nan=False)


def dotted(overrides: Settings) -> list[tuple[str, Any]]:
    """``control__scheduler`` as ``control.scheduler``, with its value."""
    for name, value in overrides.items():
        if "__" not in name and name != "title" and not isinstance(value, Mapping):
            raise TypeError(
                f"run() has no argument {name!r}; a setting of a scenario is written section__key, "
                f"such as control__scheduler='annealing'"
            )
    return [(name.replace("__", "."), value) for name, value in overrides.items()]


def _plain(value: object, key: str) -> object:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise WeftError(f"{key}: {value} is not a number that a scenario can hold", 'without an end is written "inf"')
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {_name(k, key): _plain(v, f"{key}.{k}" if key else str(k)) for k, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [_plain(v, f"{key}[{i}]") for i, v in enumerate(value)]
    remedy = "leave the key out" if value is None else "use numbers, strings, booleans, lists and dicts"
    raise WeftError(f"{key}: a scenario cannot hold {value!r}", remedy)


def _name(key: object, parent: str) -> str:
    if not isinstance(key, str):
        raise WeftError(f"{parent or 'scenario'}: {key!r} is not the name of a key", "write the keys of dicts as strings")
    return key

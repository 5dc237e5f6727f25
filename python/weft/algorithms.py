"""The algorithms alone, on NumPy arrays: :func:`estimate_demands` and :func:`max_min`."""

from collections.abc import Iterable, Sequence
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft import _weft
from weft._errors import WeftError


def estimate_demands(src: ArrayLike, dst: ArrayLike, hosts: int | None = None) -> NDArray[np.float64]:
    """The rate that each flow would reach if only the NICs of its two ends limited it (Hedera section 4.2).

    Args:
        src: sending host of each flow, a number from 0; one dimension, whole numbers.
        dst: receiving host of each flow, as long as ``src``.
        hosts: number of hosts; the largest number + 1 if absent. All NICs are alike.

    Returns:
        A fraction of the NIC for each flow, float64, in the order of the input.

    Raises:
        WeftError: the arrays are of different length or not whole numbers in one dimension; a host is not below ``hosts``; a flow
            goes from a host to itself.
    """
    sources, sinks = _ids(src, "src"), _ids(dst, "dst")
    if hosts is None:
        hosts = 1 + max((int(ids.max()) for ids in (sources, sinks) if ids.size), default=-1)
    if hosts < 0:
        raise WeftError(f"hosts: {hosts} is not a number of hosts", "give the number of hosts, 0 or more")
    return _weft.estimate_demands(sources, sinks, hosts)


def max_min(
    paths: ArrayLike | Iterable[ArrayLike],
    capacities: ArrayLike,
    *,
    offsets: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """Max-min fair rates of flows on fixed paths.

    Args:
        paths: the links of each flow, numbers from 0: a sequence of sequences or of arrays, such as ``result.flows["path"]``.
            With ``offsets``, all of them in one flat array (compressed rows).
        capacities: the capacity of each link, finite and not negative, in any unit.
        offsets: flow ``f`` crosses ``paths[offsets[f]:offsets[f + 1]]``; one entry more than there are flows.

    Returns:
        The rate of each flow, float64, in the unit of the capacities; infinite for a flow that crosses no link.

    Raises:
        WeftError: a path names a link that has no capacity, or the same one twice; a capacity is negative or not finite; the
            arrays do not have one dimension or hold something else than numbers.
    """
    if offsets is None:
        rows = [_ids(path, f"paths[{i}]") for i, path in enumerate(_rows(paths))]
        links = np.concatenate(rows) if rows else np.empty(0, np.uint32)
        starts = np.zeros(len(rows) + 1, np.uintp)
        np.cumsum([len(row) for row in rows], out=starts[1:])
    else:
        links = _ids(cast(ArrayLike, paths), "paths")
        starts = _ids(offsets, "offsets").astype(np.uintp)
        if starts.size == 0:
            raise WeftError("offsets: there are none", "offsets begin with 0 and have one entry more than there are flows")
    return _weft.max_min(starts, links, _numbers(capacities, "capacities"))


def _rows(paths: ArrayLike | Iterable[ArrayLike]) -> Sequence[ArrayLike]:
    if isinstance(paths, str | bytes) or not isinstance(paths, Iterable) or (isinstance(paths, np.ndarray) and paths.ndim == 0):
        raise WeftError(f"paths: {paths!r} is not a list of paths", "give the links of each flow, such as [[0, 1], [1]]")
    return list(paths)


def _ids(values: ArrayLike, name: str) -> NDArray[np.uint32]:
    """Whole numbers from 0 in one dimension."""
    array = _one_dimension(values, name)
    if array.size == 0:
        return np.empty(0, np.uint32)
    if array.dtype.kind not in "iu":
        raise WeftError(f"{name}: {array.dtype} values are not whole numbers", f"convert them, such as {name}.astype(int)")
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= 2**32:
        raise WeftError(f"{name}: {low if low < 0 else high} is out of range", "number hosts and links from 0")
    return np.ascontiguousarray(array, np.uint32)


def _numbers(values: ArrayLike, name: str) -> NDArray[np.float64]:
    array = _one_dimension(values, name)
    if array.size and array.dtype.kind not in "iuf":
        raise WeftError(f"{name}: {array.dtype} values are not numbers", "give numbers")
    return np.ascontiguousarray(array, np.float64)


def _one_dimension(values: ArrayLike, name: str) -> NDArray[np.generic]:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise WeftError(f"{name}: {error}", "give numbers in one dimension") from error
    if array.ndim != 1:
        raise WeftError(f"{name}: {array.ndim} dimensions where there should be one", "give a list or a one-dimensional array")
    return array

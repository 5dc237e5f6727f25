"""weft.estimate_demands and weft.max_min: values, shapes, types."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft

# Hedera, figure 4.
SRC = [0, 0, 0, 1, 1, 1, 2, 2, 3, 3]
DST = [1, 2, 3, 0, 0, 2, 0, 3, 1, 1]


def test_demands_of_figure_4() -> None:
    demands = weft.estimate_demands(SRC, DST, 4)
    assert demands.dtype == np.float64
    expected = [2 / 3 if pair == (2, 3) else 1 / 3 for pair in zip(SRC, DST, strict=True)]
    np.testing.assert_allclose(demands, expected, atol=1e-12)
    np.testing.assert_array_equal(demands, weft.estimate_demands(SRC, DST))


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_demands_take_any_whole_numbers(dtype: str) -> None:
    src, dst = np.array(SRC, dtype), np.array(DST, dtype)
    np.testing.assert_array_equal(weft.estimate_demands(src, dst, 4), weft.estimate_demands(SRC, DST, 4))
    wide = np.repeat(src, 2)[::2]
    np.testing.assert_array_equal(weft.estimate_demands(wide, dst, 4), weft.estimate_demands(SRC, DST, 4))


def test_no_flows_have_no_demands() -> None:
    assert weft.estimate_demands([], [], 4).shape == (0,)
    assert weft.estimate_demands([], []).shape == (0,)
    assert weft.max_min([], [1.0]).shape == (0,)
    assert weft.max_min([], []).shape == (0,)


@pytest.mark.parametrize(
    ("src", "dst", "hosts", "message"),
    [
        ([0], [1, 2], 4, "1 sources and 2 destinations"),
        ([0], [4], 4, "host 4"),
        ([1], [1], 4, "itself"),
        ([0], [-1], 4, "dst: -1"),
        ([0.0], [1.0], 4, "src: float64"),
        ([[0]], [[1]], 4, "src: 2 dimensions"),
        ([[0, 1], [2]], [1], 4, "src: "),
        (["a"], [1], 4, "src: "),
        (0, 1, 4, "src: 0 dimensions"),
        ([2**40], [1], None, "src: 1099511627776"),
        ([0], [1], -1, "hosts: -1"),
    ],
)
def test_demands_refuse(src: Any, dst: Any, hosts: int | None, message: str) -> None:
    with pytest.raises(weft.WeftError, match=message):
        weft.estimate_demands(src, dst, hosts)


def test_max_min_of_two_links() -> None:
    rates = weft.max_min([[0], [0, 1]], [10, 4])
    assert rates.dtype == np.float64
    np.testing.assert_array_equal(rates, [6, 4])


def test_max_min_takes_paths_in_several_shapes() -> None:
    capacities = np.array([10.0, 4.0])
    flat = weft.max_min(np.array([0, 0, 1]), capacities, offsets=[0, 1, 3])
    np.testing.assert_array_equal(flat, [6, 4])
    np.testing.assert_array_equal(weft.max_min((np.array([0]), np.array([0, 1])), capacities), [6, 4])
    np.testing.assert_array_equal(weft.max_min(np.array([[0], [0]]), capacities), [5, 5])


def test_a_flow_without_links_has_no_limit() -> None:
    np.testing.assert_array_equal(weft.max_min([[], [0]], [3.0]), [np.inf, 3])


def test_max_min_against_slow_filling() -> None:
    generator = np.random.default_rng(1)
    for _ in range(50):
        links = int(generator.integers(1, 8))
        paths = [
            generator.choice(links, size=int(generator.integers(1, links + 1)), replace=False)
            for _ in range(int(generator.integers(1, 12)))
        ]
        capacities = generator.uniform(1, 10, links)
        np.testing.assert_allclose(weft.max_min(paths, capacities), fill(paths, capacities), rtol=1e-9)


def fill(paths: list[Any], capacities: Any) -> list[float]:
    """Progressive filling as textbooks have it."""
    rates: list[float | None] = [None] * len(paths)
    while None in rates:
        shares = {}
        for link, capacity in enumerate(capacities):
            on_link = [i for i, path in enumerate(paths) if link in path]
            growing = [i for i in on_link if rates[i] is None]
            if growing:
                shares[link] = (capacity - sum(rates[i] or 0 for i in on_link)) / len(growing)
        tightest = min(shares, key=lambda link: shares[link])
        for i, path in enumerate(paths):
            if rates[i] is None and tightest in path:
                rates[i] = shares[tightest]
    return [rate for rate in rates if rate is not None]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: weft.max_min([[1]], [1.0]), "link 1"),
        (lambda: weft.max_min([[0, 0]], [1.0]), "twice"),
        (lambda: weft.max_min([[0]], [-1.0]), "capacity -1"),
        (lambda: weft.max_min([[0]], [np.nan]), "capacity NaN"),
        (lambda: weft.max_min([[0]], ["1Gbps"]), "capacities: "),
        (lambda: weft.max_min([[0]], [[1.0]]), "capacities: 2 dimensions"),
        (lambda: weft.max_min([[0.5]], [1.0]), r"paths\[0\]: float64"),
        (lambda: weft.max_min([0], [1.0]), r"paths\[0\]: 0 dimensions"),
        (lambda: weft.max_min(3, [1.0]), "not a list of paths"),
        (lambda: weft.max_min([0], [1.0], offsets=[0, 2]), "offsets"),
        (lambda: weft.max_min([0], [1.0], offsets=[]), "offsets"),
        (lambda: weft.max_min([0, 0], [1.0], offsets=[0, 2, 1, 2]), "offsets|twice"),
    ],
)
def test_max_min_refuses(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(weft.WeftError, match=message):
        call()

"""The compiled part: see ``crates/py``."""

import os
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

__version__: str

class NodeColumns(TypedDict):
    name: list[str]
    tier: NDArray[np.uint8]
    pod: NDArray[np.int64]
    rack: NDArray[np.int64]

LinkColumns = TypedDict(
    "LinkColumns",
    {
        "from": NDArray[np.uint32],
        "to": NDArray[np.uint32],
        "capacity_bps": NDArray[np.uint64],
        "delay_s": NDArray[np.float64],
    },
)

class FabricHandle:
    def __new__(cls, kind: str, folder: str | os.PathLike[str], settings: str) -> FabricHandle: ...
    def title(self) -> str: ...
    def nodes(self) -> NodeColumns: ...
    def links(self) -> LinkColumns: ...
    def metrics(self) -> str: ...
    def export(self, format: str) -> str: ...
    def cabling(self, *, prices: str | os.PathLike[str] | None, floor: str) -> str: ...
    def upgrade_to(self, other: FabricHandle) -> str: ...

def run(
    *,
    scenario: str | os.PathLike[str] | None,
    table: str | None,
    folder: str | os.PathLike[str],
    settings: str,
    form: str,
    out: str | os.PathLike[str] | None,
    threads: int | None,
) -> str: ...
def spain(
    *, scenario: str | os.PathLike[str] | None, table: str | None, folder: str | os.PathLike[str], settings: str
) -> str: ...
def estimate_demands(src: NDArray[np.uint32], dst: NDArray[np.uint32], hosts: int) -> NDArray[np.float64]: ...
def max_min(offsets: NDArray[np.uintp], links: NDArray[np.uint32], capacities: NDArray[np.float64]) -> NDArray[np.float64]: ...

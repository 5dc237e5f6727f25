"""Fabrics as tables of nodes and links: :func:`fabric`."""

import json
import os
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from weft import _weft
from weft._settings import to_json


def fabric(kind: str | os.PathLike[str], **params: Any) -> "Fabric":
    """Builds a fabric, as ``weft topo`` does.

    Args:
        kind: ``fat-tree``, ``clos``, ``tree``, ``clique``, ``switch``, ``subways`` or ``file``; or the path of a scenario file,
            whose ``[fabric]`` table is taken.
        **params: keys of the ``[fabric]`` table: ``k=8``, ``link="10Gbps"``; see ``docs/fabrics.md``.

    Raises:
        WeftError: there is no such kind, or a parameter is wrong.
    """
    settings = ", ".join(f"[{json.dumps(f'fabric.{key}')}, {to_json(value, f'fabric.{key}')}]" for key, value in params.items())
    return Fabric(_weft.FabricHandle(os.fspath(kind), "", f"[{settings}]"))


class Fabric:
    """A network: hosts and switches as nodes, cables as pairs of directed links."""

    def __init__(self, handle: _weft.FabricHandle) -> None:
        self._handle = handle

    @property
    def title(self) -> str:
        """What it is, in a line: ``fat-tree, k = 4``."""
        return self._handle.title()

    @cached_property
    def nodes(self) -> pd.DataFrame:
        """One row per node, hosts first: `id`, `name`, `tier` (0: host), `pod` (none for roots), `kind` (`host` or `switch`)."""
        columns = self._handle.nodes()
        pods = columns["pod"]
        return pd.DataFrame(
            {
                "id": np.arange(len(pods), dtype=np.uint32),
                "name": columns["name"],
                "tier": columns["tier"],
                "pod": pd.arrays.IntegerArray(pods, pods < 0),
                "kind": np.where(columns["tier"] == 0, "host", "switch"),
            }
        )

    @cached_property
    def hosts(self) -> pd.DataFrame:
        """One row per host: `id`, `name`, `pod`, `rack`. Hosts of a rack have the same switches."""
        hosts = self.nodes["kind"] == "host"
        frame = self.nodes.loc[hosts, ["id", "name", "pod"]]
        return frame.assign(rack=self._handle.nodes()["rack"][hosts.to_numpy()])

    @cached_property
    def links(self) -> pd.DataFrame:
        """One row per directed link: `id`, `from`, `to` (names), `capacity_bps`, `delay_s`. Links 2c and 2c + 1 are one cable."""
        columns = self._handle.links()
        names = self.nodes["name"]
        return pd.DataFrame(
            {
                "id": np.arange(len(columns["delay_s"]), dtype=np.uint32),
                "from": names.take(columns["from"]).to_numpy(),
                "to": names.take(columns["to"]).to_numpy(),
                "capacity_bps": columns["capacity_bps"],
                "delay_s": columns["delay_s"],
            }
        )

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """Counts, over-subscription, bisection and path diversity: what ``weft topo --json`` prints."""
        metrics: dict[str, Any] = json.loads(self._handle.metrics())
        return metrics

    def export(self, format: str) -> str:
        """The fabric as another tool's text: ``dot``, ``graphml``, ``containerlab``, ``htsim``, ``hpcc`` or ``native``.

        Raises:
            WeftError: there is no such format, or it cannot hold this fabric.
        """
        return self._handle.export(format)

    def cabling(self, *, prices: str | os.PathLike[str] | None = None, **floor: Any) -> dict[str, Any]:
        """Cable lengths and a bill of materials of a ``subways`` fabric: what ``weft topo subways --cabling --json`` prints.

        Args:
            prices: a price list as ``scenarios/data/prices.toml``; the illustrative prices if absent.
            **floor: the hall: ``arrangement="row"``, ``rack_height=2.2``; see ``docs/subways-wiring.md``.

        Raises:
            WeftError: the fabric is not ``subways``, a key or the list is wrong, or the list lacks something.
        """
        survey: dict[str, Any] = json.loads(self._handle.cabling(prices=prices, floor=to_json(floor)))
        return survey

    def upgrade_to(self, other: "Fabric") -> dict[str, Any]:
        """The steps from this ``subways`` fabric to another one: what ``weft topo subways --upgrade-to --json`` prints.

        Raises:
            WeftError: one of them is not ``subways``, or they differ in their number of servers.
        """
        plan: dict[str, Any] = json.loads(self._handle.upgrade_to(other._handle))
        return plan

    def __repr__(self) -> str:
        return f"<weft.Fabric {self.title!r}>"

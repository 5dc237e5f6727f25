"""The examples of the documentation run as they stand."""

import pathlib
import re
import runpy
import shutil
import sys

import matplotlib.pyplot as plt
import pytest
from conftest import ROOT

PAGES = ["README.md", "docs/python.md"]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[str]:
    """The Python examples of a page, each with lines before it so that a traceback names the page's line."""
    path = ROOT / page
    text = path.read_text() if path.exists() else ""
    return ["\n" * text.count("\n", 0, match.start(1)) + match[1] for match in BLOCK.finditer(text)]


@pytest.mark.parametrize("page", PAGES)
def test_examples_of_a_page(page: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page run one after the other, in a copy of the repository's `scenarios`."""
    shutil.copytree(ROOT / "scenarios", tmp_path / "scenarios")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks(page):
        exec(compile(block, page, "exec"), names)
    plt.close("all")


def test_there_are_examples() -> None:
    assert len(blocks("docs/python.md")) >= 5


def test_hedera_figure_9(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "figure9.png"
    monkeypatch.setattr(sys, "argv", ["hedera_figure9.py", "--quick", str(out)])
    runpy.run_path(str(ROOT / "examples/hedera_figure9.py"), run_name="__main__")
    assert out.read_bytes().startswith(b"\x89PNG")
    plt.close("all")

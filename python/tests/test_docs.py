"""The examples of the documentation run as they stand."""

import os
import pathlib
import re
import runpy
import shutil
import subprocess
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


SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What a command of the README is replaced with here: a test of it starts no build, and the programs are those that the tests use,
# which are slower than those of `make build`.
QUICK = [
    (re.compile(r"^make (\w+)", re.MULTILINE), r"make --directory $ROOT --dry-run \1 >/dev/null"),
    (re.compile(r"^weft run @first(?!.*fabric\.k)", re.MULTILINE), r"weft run @first --set fabric.k=8"),
    (re.compile(r"^weft place @first", re.MULTILINE), r"weft place @first --set fabric.k=8"),
    # Clients wait 5 s for an answer: on a busy machine, where tests run when nothing else does, a server takes longer to start.
    (
        re.compile(r"^weft directory serve &$", re.MULTILINE),
        "weft directory serve &\nuntil weft directory status >/dev/null 2>&1; do kill -0 $!; sleep 0.2; done",
    ),
]
SETUP = """
set -euo pipefail
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
sudo() { "$@"; }
"""


def programs() -> pathlib.Path:
    """The folder of the built programs."""
    folder = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug"
    if not all((folder / name).exists() for name in ["weft", "weft-directory", "weft-agent", "weft-scheduler", "weft-planner"]):
        assert not os.environ.get("CI"), "the programs are not built: cargo build --workspace --bins"
        pytest.skip("the programs are not built")
    return folder


@pytest.mark.parametrize("block", SHELL.findall((ROOT / "README.md").read_text()))
def test_commands_of_the_readme(block: str, tmp_path: pathlib.Path) -> None:
    """Every command of the README, in a quick form where there is one; labs as root."""
    if "sudo" in block and os.geteuid() != 0:
        assert "CI" not in os.environ, "labs are tested as root"
        pytest.skip("a lab needs root")
    for pattern, replacement in QUICK:
        block = pattern.sub(replacement, block)
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    env = os.environ | {"PATH": f"{programs()}:{os.environ['PATH']}", "ROOT": str(ROOT)}
    script = ["bash", "-c", SETUP + block]
    done = subprocess.run(script, cwd=tmp_path, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert done.returncode == 0, done.stdout


def test_the_readme_has_commands() -> None:
    assert len(SHELL.findall((ROOT / "README.md").read_text())) >= 5

"""What the targets of the Makefile would run."""

import os
import subprocess

from conftest import ROOT


def commands(target: str, **environment: str) -> str:
    """What `make` would run."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("LINT_TESTS", "MAKEFLAGS", "MAKELEVEL")}
    run = ["make", "--dry-run", target]
    return subprocess.run(run, cwd=ROOT, env=inherited | environment, check=True, capture_output=True, text=True).stdout


def test_tests_are_linted_in_ci_alone() -> None:
    assert "clippy-driver" not in commands("build-rust-tests"), "cargo would build the workspace once more for `cargo test`"
    assert "clippy-driver" in commands("build-rust-tests", LINT_TESTS="1")
    assert "cargo doc" in commands("docs")
    assert "rustdoc.sh" in commands("docs", LINT_TESTS="1")

"""Weft's programs, which some calls start."""

import os
import shutil
import subprocess

from weft._errors import WeftError


def run_program(name: str, arguments: list[str], accepted: tuple[int, ...] = (0,)) -> str:
    """What a program prints. It is that of the variable `WEFT` or `WEFT_PLANNER`, or else that on the PATH.

    Args:
        name: of the program, as ``weft-planner``.
        arguments: its arguments.
        accepted: exit codes that are no error.

    Raises:
        WeftError: it is not installed, or ends with another code.
    """
    variable = name.upper().replace("-", "_")
    program = os.environ.get(variable) or shutil.which(name)
    if program is None:
        raise WeftError(f"`{name}` is not installed", f"put it on the PATH, or its path into {variable}")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode not in accepted:
        message, _, help = done.stderr.strip().partition("\n  help: ")
        raise WeftError(message.removeprefix("\u00d7 ").strip(), help.strip() or None)
    return done.stdout

"""The files of a crate import each other in no circle: `scripts/imports/check.py`."""

import importlib.util
import pathlib
from types import ModuleType

from conftest import ROOT


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_imports", ROOT / "scripts/imports/check.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check = load()


def crate(folder: pathlib.Path, files: dict[str, str]) -> list[str]:
    """What is said of a crate `one` with these files."""
    for name, text in files.items():
        path = folder / "one/src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found: list[str] = check.complaints(folder)
    return found


def test_no_circle() -> None:
    assert not (found := check.complaints(ROOT / "crates")), "\n".join(found)


def test_a_module_with_submodules_is_a_mod_rs() -> None:
    files = [path for path in (ROOT / "crates").glob("*/src/**/*.rs") if path.with_suffix("").is_dir()]
    assert not files, "move each to mod.rs in the folder of its name"


def test_a_circle_behind_a_reexport_is_found(tmp_path: pathlib.Path) -> None:
    files = {
        "lib.rs": "mod a;\nmod b;\n",
        "a/mod.rs": "mod deep;\npub use deep::{Other, Thing};\n",
        "a/deep.rs": "pub struct Thing;\npub struct Other;\nfn f() { crate::b::work() }\n",
        "b.rs": "use crate::a::{self, Thing};\npub fn work() -> Thing { a::Thing }\n",
    }
    (message,) = crate(tmp_path, files)
    assert "crate::a::deep uses crate::b\n  crate::b uses crate::a::deep" in message


def test_tests_comments_and_the_own_module_are_no_circle(tmp_path: pathlib.Path) -> None:
    files = {
        "lib.rs": "mod a;\nmod b;\n",
        "a/mod.rs": "mod deep;\npub struct Thing;\nfn f() { deep::g() }\n",
        "a/deep.rs": 'use super::Thing;\npub fn g() {}\n// use crate::b::work;\nconst TEXT: &str = "crate::b::work";\n'
        "#[cfg(test)]\nmod tests {\n    use crate::b::work;\n}\n",
        "b.rs": "use crate::a::Thing;\npub fn work() { crate::a::deep::g() }\n",
    }
    assert crate(tmp_path, files) == []

"""The words of the tree are those of `docs/glossary.md`: `scripts/words/check.py` refuses the others."""

import importlib.util
import pathlib
from types import ModuleType

import pytest
from conftest import ROOT


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_words", ROOT / "scripts/words/check.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check = load()


def test_no_word_that_weft_does_not_use() -> None:
    assert not (found := check.complaints()), "\n".join(found)


@pytest.mark.parametrize(
    ("word", "text", "matches"),
    [
        ("told", "an agent is told", 1),
        ("told", "until_told(), Told", 2),
        ("told", "stolidly untold", 0),
        ("at the most", "at the\nmost", 1),
        ("Way", "Way::Up, MyWay, way, Ways", 1),
    ],
)
def test_a_word_is_found_as_a_whole(word: str, text: str, matches: int) -> None:
    assert len(check.pattern(word).findall(text)) == matches


def test_counts_only_fall(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.md").write_text("told")
    (tmp_path / "b.md").write_text("told told")
    allowed = tmp_path / "allowed"
    allowed.write_text("# Head.\n3 a.md told\n1 b.md told\n2 gone.md told\n")
    monkeypatch.setattr(check, "ROOT", tmp_path)
    monkeypatch.setattr(check, "ALLOWED", allowed)
    monkeypatch.setattr(check, "files", lambda: ["a.md", "b.md"])
    assert [message.split(":")[0] for message in check.complaints()] == ["b.md"]
    check.tighten()
    assert allowed.read_text() == "# Head.\n1 a.md told\n1 b.md told\n"


def test_a_folder_covers_its_files() -> None:
    assert check.place_of("crates/sim/src/lib.rs", {"crates/", "crates/sim/"}) == "crates/sim/"
    assert check.place_of("docs/lab.md", {"crates/"}) == "docs/lab.md"

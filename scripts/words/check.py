"""Refuse words that Weft does not use: `python3 scripts/words/check.py`.

`words.toml` lists each word and its replacement. `allowed` holds, for files and folders not yet cleaned, how often each word may
occur; everywhere else it may not occur at all. `--tighten` lowers these counts to what is in the tree, and never raises one.
"""

import collections
import pathlib
import re
import subprocess
import sys

import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ALLOWED = HERE / "allowed"
SUFFIXES = {
    ".rs",
    ".toml",
    ".md",
    ".py",
    ".pyi",
    ".sh",
    ".js",
    ".mjs",
    ".html",
    ".css",
    ".h",
    ".c",
    ".cpp",
    ".service",
    ".yml",
    ".snap",
    ".txt",
}
NAMES = {"Makefile", "run", "Containerfile"}
# The history of the project keeps its words, and so does the list itself.
EXEMPT = ("CHANGELOG.md", "scripts/words/", "python/tests/test_words.py")
# The last section of the glossary, which explains old words to readers of old results.
REPLACED = "\n## Replaced words\n"

Counts = dict[tuple[str, str], int]


def patterns() -> dict[str, tuple[re.Pattern[str], str]]:
    """Each word with its pattern and what to write instead."""
    words = tomllib.loads((HERE / "words.toml").read_text())
    return {word: (pattern(word), instead) for word, instead in words.items()}


def pattern(word: str) -> re.Pattern[str]:
    """Match a word by itself or inside a snake_case name; an identifier with an initial capital as it stands."""
    body = re.escape(word).replace(r"\ ", r"\s+")
    if word[0].isupper():
        return re.compile(rf"(?<![A-Za-z0-9]){body}(?![a-z0-9])")
    return re.compile(rf"(?<![A-Za-z])(?i:{body})(?![a-z])")


def files() -> list[str]:
    """The tracked files that people read."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [name for name in listed.split("\0") if name and readable(name)]


def readable(name: str) -> bool:
    """Whether the file is checked."""
    path = pathlib.PurePath(name)
    return (path.suffix in SUFFIXES or path.name in NAMES) and not name.startswith(EXEMPT) and (ROOT / name).is_file()


def allowances() -> Counts:
    """The counts of `allowed`: a file or a folder, a word, and how often it may occur there."""
    counts: Counts = {}
    for line in ALLOWED.read_text().splitlines():
        if line and not line.startswith("#"):
            count, place, word = line.split(maxsplit=2)
            counts[place, word] = int(count)
    return counts


def place_of(name: str, places: set[str]) -> str:
    """The entry of `allowed` that covers a file: the file itself or the nearest folder above it."""
    for place in [name, *(f"{parent}/" for parent in pathlib.PurePath(name).parents)]:
        if place in places:
            return place
    return name


def occurrences(places: set[str]) -> dict[tuple[str, str], list[str]]:
    """Where each word occurs, by entry of `allowed` and word, as `file:line: text`."""
    found: dict[tuple[str, str], list[str]] = collections.defaultdict(list)
    searched = patterns()
    for name in files():
        text = (ROOT / name).read_text(errors="replace").split(REPLACED)[0]
        place = place_of(name, places)
        for word, (regex, _) in searched.items():
            for match in regex.finditer(text):
                number = text.count("\n", 0, match.start()) + 1
                found[place, word].append(f"{name}:{number}: {match[0]!r}")
    return found


def complaints() -> list[str]:
    """One message for each place with more occurrences of a word than it is allowed."""
    allowed = allowances()
    searched = patterns()
    messages = []
    for (place, word), lines in sorted(occurrences({place for place, _ in allowed}).items()):
        limit = allowed.get((place, word), 0)
        if len(lines) > limit:
            where = "\n  ".join(lines[:20])
            messages.append(
                f"{place}: {word!r} occurs {len(lines)} times, allowed: {limit}; write: {searched[word][1]}\n  {where}"
            )
    return messages


def tighten() -> None:
    """Lower the counts of `allowed` to what is in the tree."""
    allowed = allowances()
    found = occurrences({place for place, _ in allowed})
    comments = [line for line in ALLOWED.read_text().splitlines() if line.startswith("#")]
    kept = {key: min(limit, len(found.get(key, []))) for key, limit in allowed.items()}
    lines = [f"{count} {place} {word}" for (place, word), count in sorted(kept.items()) if count]
    ALLOWED.write_text("\n".join([*comments, *lines]) + "\n")


if __name__ == "__main__":
    if "--tighten" in sys.argv[1:]:
        tighten()
    elif found := complaints():
        sys.exit("\n".join([*found, "the list of words is scripts/words/words.toml"]))

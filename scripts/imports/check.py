"""Refuse files of a crate that import each other in a circle: `python3 scripts/imports/check.py`.

A file may use its own module: `host/status.rs` uses `host/mod.rs`, which declares it. All other imports, re-exports followed to
the file that declares the item, form no circle. Tests are left out.
"""

import collections
import pathlib
import re
import sys
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What is left out of a file's text: comments, strings and characters.
NOISE = re.compile(r"//[^\n]*|/\*.*?\*/|b?r(#*)\".*?\"\1|b?\"(?:\\.|[^\"\\])*\"|b?'(?:\\.[^']*|[^'\\])'", re.DOTALL)
TEST = re.compile(r"#\[cfg\((?:all\()?test\b[^\]]*\]")
USE = re.compile(r"\b(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);")
PATH = re.compile(r"(?<![:\w])(\w+)((?:::\w+)+)")
DECLARED = r"\b(?:struct|enum|trait|fn|const|static|type|union|mod|macro_rules!)\s+{}\b"

# A module's path, from the crate's root.
Module = tuple[str, ...]


class Crate:
    """The files of a crate, by module, and what each imports."""

    def __init__(self, src: pathlib.Path) -> None:
        """Read the files below `src` that are not tests or programs."""
        self.sources = {module_of(path, src): without_tests(NOISE.sub(" ", path.read_text())) for path in files(src)}
        self.reexports: dict[Module, dict[str, Module]] = collections.defaultdict(dict)
        self.globs: dict[Module, list[Module]] = collections.defaultdict(list)
        self.used: dict[Module, set[Module]] = {module: set(self.paths(module, text)) for module, text in self.sources.items()}

    def paths(self, module: Module, text: str) -> Iterator[Module]:
        """The crate's paths that a file names; what it re-exports is kept apart."""
        for public, tree in USE.findall(text):
            for path, name in leaves(tree):
                target = self.absolute(path, module)
                if target is None:
                    continue
                if public and name == "*":
                    self.globs[module].append(target[:-1])
                elif public:
                    self.reexports[module][name] = target
                else:
                    yield target
        for first, rest in PATH.findall(USE.sub(" ", re.sub(r"\bpub\([^)]*\)", " ", text))):
            target = self.absolute((first, *rest.split("::")[1:]), module)
            if target is not None:
                yield target

    def absolute(self, path: Module, module: Module) -> Module | None:
        """A path from the crate's root; None if it is another crate's."""
        if path[0] == "crate":
            return path[1:]
        while path and path[0] in ("self", "super"):
            module, path = (module if path[0] == "self" else module[:-1]), path[1:]
            if not path or path[0] != "super":
                return (*module, *path)
        return (*module, *path) if (*module, path[0]) in self.sources else None

    def declarer(self, path: Module, steps: int = 8) -> Module:
        """The module whose file declares an item, behind re-exports."""
        length = len(path)
        while path[:length] not in self.sources:
            length -= 1
        module, rest = path[:length], path[length:]
        if not rest or steps == 0:
            return module
        name = rest[0]
        if name in self.reexports[module]:
            return self.declarer(self.reexports[module][name] + rest[1:], steps - 1)
        if not re.search(DECLARED.format(re.escape(name)), self.sources[module]):
            for target in self.globs[module]:
                found = self.declarer(target + rest, steps - 1)
                if found != target:
                    return found
        return module

    def imports(self, module: Module) -> set[Module]:
        """The files whose items a file uses, without those of the modules that it is in."""
        found = {self.declarer(path) for path in self.used[module]}
        return {it for it in found if not it or module[: len(it)] != it}

    def circles(self) -> list[list[Module]]:
        """Sets of files each of which leads to all others by imports, by Kosaraju's algorithm."""
        forwards = {module: self.imports(module) - {module} for module in self.sources}
        backwards: dict[Module, set[Module]] = collections.defaultdict(set)
        for module, targets in forwards.items():
            for target in targets:
                backwards[target].add(module)
        order: list[Module] = []
        seen: set[Module] = set()
        for module in forwards:
            visit(module, forwards, seen, order)
        components: list[list[Module]] = []
        seen = set()
        for module in reversed(order):
            component: list[Module] = []
            visit(module, backwards, seen, component)
            components.append(sorted(component))
        return sorted(it for it in components if len(it) > 1)


def visit(start: Module, edges: dict[Module, set[Module]], seen: set[Module], order: list[Module]) -> None:
    """Append to `order` what is reachable and not yet seen, each after what it leads to."""
    if start in seen:
        return
    seen.add(start)
    for target in sorted(edges.get(start, ())):
        visit(target, edges, seen, order)
    order.append(start)


def files(src: pathlib.Path) -> list[pathlib.Path]:
    """The files of a crate's library and of its `main`."""
    found = (path for path in src.rglob("*.rs") if path.name != "tests.rs" and "tests" not in path.parent.relative_to(src).parts)
    return sorted(path for path in found if path.relative_to(src).parts[0] != "bin")


def module_of(path: pathlib.Path, src: pathlib.Path) -> Module:
    """The module that a file is."""
    parts = path.relative_to(src).with_suffix("").parts
    return parts[:-1] if parts[-1] in ("lib", "main", "mod") else parts


def without_tests(text: str) -> str:
    """The text without the items that are for tests alone."""
    while found := TEST.search(text):
        end, depth = found.end(), 0
        while end < len(text):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
            if depth == 0 and text[end - 1] in "};":
                break
        text = text[: found.start()] + text[end:]
    return text


def leaves(tree: str, prefix: Module = ()) -> Iterator[tuple[Module, str]]:
    """The paths of a `use`, each with the name that it gives."""
    tree = tree.strip()
    if tree.startswith("{"):
        depth, start = 0, 1
        for at, letter in enumerate(tree):
            depth += {"{": 1, "}": -1}.get(letter, 0)
            if (letter == "," and depth == 1) or (letter == "}" and depth == 0):
                yield from leaves(tree[start:at], prefix)
                start = at + 1
        return
    found = re.match(r"(\w+|\*)\s*(::)?\s*(?:as\s+(\w+))?", tree)
    if found is None:
        return
    if found[2]:
        yield from leaves(tree[found.end(2) :], (*prefix, found[1]))
    elif found[1] == "self":
        yield prefix, found[3] or prefix[-1]
    else:
        yield (*prefix, found[1]), found[3] or found[1]


def complaints(crates: pathlib.Path) -> list[str]:
    """One message for each circle."""
    messages = []
    for src in sorted(crates.glob("*/src")):
        crate = Crate(src)
        for circle in crate.circles():
            edges = [
                (module, target)
                for module in circle
                for target in sorted(crate.imports(module))
                if target in circle and target != module
            ]
            lines = "".join(f"\n  {name(module)} uses {name(target)}" for module, target in edges)
            messages.append(f"{src.parent.name}: these files import each other in a circle:{lines}")
    return messages


def name(module: Module) -> str:
    """A module as it is written in Rust."""
    return "::".join(("crate", *module))


if __name__ == "__main__":
    if found := complaints(ROOT / "crates"):
        sys.exit("\n".join([*found, "move what they share into a file that imports neither"]))

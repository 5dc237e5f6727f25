"""Hooks of MkDocs: files outside of `docs/` become pages of the site, so that every link of a page has a target.

A page links to `../scenarios/first.toml` as it does on GitHub. The hook adds a page `files/scenarios/first.toml` with the file's
content and points the link at it. A linked file that does not exist is a warning, which strict mode turns into an error.
"""

import logging
import pathlib
import posixpath
import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

LOG = logging.getLogger("mkdocs.hooks.outside")
# A Markdown link whose target climbs out of the page's folder: text, path, anchor.
LINK = re.compile(r"\]\((\.\./[^)#\s]*)(#[^)\s]*)?\)")
# A pipe escaped for GitHub in the code of a table's cell; Python-Markdown needs no escape there.
CODE = re.compile(r"`[^`\n]*`")
LANGUAGES = {".toml": "toml", ".py": "python", ".sh": "bash", ".rs": "rust", ".csv": "text"}


def outside(page: str, link: str) -> str | None:
    """The path in the repository that a page's link names, if it lies outside of `docs/`."""
    target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
    return None if target == "docs" or target.startswith("docs/") else target


def source_of(target: str, root: pathlib.Path) -> pathlib.Path | None:
    """The file to show for a path: itself, or the README of a folder."""
    path = root / target
    path = path / "README.md" if path.is_dir() else path
    return path if path.is_file() else None


def page_of(path: pathlib.Path, root: pathlib.Path) -> str:
    """The name of the page that shows a file."""
    name = path.relative_to(root).as_posix()
    return f"files/{name}" if path.suffix == ".md" else f"files/{name}.md"


def content_of(path: pathlib.Path, root: pathlib.Path) -> str:
    """The page that shows a file."""
    text = path.read_text()
    if path.suffix == ".md":
        return text
    return f"# {path.relative_to(root).as_posix()}\n\n````{LANGUAGES.get(path.suffix, 'text')}\n{text}\n````\n"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for every file outside of `docs/` that a page links to."""
    root = pathlib.Path(config.config_file_path).parent
    added = set()
    for file in list(files.documentation_pages()):
        for link, _ in LINK.findall(file.content_string):
            target = outside(file.src_uri, link)
            path = source_of(target, root) if target else None
            if path is not None and (name := page_of(path, root)) not in added:
                added.add(name)
                files.append(File.generated(config, name, content=content_of(path, root)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links to files outside of `docs/` at their pages."""
    root = pathlib.Path(config.config_file_path).parent
    uri = page.file.src_uri

    def rewritten(match: re.Match[str]) -> str:
        link, anchor = match[1], match[2] or ""
        target = outside(uri, link)
        if target is None or uri.startswith("files/"):
            return match[0]
        path = source_of(target, root)
        if path is None:
            LOG.warning("Doc file '%s' contains a link '%s', but there is no such file in the repository.", uri, link)
            return match[0]
        return f"]({posixpath.relpath(page_of(path, root), posixpath.dirname(uri) or '.')}{anchor})"

    lines = LINK.sub(rewritten, markdown).split("\n")
    return "\n".join(CODE.sub(unescaped, line) if line.startswith("|") else line for line in lines)


def unescaped(match: re.Match[str]) -> str:
    """A code span without escaped pipes."""
    return match[0].replace("\\|", "|")

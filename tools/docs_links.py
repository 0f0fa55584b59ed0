# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A hook of MkDocs: pages link to files of the source tree, which the site does not have.

Such a link becomes the file's name; one to a file that does not exist is a warning, and so an error of `make docs`.
Links of notebooks, which MkDocs does not look at, become links of the site.
"""

import logging
import re
from pathlib import Path
from typing import Any

NOTEBOOK_LINK = re.compile(r'href="(\w+)\.md(#[^"]*)?"')
LINK = re.compile(r"\[([^\]]+)\]\((\.\./[^)#\s]+)(?:#[^)]*)?\)")
log = logging.getLogger("mkdocs.hooks.docs_links")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **rest: Any) -> str:
    """The page's text without links that leave the folder of the pages."""
    pages = Path(config["docs_dir"]).resolve()
    folder = Path(page.file.abs_src_path).resolve().parent

    def replace(link: re.Match[str]) -> str:
        target = (folder / link[2]).resolve()
        if target.is_relative_to(pages):
            return link[0]
        if not target.exists():
            log.warning("%s links to %s, which does not exist", page.file.src_uri, link[2])
        name = target.relative_to(pages.parent).as_posix() if target.is_relative_to(pages.parent) else target.name
        return f"`{name}`" if "." in link[1] else f"{link[1]} (`{name}`)"

    return LINK.sub(replace, markdown)


def on_page_content(html: str, *, page: Any, config: Any, **rest: Any) -> str:
    """The page of a notebook with links to other pages as the site has them."""
    if not page.file.src_uri.endswith(".ipynb"):
        return html

    def replace(link: re.Match[str]) -> str:
        if not Path(config["docs_dir"], f"{link[1]}.md").exists():
            log.warning("%s links to %s.md, which does not exist", page.file.src_uri, link[1])
        return f'href="../{link[1]}/{link[2] or ""}"'

    return NOTEBOOK_LINK.sub(replace, html)

# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A hook of MkDocs: pages about the C++ headers where Doxygen is installed; where it is not, it says so."""

import logging
import shutil
from typing import Any

FIRST_PAGE = "cpp_api/annotated.md"
log = logging.getLogger("mkdocs.hooks.docs_cpp")


def on_config(config: Any) -> Any:
    """The configuration, without these pages where nothing can make them."""
    if shutil.which("doxygen") is None:
        log.info("Doxygen is not installed, so that the site gets no pages about C++ (Debian's package: doxygen)")
        config.plugins["mkdoxy"].config["enabled"] = False
        config["nav"] = [entry for entry in config["nav"] if FIRST_PAGE not in entry.values()]
    return config

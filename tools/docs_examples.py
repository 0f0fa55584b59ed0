# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""An extension of Griffe, which reads docstrings for the site: examples (`>>>`) become blocks of code."""

import re
from typing import Any

from griffe import Extension

EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)


class Examples(Extension):
    """Puts each run of lines that begins with `>>>` between fences; a blank line ends it."""

    def on_instance(self, *, obj: Any, **rest: Any) -> None:
        """Called for each module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(lambda example: f"```pycon\n{example[0]}\n```", obj.docstring.value)

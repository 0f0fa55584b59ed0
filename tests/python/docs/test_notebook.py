# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The notebook of the documentation runs, and prints what the site shows."""

import contextlib
import io
import json

import pytest
from places import DOCS

NOTEBOOK = DOCS / "forty_rows.ipynb"


def test_the_notebook_prints_what_it_shows():
    pytest.importorskip("matplotlib").use("Agg")
    figures = pytest.importorskip("matplotlib.pyplot")
    names = {"__name__": "notebook"}
    for number, cell in enumerate(json.loads(NOTEBOOK.read_text())["cells"]):
        if cell["cell_type"] != "code":
            continue
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
        shown = "".join("".join(one["text"]) for one in cell["outputs"] if one["output_type"] == "stream")
        assert printed.getvalue() == shown
        assert any("image/png" in one.get("data", {}) for one in cell["outputs"]) == bool(figures.get_fignums())
        figures.close("all")
    assert len(names["together"]) == 40

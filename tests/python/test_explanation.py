# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What consoles and notebooks show of `explain()`."""

import pickle
from html.parser import HTMLParser

import torch

import torch_distinput as tdi

ZIPPED = tdi.Dataset.zip((tdi.Dataset.range(6).skip(1), tdi.Dataset.range(9).take(5))).batch(2)


def test_the_tree_has_the_inputs_of_an_op_below_it():
    lines = [line.partition("(")[0] for line in repr(ZIPPED.explain()).splitlines()]
    assert lines == ["batch", "└─ zip", "   ├─ skip", "   │  └─ range", "   └─ take", "      └─ range"]
    assert "5 elements, plan" in repr(ZIPPED.explain()).splitlines()[1]


def test_the_text_is_still_a_table():
    text = ZIPPED.explain()
    assert isinstance(text, str) and str(text).startswith("op ") and f"{text}" == str(text)
    assert pickle.loads(pickle.dumps(text)) == text and repr(pickle.loads(pickle.dumps(text))) == repr(text)


class Texts(HTMLParser):
    """The tags that are open, and all text."""

    def __init__(self):
        super().__init__()
        self.open, self.text = [], ""

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_notebooks_show_nested_lists():
    page = Texts()
    page.feed(tdi.Dataset.range(4).map(lambda x: x).explain()._repr_html_())
    assert page.open == [] and "map(<lambda>" in page.text and "range(start=0" in page.text


def test_a_loader_shows_its_path_and_its_pipeline():
    shown = repr(tdi.DataLoader(tdi.Dataset.range(6).batch(2), batch_size=None).explain())
    assert shown.splitlines()[0].startswith("DataLoader(Dataset") and "path" in shown and "range(" in shown
    shown = repr(tdi.DataLoader(torch.arange(6), batch_size=2, distributed=True).explain())
    assert "rows of the first step" in shown and "policy" in shown

# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Streams that every rank reads whole: the parts of the ranks."""

import itertools

import pytest

from torch_distinput.frameworks._shares import StreamShare


@pytest.mark.parametrize("drop_last", [False, True])
def test_parts_are_the_rows_of_the_stream_in_the_order_of_the_ranks(drop_last):
    for rows, batch, world in itertools.product((0, 1, 2, 5, 12, 13), (4, 6), (1, 2, 3)):
        shares = [StreamShare(range(rows), batch, world, rank, drop_last) for rank in range(world)]
        steps = list(itertools.zip_longest(*shares, fillvalue=[]))
        kept = rows // batch * batch if drop_last else rows
        assert [row for step in steps for part in step for row in part] == list(range(kept))
        assert {share.num_steps() for share in shares} == {len(steps)}
        assert all(max(map(len, step)) - min(map(len, step)) <= 1 for step in steps)

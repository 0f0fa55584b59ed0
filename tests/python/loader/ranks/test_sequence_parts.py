# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`DataLoader(sequence=)`: peers of context parallelism get parts of the sequences that their peers share."""

import pytest
import torch
import torch.distributed as dist
from ranks import returned, run_ranks
from torch.utils.data import Dataset

import torch_distinput as tdi

ROWS, LENGTH = 13, 8


class Rows(Dataset):
    def __len__(self):
        return ROWS

    def __getitem__(self, row):
        return {"tokens": torch.arange(LENGTH) + 100 * row, "row": row}


def sequences(kind):
    if kind == "python":
        return Rows(), {"tokens": 1, "row": None}
    tokens = torch.arange(LENGTH).repeat(ROWS, 1) + 100 * torch.arange(ROWS)[:, None]
    if kind == "pipeline":
        return tdi.Dataset.from_tensor_slices({"tokens": tokens, "row": torch.arange(ROWS)}), {"tokens": 1, "row": None}
    return tokens, 1


def read(rank, kind):
    mesh = dist.init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("dp", "cp", "tp"))
    rows, dim = sequences(kind)
    cut = {"cp": dim if isinstance(dim, int) else tdi.SequenceCut(dim)}

    def loader(**arguments):
        return tdi.DataLoader(rows, 2, shuffle=kind != "pipeline", distributed=mesh, **arguments)

    def tokens(batches):
        return [(batch if kind == "rows" else batch["tokens"]).tolist() for batch in batches]

    whole, parts = loader(**seed_of(kind)), loader(sequence=cut, **seed_of(kind))
    found = tokens(whole), tokens(parts)
    iterator = iter(parts)
    next(iterator)
    again = loader(sequence=cut, **seed_of(kind))
    again.load_state_dict(parts.state_dict())
    resumes = tokens(again) == tokens(iterator)
    told = "sequence: peers get parts of each sequence, along cp by" in str(parts.explain())
    return (mesh.get_local_rank("dp"), mesh.get_local_rank("cp")), *found, resumes and told


def seed_of(kind):
    return {} if kind == "pipeline" else {"seed": 3}


@pytest.mark.parametrize("kind", ["rows", "python", "pipeline"])
def test_parts_of_peers_make_the_sequences(kind):
    ranks = returned(run_ranks(read, 8, kind))
    by_place = {}
    for (data, peer), whole, parts, resumes in ranks:
        assert by_place.setdefault((data, peer), (whole, parts)) == (whole, parts) and resumes
        quarter = LENGTH // 4
        chunks = [slice(quarter * number, quarter * (number + 1)) for number in (peer, 3 - peer)]
        assert parts == [[sum((row[chunk] for chunk in chunks), []) for row in rows] for rows in whole]
    seen = [row[0] // 100 for data in (0, 1) for rows in by_place[data, 0][0] for row in rows]
    assert sorted(seen) == list(range(ROWS))


def packed(rank):
    """Parts of packed rows: documents of row numbers, whose lengths are padded to what four peers share."""
    mesh = dist.init_device_mesh("cpu", (1, 4), mesh_dim_names=("dp", "cp"))
    documents = [torch.arange(1, 1 + length) + 100 * number for number, length in enumerate((5, 19, 8, 30, 3, 16))]
    rows = tdi.Dataset.from_generator(lambda: ({"ids": document} for document in documents), None)
    rows = rows.pack(64, key="ids", pad_to_multiple_of=8).batch(1)
    cut = {"cp": tdi.SequenceCut(1, documents="cu_seqlens")}
    loaders = [tdi.DataLoader(rows, None, distributed=mesh, sequence=sequence) for sequence in (None, cut)]
    return [[{name: leaf.tolist() for name, leaf in batch.items()} for batch in loader] for loader in loaders]


def test_documents_of_packed_rows_are_cut_on_their_own():
    ranks = returned(run_ranks(packed, 4))
    for whole, *parts in zip(ranks[0][0], *(parts for _, parts in ranks)):
        bounds = whole["cu_seqlens"][0]
        for rank, part in enumerate(parts):
            assert part["cu_seqlens"] == whole["cu_seqlens"]
            expected = []
            for begin, end in zip(bounds, bounds[1:]):
                chunk = (end - begin) // 8
                for number in (rank, 7 - rank):
                    expected += range(begin + number * chunk, begin + (number + 1) * chunk)
            for name in ("tokens", "position_ids", "loss_mask"):
                assert part[name] == [[whole[name][0][place] for place in expected]]


def refused(rank):
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "cp"))
    texts = []
    for sequence, distributed in [
        ({"pc": 1}, mesh),
        ({"dp": 1}, mesh),
        ({"cp": 1}, True),
        ({"cp": "1"}, mesh),
        (1, mesh),
    ]:
        with pytest.raises((ValueError, TypeError)) as error:
            tdi.DataLoader(torch.zeros(4, 8), 2, distributed=distributed, sequence=sequence)
        texts.append(str(error.value))
    loader = tdi.DataLoader(torch.zeros(4, 7), 2, distributed=mesh, sequence={"cp": 1})
    with pytest.raises(ValueError, match="must be a multiple of 4 for 2 peers"):
        next(iter(loader))
    return texts


def test_what_is_no_dim_of_peers_is_refused():
    for texts in returned(run_ranks(refused, 4)):
        assert "`sequence` names 'pc', but the dims of the mesh are 'dp', 'cp'" in texts[0]
        assert "`sequence` names 'dp', along which whole rows are dealt" in texts[1]
        assert "`sequence` names dims of a DeviceMesh, which `distributed` is not" in texts[2]
        assert "sequence['cp']" in texts[3]
        assert "must be a dict by names of the mesh's dims" in texts[4]


def test_sequence_needs_distributed():
    with pytest.raises(ValueError, match="`sequence` needs `distributed=True`"):
        tdi.DataLoader(torch.zeros(4, 8), sequence={"cp": 1})

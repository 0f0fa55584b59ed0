# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What one process has read of a file at its start, the others on its host get from it; hosts deal files among them."""

import shutil
import tempfile
import textwrap
from pathlib import Path

import pytest
from processes import run_script

pytest.importorskip("pyarrow")

pytestmark = pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="the share is a folder in memory")

BEGIN = """
    import os, pathlib, signal, sys, time
    from host_ranks import *
    from processes import wait_until
    share, folder = pathlib.Path(os.environ["TORCH_DISTINPUT_HOST_SHARE"]), pathlib.Path(os.environ["DATA"])
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a program with a share and a folder for data of its own; returns the path of the share."""
    parent = tempfile.mkdtemp(prefix="tdi-tests-", dir="/dev/shm")
    share = Path(parent) / "share"
    monkeypatch.setenv("TORCH_DISTINPUT_HOST_SHARE", str(share))
    monkeypatch.setenv("TORCH_DISTINPUT_WRITE_INDEX", "0")
    monkeypatch.setenv("DATA", str(tmp_path))

    def run_program(body):
        result = run_script(textwrap.dedent(BEGIN) + textwrap.dedent(body), timeout=90)
        assert result.returncode == 0, result.stdout + result.stderr
        return share

    yield run_program
    shutil.rmtree(parent)


@pytest.mark.parametrize("kind", ["records", "tokens", "csv", "jsonl"])
def test_eight_ranks_read_each_file_once(run, kind):
    share = run(f"""
    files = write_files(folder, "{kind}", 8, 2 * MIB)
    size = sum(os.path.getsize(file) for file in files)
    read = READERS["{kind}"]
    ranks = run_together([lambda: read(files).cardinality()] * 8)
    assert len({{rows for rows, _ in ranks}}) == 1, ranks
    assert ranks[0][0] > 100
    total = sum(count for _, count in ranks)
    # Of tables, each process reads the heads, and one the last block once more.
    assert size <= total < 2 * size, (total / size, ranks)

    os.environ["TORCH_DISTINPUT_HOST_SHARE"] = ""
    alone = run_together([lambda: read(files).cardinality()] * 8)
    assert sum(count for _, count in alone) >= 8 * size
    assert alone[0][0] == ranks[0][0]
    """)
    # Processes that end without Python's clean-up leave entries; the next one that comes alone removes them.
    run("""
    path = write_files(folder, "records", 1, MIB)
    assert READERS["records"](path).cardinality() == 128
    """)
    assert not share.exists()


def test_eight_ranks_read_each_footer_once(run):
    run("""
    import pyarrow, pyarrow.parquet
    files = [str(folder / f"{number}.parquet") for number in range(16)]
    table = pyarrow.table({f"c{column}": range(20_000) for column in range(40)})
    for file in files:
        pyarrow.parquet.write_table(table, file, row_group_size=1000)
    # A log of the footers that each process reads.
    from torch_distinput.tables import _parquet
    opened, read_footer = [], _parquet._read_footer

    def logs(file, size):
        opened.append(file.path)
        return read_footer(file, size)

    _parquet._read_footer = logs

    def count():
        del opened[:]
        return [tdi.ParquetDataset(files).cardinality(), list(opened)]

    ranks = [found for found, _ in run_together([count] * 8)]
    assert [rows for rows, _ in ranks] == [320_000] * 8
    assert sorted(path for _, paths in ranks for path in paths) == sorted(files)
    assert [row["c3"].item() for row in tdi.ParquetDataset(files[:1]).take(3)] == [0, 1, 2]
    """)


def test_rows_are_those_that_each_would_read(run):
    run("""
    for kind in ("records", "tokens", "csv", "jsonl"):
        files = write_files(folder, kind, 2, 64 << 10)
        def digest():
            return str([str(element) for element in READERS[kind](files).batch(64)])
        ranks = run_together([digest] * 3)
        os.environ["TORCH_DISTINPUT_HOST_SHARE"], kept = "", os.environ["TORCH_DISTINPUT_HOST_SHARE"]
        alone = run_together([digest])
        os.environ["TORCH_DISTINPUT_HOST_SHARE"] = kept
        assert [text for text, _ in ranks] == [alone[0][0]] * 3, kind
    """)


KEEPS_THE_SHARE = """
    # As long as this process lives, what the others share stays.
    READERS["records"](write_files(folder, "records", 1, 64 << 10)).cardinality()
"""
STANDS_STILL = """
    from torch_distinput.tables import _text_tables
    files = write_files(folder, "jsonl", 1, 2 * MIB)
    reads, begun = os.pipe()

    def stands_still():
        def find_blocks(*arguments):
            os.write(begun, b"x")
            signal.pause()

        _text_tables.find_blocks = find_blocks
        return READERS["jsonl"](files).cardinality()

    def holds_an_entry(process):
        return any(str(share) in path and not path.endswith(("users", "share")) for path in opened_by(process))
"""


def test_a_killed_rank_leaves_its_files_to_the_next(run):
    run(
        KEEPS_THE_SHARE
        + STANDS_STILL
        + """
    def waits():
        before = bytes_read()
        return [READERS["jsonl"](files).cardinality(), bytes_read() - before]

    with started([stands_still]) as ([first], results):
        os.read(reads, 1)
        os.close(results[0])
        with started([waits] * 3) as (waiting, found):
            for process in waiting:
                wait_until(lambda: holds_an_entry(process), 30)
            os.kill(first, signal.SIGKILL)
            ranks = [result_of(result) for result in found]
    assert [rows for rows, _ in ranks] == [131_072] * 3, ranks
    # One of them has read the file, and its last block a second time.
    assert sum(read for _, read in ranks) < 4 * MIB, ranks
    """
    )


def test_ctrl_c_ends_the_wait_for_another_rank(run):
    run(
        KEEPS_THE_SHARE
        + STANDS_STILL
        + """
    def waits():
        try:
            return READERS["jsonl"](files).cardinality()
        except KeyboardInterrupt:
            return "interrupted"

    signal.signal(signal.SIGINT, signal.default_int_handler)
    with started([stands_still]) as ([first], results):
        os.read(reads, 1)
        os.close(results[0])
        with started([waits]) as ([process], [found]):
            wait_until(lambda: holds_an_entry(process), 30)
            begin = time.monotonic()
            os.kill(process, signal.SIGINT)
            assert result_of(found) == "interrupted"
            assert time.monotonic() - begin < 8  # without the signal, it would work alone after 15 s
        os.kill(first, signal.SIGKILL)
    """
    )


@pytest.mark.parametrize("kind", ["records", "tokens", "csv", "jsonl"])
def test_damaged_entries_are_made_again(run, kind):
    run(
        KEEPS_THE_SHARE
        + f"""
    files = write_files(folder, "{kind}", 4, MIB)
    size = sum(os.path.getsize(file) for file in files)
    count = lambda: READERS["{kind}"](files).cardinality()
    [(rows, _)] = run_together([count])
    [(again, read)] = run_together([count])
    assert again == rows and read < size / 2
    entries = [path for path in share.iterdir() if path.name not in ("users", "room")]
    assert len(entries) == 5
    for number, path in enumerate(entries):
        content = bytearray(path.read_bytes())
        if number % 2:
            content[-1 - number] ^= 0x10
        path.write_bytes(content if number % 2 else content[:-3])
    [(found, read)] = run_together([count])
    assert found == rows and read >= size
    [(found, read)] = run_together([count])
    assert found == rows and read < size / 2
    """
    )


def test_a_file_that_changes_is_read_again(run):
    run(
        KEEPS_THE_SHARE
        + """
    files = write_files(folder, "records", 1, MIB)
    count = lambda: READERS["records"](files).cardinality()
    assert run_together([count])[0][0] == 128
    status = os.stat(files[0])
    # Of the same size and time, as a copy with its times may be.
    with tdi.TFRecordWriter(files[0]) as writer:
        for _ in range(256):
            writer.write(b"x" * 4080)
    assert os.path.getsize(files[0]) == status.st_size
    os.utime(files[0], ns=(status.st_atime_ns, status.st_mtime_ns))
    assert run_together([count])[0][0] == 256
    """
    )


@pytest.mark.parametrize("mode", ["0o755", "0o777", "0o750"])
def test_a_folder_that_others_have_access_to_is_not_used(run, mode):
    run(f"""
    share.mkdir()
    share.chmod({mode})
    files = write_files(folder, "records", 2, MIB)
    ranks = run_together([lambda: READERS["records"](files).cardinality()] * 2)
    assert [rows for rows, _ in ranks] == [256] * 2
    assert all(read >= 2 * MIB - 2 * MIB // 100 for _, read in ranks), ranks
    assert list(share.iterdir()) == []
    """)


@pytest.mark.parametrize("kind", ["records", "jsonl"])
def test_hosts_make_each_stored_index_once(run, kind):
    run(
        f"    kind = {kind!r}\n"
        + """
    del os.environ["TORCH_DISTINPUT_WRITE_INDEX"]
    os.environ["GROUP_WORLD_SIZE"] = "2"

    def on_host(number):
        def count():
            os.environ["GROUP_RANK"] = str(number)
            os.environ["TORCH_DISTINPUT_HOST_SHARE"] = f"{share}-{number}"
            return READERS[kind](files).cardinality()
        return count

    # On a loaded machine one host may be so late that the other one takes its files.
    for attempt in range(5):
        here = folder / str(attempt)
        here.mkdir()
        files = write_files(here, kind, 16, 4 * MIB)
        size = 64 * MIB
        ranks = run_together([on_host(rank // 2) for rank in range(4)])
        assert len({rows for rows, _ in ranks}) == 1 and ranks[0][0] > 8000
        assert len(list(here.glob(".*.tdi-index"))) == 16
        hosts = [sum(read for _, read in ranks[:2]), sum(read for _, read in ranks[2:])]
        # Of tables, the last block of each file, of 1 MiB, is read once more by each host.
        if all(host < (0.55 if kind == "records" else 0.95) * size for host in hosts):
            break
    else:
        raise AssertionError(hosts)
    """
    )


@pytest.mark.parametrize("kind", ["records", "jsonl"])
def test_a_host_without_company_makes_all_indexes(run, kind):
    run(
        f"    kind = {kind!r}\n"
        + """
    del os.environ["TORCH_DISTINPUT_WRITE_INDEX"]
    os.environ |= {"GROUP_RANK": "2", "GROUP_WORLD_SIZE": "50"}
    files = write_files(folder, kind, 8, MIB)
    begin = time.monotonic()
    assert READERS[kind](files).cardinality() == {"records": 1024, "jsonl": 524_288}[kind]
    assert time.monotonic() - begin < 20
    assert len(list(folder.glob(".*.tdi-index"))) == 8
    """
    )

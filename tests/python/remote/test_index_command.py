# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`index` makes the indexes of files and stores them beside the data; other processes take them over."""

import pytest
from processes import run_script
from sample_files import tf_records, write_tar

import torch_distinput as tdi
from torch_distinput.cli import main
from torch_distinput.datasets._files import Progress

SIZE = 400_000


def records(seed=0):
    return tf_records([bytes([seed + i % 50]) * 1000 for i in range(SIZE // 1000)])


def archive(tmp_path):
    path = tmp_path / "made.tar"
    write_tar(path, [(f"{i:04}.x", b"y" * 1000) for i in range(300)])
    return path.read_bytes()


@pytest.fixture(params=["tfrecord", "txt", "tar", "csv", "jsonl"])
def kind(request):
    if request.param in ("csv", "jsonl"):
        pytest.importorskip("pyarrow")
    return request.param


@pytest.fixture
def data(kind, tmp_path):
    if kind == "tar":
        return archive(tmp_path)
    return {
        "tfrecord": records(),
        "txt": b"".join(b"line %06d %s\n" % (i, b"x" * 100) for i in range(4000)),
        "csv": b"a,b\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(250_000)),
        "jsonl": b"".join(b'{"a": %d}\n' % i for i in range(250_000)),
    }[kind]


def index_elsewhere(store, url):
    """Runs the command in a process of its own."""
    ran = run_script(f"""
    from torch_distinput import _C
    from torch_distinput.cli import main
    _C.set_storage_options(*{store.options!r})
    main(["index", {url!r}])
    """)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


READERS = {
    "tfrecord": tdi.TFRecordDataset,
    "txt": tdi.TextLineDataset,
    "tar": tdi.TarDataset,
    "csv": tdi.CsvDataset,
    "jsonl": tdi.JsonLinesDataset,
}
STORED = {"tfrecord": "records", "txt": "lines", "tar": "groups", "csv": "csv", "jsonl": "jsonl"}


def index_name(name, kind):
    return f".{name}.{STORED[kind]}.tdi-index"


def bytes_sent(store, name):
    return sum(end - begin for begin, end in store.reads(name))


def test_another_process_takes_the_index_over(kind, data, s3_store):
    url = s3_store.put(f"one.{kind}", data)
    assert "1 index made" in index_elsewhere(s3_store, url)
    assert s3_store.server.get(s3_store.object(index_name(f"one.{kind}", kind)))
    before = bytes_sent(s3_store, f"one.{kind}")
    found = READERS[kind](url).cardinality()
    # Of tables the head is read, and whether the last record is whole.
    assert bytes_sent(s3_store, f"one.{kind}") - before < len(data) / 2
    (name,) = s3_store.put_all({f"again.{kind}": data})
    assert found == READERS[kind](name).cardinality() > 0


def test_an_index_of_a_replaced_object_is_not_taken(s3_store):
    url = s3_store.put("one.tfrecord", records())
    index_elsewhere(s3_store, url)
    s3_store.put("one.tfrecord", tf_records([b"z" * 999] * (SIZE // 999)))
    assert len(tdi.TFRecordDataset(url)) == SIZE // 999
    assert list(tdi.TFRecordDataset(url).take(1)) == [b"z" * 999]


def test_what_is_there_is_not_made_again(s3_store, capsys):
    urls = s3_store.put_all({f"{i}.tfrecord": records(i) for i in range(3)})
    main(["index", urls[1]])
    capsys.readouterr()
    main(["index", s3_store.url() + "/"])
    assert "2 indexes made, 1 were there: 1,200 records in 3 file(s)" in capsys.readouterr().out
    main(["index", s3_store.url() + "/*.tfrecord"])
    assert "0 indexes made, 3 were there" in capsys.readouterr().out


def test_hosts_share_the_work(s3_store, capsys):
    s3_store.put_all({f"{i}.tfrecord": records(i) for i in range(3)})
    main(["index", s3_store.url() + "/", "--shard", "0/2"])
    assert "2 indexes made, 0 were there" in capsys.readouterr().out
    main(["index", s3_store.url() + "/", "--shard", "1/2"])
    assert "1 index made, 0 were there" in capsys.readouterr().out


def test_files_of_this_machine(kind, data, tmp_path, capsys):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / f"one.{kind}").write_bytes(data)
    (folder / f"small.{kind}").write_bytes(data[:0])
    main(["index", str(folder)])
    assert (folder / index_name(f"one.{kind}", kind)).exists()
    assert "1 file(s) of less than 256 KiB need none" in capsys.readouterr().out
    main(["index", str(folder / f"*.{kind}")])
    assert "0 indexes made, 1 were there" in capsys.readouterr().out


def test_a_file_that_is_damaged_is_told_in_one_line(s3_store, capsys):
    s3_store.put_all({"bad.tfrecord": b"x" * SIZE, "good.tfrecord": records()})
    with pytest.raises(SystemExit) as ended:
        main(["index", s3_store.url() + "/"])
    assert ended.value.code == 1
    told = capsys.readouterr()
    assert "1 index made" in told.out
    (line,) = [line for line in told.err.splitlines() if line.startswith("index: ")]
    assert s3_store.url("bad.tfrecord") in line and "byte 0" in line


def test_a_store_that_cannot_be_written_to(http_store, capsys):
    url = http_store.put("one.tfrecord", records())
    main(["index", url])
    out = capsys.readouterr().out
    assert "could not be stored beside the data" in out and "credentials" in out
    before = bytes_sent(http_store, "one.tfrecord")
    assert len(tdi.TFRecordDataset(url)) == SIZE // 1000
    assert bytes_sent(http_store, "one.tfrecord") == before


def test_an_object_with_a_signature_has_its_index_in_the_cache_alone(http_store, capsys):
    url = http_store.put("one.tfrecord", records()) + "?signature=a/b"
    main(["index", url])
    out = capsys.readouterr().out
    assert "could not be stored beside the data" in out and "one.tfrecord has a query" in out and "a/b" not in out
    before = bytes_sent(http_store, "one.tfrecord")
    assert len(tdi.TFRecordDataset(url.replace("a/b", "c"))) == SIZE // 1000
    assert bytes_sent(http_store, "one.tfrecord") == before
    main(["index", url])
    assert "0 indexes made, 1 were there" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["x.unknown"], "x.unknown: its ending tells no format; give `--format`"),
        (["x.parquet"], "x.parquet: files that end with .parquet need no index"),
        (["x.csv.gz"], "x.csv.gz: compressed files have no index"),
        (["x.csv", "--shard", "2/2"], "`--shard` must be I/N"),
        (["x.csv", "--jobs", "0"], "`--jobs` must be at least 1"),
    ],
)
def test_wrong_words(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / words[0]).write_bytes(b"x")
    with pytest.raises(SystemExit, match=r"^index: ") as ended:
        main(["index", *words])
    assert message in str(ended.value)


def test_much_that_is_downloaded_for_indexes_is_told_once(capsys):
    progress = Progress()
    progress(2, 100, 1 << 30, False, 200 << 20)
    assert "index URL" not in capsys.readouterr().err
    for _ in range(2):
        progress(2, 300 << 20, 1 << 30, False, 300 << 20)
    assert capsys.readouterr().err.count("python -m torch_distinput index URL") == 1

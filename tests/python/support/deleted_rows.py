# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Delta and Iceberg tables that delete rows by their numbers, which the packages that read them cannot write."""

import json
import struct
import zlib
from pathlib import Path

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_DELTA_MAGIC = 1681511377


def _bitmap(rows):
    """Numbers of rows as one roaring bitmap of 64 bits."""
    from pyroaring import BitMap

    return struct.pack("<QI", 1, 0) + BitMap(rows).serialize()


def _z85(data):
    data += b"\0" * (-len(data) % 4)
    numbers = [int.from_bytes(data[at : at + 4], "big") for at in range(0, len(data), 4)]
    return "".join(_Z85[number // 85**place % 85] for number in numbers for place in (4, 3, 2, 1, 0))


def delete_of_delta(folder, rows_of):
    """Commits a version that deletes `rows_of(number of rows)` of each file that the last commit has added."""
    log = Path(folder, "_delta_log")
    last = max(int(path.stem) for path in log.glob("*.json"))
    actions = [json.loads(line) for line in (log / f"{last:020}.json").read_text().splitlines()]
    lines = []
    for add in [action["add"] for action in actions if "add" in action]:
        rows = rows_of(json.loads(add["stats"])["numRecords"])
        if not rows:
            continue
        data = struct.pack("<I", _DELTA_MAGIC) + _bitmap(rows)
        vector = {"storageType": "i", "pathOrInlineDv": _z85(data), "sizeInBytes": len(data), "cardinality": len(rows)}
        gone = {name: add[name] for name in ("path", "partitionValues", "size")}
        lines.append({"remove": gone | {"dataChange": True, "deletionTimestamp": 1, "extendedFileMetadata": True}})
        lines.append({"add": add | {"deletionVector": vector}})
    (log / f"{last + 1:020}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _puffin(file, rows):
    body = b"\xd1\xd3\x39\x64" + _bitmap(rows)
    blob = struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    footer = json.dumps(
        {
            "blobs": [
                {
                    "type": "deletion-vector-v1",
                    "fields": [],
                    "snapshot-id": -1,
                    "sequence-number": -1,
                    "offset": 4,
                    "length": len(blob),
                    "properties": {"referenced-data-file": file, "cardinality": str(len(rows))},
                }
            ]
        }
    ).encode()
    return b"PFA1" + blob + b"PFA1" + footer + struct.pack("<II", len(footer), 0) + b"PFA1"


def _positions(deleted):
    import pyarrow as pa
    import pyarrow.parquet as parquet

    sink = pa.BufferOutputStream()
    pairs = [(file, row) for file, rows in sorted(deleted.items()) for row in sorted(rows)]
    paths, rows = pa.array([file for file, _ in pairs]), pa.array([row for _, row in pairs], pa.int64())
    parquet.write_table(pa.table({"file_path": paths, "pos": rows}), sink)
    return sink.getvalue().to_pybytes()


def delete_of_iceberg(table, deleted, vectors=False, equality=False):
    """The path of the metadata of `table` with a snapshot that deletes `deleted`: sets of rows by data file. In one
    file of deletes, or, with `vectors`, in one deletion vector for each data file."""
    from pyiceberg.manifest import (
        DataFile,
        DataFileContent,
        FileFormat,
        ManifestContent,
        ManifestEntry,
        ManifestEntryStatus,
        ManifestWriterV2,
        write_manifest_list,
    )
    from pyiceberg.typedef import Record

    class Deletes(ManifestWriterV2):
        def content(self):
            return ManifestContent.DELETES

    snapshot = table.current_snapshot()
    folder = Path(table.location().removeprefix("file://"))
    number, sequence = snapshot.snapshot_id + 1, snapshot.sequence_number + 1
    if vectors:
        contents = [(_puffin(file, rows), FileFormat.PUFFIN, len(rows), file) for file, rows in sorted(deleted.items())]
    else:
        contents = [(_positions(deleted), FileFormat.PARQUET, sum(map(len, deleted.values())), None)]
    manifest_path = folder / "metadata" / f"deletes-{number}.avro"
    writer = Deletes(table.spec(), table.schema(), table.io.new_output(str(manifest_path)), number, "null")
    with writer:
        for place, (content, format_, count, file) in enumerate(contents):
            path = folder / "data" / f"deletes-{number}-{place}.{format_.name.lower()}"
            path.write_bytes(content)
            bounds = {} if file is None else {2147483546: file.encode()}
            writer.add_entry(
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED,
                    snapshot_id=number,
                    data_file=DataFile.from_args(
                        content=DataFileContent.EQUALITY_DELETES if equality else DataFileContent.POSITION_DELETES,
                        file_path=str(path),
                        file_format=format_,
                        partition=Record(),
                        record_count=count,
                        file_size_in_bytes=len(content),
                        lower_bounds=bounds,
                        upper_bounds=bounds,
                        equality_ids=[1] if equality else None,
                    ),
                )
            )
    list_path = folder / "metadata" / f"list-{number}.avro"
    output = table.io.new_output(str(list_path))
    with write_manifest_list(2, output, number, snapshot.snapshot_id, sequence, "null") as manifests:
        manifests.add_manifests([*snapshot.manifests(table.io), writer.to_manifest_file()])
    metadata = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text())
    metadata["current-snapshot-id"] = number
    metadata["last-sequence-number"] = sequence
    metadata["refs"] = {"main": {"snapshot-id": number, "type": "branch"}}
    metadata["snapshots"].append(
        {
            "snapshot-id": number,
            "parent-snapshot-id": snapshot.snapshot_id,
            "sequence-number": sequence,
            "timestamp-ms": snapshot.timestamp_ms + 1,
            "manifest-list": str(list_path),
            "summary": {"operation": "delete"},
            "schema-id": metadata["current-schema-id"],
        }
    )
    path = folder / "metadata" / f"deleted-{number}.metadata.json"
    path.write_text(json.dumps(metadata))
    return str(path)

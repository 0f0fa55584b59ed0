# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Pages of names, as all stores list them."""

from dataclasses import dataclass

from .objects import Objects, StoredObject


@dataclass
class Page:
    objects: list[tuple[str, StoredObject]]  # by their names in the bucket
    folders: list[str]  # each with the delimiter
    last: str  # where the next page begins, after this name
    more: bool


def list_names(objects: Objects, bucket: str, *, prefix: str, after: str, delimiter: str, limit: int) -> Page:
    """At most `limit` objects and folders of `bucket` (which ends with a slash) whose names there begin with `prefix`
    and come after `after`."""
    limit = min(limit, objects.page_limit)
    found, folders = [], []
    while len(found) + len(folders) < limit:
        batch, more = objects.page(bucket + prefix, bucket + after, limit if not delimiter else 1)
        for stored in batch[: limit - len(found) - len(folders)]:
            name = stored.name.removeprefix(bucket)
            folder, cut, _ = name[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
            if cut:
                folders.append(prefix + folder + delimiter)
                # After all names in it: those end at most with the last character.
                after = prefix + folder + delimiter + chr(0x10FFFF)
            else:
                found.append((name, stored))
                after = name
        if not more:
            return Page(found, folders, after, False)
    return Page(found, folders, after, bool(objects.page(bucket + prefix, bucket + after, 1)[0]))

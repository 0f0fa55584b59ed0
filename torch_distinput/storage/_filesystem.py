# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""File systems of fsspec, as native code asks them."""

from typing import Any

# Where file systems tell the version of a file, the surest first.
_VERSIONS = (
    "generation",
    "ETag",
    "etag",
    "versionId",
    "version_id",
    "mtime",
    "LastModified",
    "last_modified",
    "created",
)


class FileSystem:
    """What native code calls, from several threads, over an object of fsspec."""

    def __init__(self, op: str, files: Any):
        missing = [name for name in ("info", "find", "cat_file", "unstrip_protocol") if not hasattr(files, name)]
        if missing:
            raise TypeError(
                f"{op}: `filesystem` must be one of fsspec, but a {type(files).__name__} has no `{missing[0]}`."
            )
        self._files = files

    def url_of(self, name: str) -> str:
        """A path of the file system, or a URL, as a URL."""
        return self._files.unstrip_protocol(name)

    def look(self, url: str) -> tuple[int, str]:
        """The size and the version of a file; FileNotFoundError where there is none."""
        info = self._files.info(url)
        if info.get("type") == "directory":
            raise FileNotFoundError(url)
        return int(info["size"]), _version(info)

    def read(self, url: str, offset: int, size: int) -> bytes:
        return self._files.cat_file(url, start=offset, end=offset + size)

    def list(self, prefix: str) -> list[tuple[str, int, str]]:
        """The files whose URLs begin with `prefix`."""
        folder = prefix[: prefix.rfind("/") + 1]
        found = self._files.find(folder, detail=True)
        entries = [(self.url_of(name), int(info["size"] or 0), _version(info)) for name, info in found.items()]
        return [entry for entry in entries if entry[0].startswith(prefix)]


def _version(info: dict[str, Any]) -> str:
    return next((str(info[name]) for name in _VERSIONS if info.get(name)), "")

# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The arguments `storage_options`, `filesystem`, `cache_dir` and `cache_bytes` of sources."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch_distinput import _C
from torch_distinput.base._arguments import count
from torch_distinput.storage._credentials import find_credentials
from torch_distinput.storage._filesystem import FileSystem

StorageOptions = Mapping[str, Any] | None
CacheDir = str | os.PathLike[str] | None


@dataclass(frozen=True)
class Storage:
    """How a source reads URLs; None: as the environment says."""

    storage_options: StorageOptions
    filesystem: Any
    cache_dir: CacheDir
    cache_bytes: int | None

    def given(self) -> list[str]:
        """The names of the arguments that are not None."""
        return [name for name, value in vars(self).items() if value is not None]


def stored_names(op: str, names: list[bytes], storage: Storage) -> list[bytes]:
    """The names as native code takes them, after it was told how their buckets are asked for in this process. Raises
    TypeError and ValueError that name op and parameter; no value of an option is in a message."""
    folder = _cache_folder(op, storage)
    if storage.filesystem is not None:
        for name in storage.given():
            if name != "filesystem":
                raise ValueError(f"{op}: `{name}` is for stores, and `filesystem` has its own: give one of them.")
        return _named_by(op, storage.filesystem, names)
    if storage.storage_options is not None:
        options, credentials = _checked(op, storage.storage_options)
        for bucket in _buckets(op, "storage_options", names):
            _C.set_storage_options(bucket, options, credentials)
    if folder is not None:
        for bucket in _buckets(op, "cache_dir", names):
            _C.set_object_cache(bucket, folder, storage.cache_bytes or 0)
    return names


def _cache_folder(op: str, storage: Storage) -> str | None:
    if storage.cache_bytes is not None:
        count(op, "cache_bytes", storage.cache_bytes, least=1)
        if storage.cache_dir is None:
            raise ValueError(
                f"{op}: `cache_bytes` is for `cache_dir`, which is not given (TDI_CACHE has TDI_CACHE_BYTES)."
            )
    if storage.cache_dir is None:
        return None
    folder = os.fspath(storage.cache_dir)
    if not isinstance(folder, str) or not folder:
        raise ValueError(f"{op}: `cache_dir` must be the path of a folder, but is {folder!r}.")
    return os.path.abspath(folder)


def _named_by(op: str, filesystem: Any, names: list[bytes]) -> list[bytes]:
    files = FileSystem(op, filesystem)
    urls = [files.url_of(os.fsdecode(name)) for name in names]
    for bucket in sorted({_bucket(url) for url in urls}):
        _C.set_file_system(bucket, files)
    return [os.fsencode(url) for url in urls]


def _checked(op: str, options: Any) -> tuple[dict[str, str], Callable[[str], dict[str, str]] | None]:
    """Options and the callback as native code takes them."""
    if not isinstance(options, Mapping):
        raise TypeError(
            f"{op}: `storage_options` must be a dict from names to values, but is a {type(options).__name__}."
        )
    found = {}
    for name, value in options.items():
        if not isinstance(name, str):
            raise TypeError(f"{op}: the names of `storage_options` must be texts, but one is {name!r}.")
        if name != "credentials":
            found[name] = _text(op, name, value)
    credentials = options.get("credentials")
    if credentials is None:
        return found, None
    if not callable(credentials):
        raise TypeError(f'{op}: `storage_options["credentials"]` must be a function of a URL that returns a dict.')
    return found, lambda url: {name: _text(op, name, value) for name, value in credentials(url).items()}


def _text(op: str, name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise TypeError(
        f"{op}: `storage_options[{name!r}]` must be a text, number or bool, but is a {type(value).__name__}."
    )


def _buckets(op: str, argument: str, names: list[bytes]) -> list[str]:
    found = sorted({_bucket(os.fsdecode(name)) for name in names if _C.names_object(os.fsdecode(name))})
    if not found:
        raise ValueError(f"{op}: `{argument}` says how URLs are read, but the files are paths of this machine.")
    return found


def _bucket(url: str) -> str:
    """The scheme and bucket, or host, of a URL."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


_C.set_default_credentials(find_credentials)

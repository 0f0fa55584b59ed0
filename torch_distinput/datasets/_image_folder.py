# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A dataset of images in a folder for each class."""

import os
from typing import Any, cast

from torch_distinput import _C
from torch_distinput.base._arguments import file_names
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.ops._description import described
from torch_distinput.storage._options import CacheDir, Storage, StorageOptions, stored_names


class ImageFolder(Dataset):
    """Images in a folder for each class, as tuples (encoded `bytes`, class number), in torchvision's order.

    Args:
        root: the folder that holds the folders of the classes; or a URL, such as `s3://bucket/pets`, whose folders are
            those in the names of the objects below it. They are listed once, which web servers (`https://`) cannot.
        storage_options, filesystem, cache_dir, cache_bytes: how URLs are read, as in `TextLineDataset`.

    Classes are sorted by name, and images by path within a class, subfolders included. Random access and exact length.
    Files are read when rows are: NotFoundError for a missing one, OSError for one that cannot be read;
    `on_error="skip"` skips and counts them. The call itself raises NotFoundError for a missing folder, a folder without
    classes and a class without images, and InvalidArgumentError for a link to a folder that contains the link.

    Other links to files and folders are followed, also out of `root`, as in torchvision, because subsets and mounts are
    often folders of links. Search a folder from a stranger, such as an unpacked archive, for links first.

    >>> import pathlib
    >>> for name in ("cat/1.jpg", "dog/2.jpg"):
    ...     path = pathlib.Path("pets", name)
    ...     path.parent.mkdir(parents=True)
    ...     _ = path.write_bytes(b"...")
    >>> pets = tdi.ImageFolder("pets")
    >>> pets.classes, list(pets)
    (['cat', 'dog'], [(b'...', tensor(0)), (b'...', tensor(1))])
    """

    @described
    def __init__(
        self,
        root: str | bytes | os.PathLike,
        *,
        storage_options: StorageOptions = None,
        filesystem: Any = None,
        cache_dir: CacheDir = None,
        cache_bytes: int | None = None,
    ):
        names = file_names([root], "ImageFolder: `root`")
        storage = Storage(storage_options, filesystem, cache_dir, cache_bytes)
        (name,) = cast("list[Any]", stored_names("ImageFolder", names, storage))
        native, classes = _C.image_folder(name)
        super().__init__(native)
        self._classes = [os.fsdecode(name) for name in classes]

    @property
    def classes(self) -> list[str]:
        """The names of the classes; the index is the class number."""
        return list(self._classes)

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The number of each class."""
        return {name: number for number, name in enumerate(self._classes)}

# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""ImageFolder over objects: the classes and the order of the same folder on this machine."""

import pytest

import torch_distinput as tdi
from torch_distinput import _C

NAMES = [
    "cat/2.jpg",
    "cat/10.JPG",
    "cat/a b/1.png",
    "cat/a/b/1.webp",
    "cat/a/z.png",
    "cat/notes.txt",
    "dog/x.jpeg",
    "dog.d/y.jpeg",
    "readme.jpg",
]


@pytest.fixture
def pets(s3_store, tmp_path):
    """The root of the objects, and of files with their names."""
    for name in NAMES:
        path = tmp_path / "pets" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    s3_store.put_all({f"pets/{name}": name.encode() for name in NAMES})
    s3_store.put("petsitters/cat/1.jpg", b"of another folder")
    return s3_store.url("pets"), tmp_path / "pets"


def test_images_of_objects_are_those_of_the_folder_in_its_order(pets):
    for root in (pets[0], pets[0] + "/"):
        remote, local = tdi.ImageFolder(root), tdi.ImageFolder(pets[1])
        assert remote.classes == local.classes == ["cat", "dog", "dog.d"]
        rows = [(data, int(label)) for data, label in remote]
        assert rows == [(data, int(label)) for data, label in local] and len(rows) == 7


def test_objects_are_listed_once_and_each_is_read_once(pets, s3_store):
    s3_store.server.forget_requests()
    dataset = tdi.ImageFolder(pets[0]).shuffle(seed=1)
    assert len(list(dataset)) == 7
    asked = [entry.operation for entry in s3_store.server.requests()]
    assert sorted(asked) == ["list"] + ["read"] * 7


def test_many_objects_come_in_pages(s3_store):
    s3_store.put_all({f"many/{number % 3}/{number:05}.png": b"." for number in range(2500)})
    dataset = tdi.ImageFolder(s3_store.url("many"))
    assert len(dataset) == 2500 and dataset.classes == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ({"other/x.jpg": b""}, "`s3://.*/pets` holds no folders of classes"),
        ({"pets/x.jpg": b""}, "`s3://.*/pets` holds no folders of classes"),
        ({"pets/cat/x.jpg": b"", "pets/dog/": b""}, "class `dog` in `s3://.*/pets` holds no images"),
    ],
)
def test_what_is_missing_is_named(s3_store, objects, message):
    s3_store.put_all(objects)
    with pytest.raises(tdi.NotFoundError, match=f"ImageFolder: .*{message}"):
        tdi.ImageFolder(s3_store.url("pets"))


def test_web_servers_have_no_folders(http_store):
    with pytest.raises(_C.RemoteError, match="ImageFolder: .*web servers have no lists"):
        tdi.ImageFolder(http_store.url("pets"))


def test_a_refused_list_is_an_error_that_names_the_folder(pets, s3_store):
    s3_store.server.fail(operation="list", status=403, code="AccessDenied")
    with pytest.raises(_C.RemoteError, match="ImageFolder: s3://.*/pets.*AccessDenied") as raised:
        tdi.ImageFolder(pets[0])
    assert (raised.value.status, raised.value.code) == (403, "AccessDenied")


def test_an_image_that_is_gone_is_named(pets, s3_store):
    dataset = tdi.ImageFolder(pets[0])
    s3_store.server.remove(s3_store.object("pets/dog/x.jpeg"))
    with pytest.raises(tdi.NotFoundError, match="pets/dog/x.jpeg"):
        list(dataset)
    skipping = iter(dataset.with_options(tdi.Options(on_error="skip")))
    assert len(list(skipping)) == 6

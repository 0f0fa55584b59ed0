# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The object server's Hugging Face Hub, by hand, and by huggingface_hub where it is installed."""

import json
import re
from urllib.parse import urlsplit

import pytest
from http_client import Client
from object_server import TOKEN

FILE = "/datasets/u/r/resolve/main/d/x%20y"
TREE = "/api/datasets/u/r/tree/main"
KNOWN = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def hub(object_server):
    object_server.put_all({f"u/r/{name}": name.encode() for name in ("README.md", "d/e/f", "d/x y", "z")})
    return object_server


@pytest.fixture
def client(hub):
    client = Client(hub.url("hub"))
    yield client
    client.close()


def follow(location, **headers):
    parts = urlsplit(location)
    return Client(location).get(f"{parts.path}?{parts.query}", **headers)


def test_files_lie_behind_a_redirect_to_another_host(hub, client):
    status, headers, _ = client.get(FILE, Range="bytes=0-1", **KNOWN)
    assert (status, headers["X-Linked-Size"]) == (302, "5") and headers["X-Repo-Commit"]
    location = headers["Location"]
    assert urlsplit(location).netloc not in hub.url("hub")
    status, _, body = follow(location, Range="bytes=0-1")
    assert (status, body) == (206, b"d/")
    assert follow(location, **KNOWN)[0] == 400, "a token must not go to another host"
    assert follow(re.sub("Signature=.", "Signature=_", location))[0] == 403
    assert follow(location.replace("x%20y", "e/f"))[0] == 403
    assert [entry.operation for entry in hub.requests()][:2] == ["resolve", "read"]


def test_small_texts_lie_at_the_hub_itself(client):
    status, headers, _ = client.get("/datasets/u/r/resolve/main/README.md", **KNOWN)
    assert status == 307 and headers["Location"].startswith("/api/resolve-cache/datasets/u/r/")
    assert client.get(headers["Location"])[0] == 401
    status, headers, body = client.get(headers["Location"], Range="bytes=0-2", **KNOWN)
    assert (status, body) == (206, b"REA")
    entries = {entry["path"]: entry for entry in json.loads(client.get(TREE, **KNOWN)[2])}
    assert headers["ETag"] == f'"{entries["README.md"]["oid"]}"' and "lfs" not in entries["README.md"]
    headers = client.get(FILE, **KNOWN)[1]
    entry = json.loads(client.get(f"{TREE}/d", **KNOWN)[2])[1]
    assert headers["X-Linked-ETag"] == f'"{entry["lfs"]["oid"]}"' != follow(headers["Location"])[1]["ETag"]


def test_what_lies_at_an_address_stays(hub, client):
    location = client.get(FILE, **KNOWN)[1]["Location"]
    hub.put("u/r/d/x y", b"new")
    assert follow(location)[2] == b"d/x y"
    assert follow(client.get(FILE, **KNOWN)[1]["Location"])[2] == b"new"


def test_models_and_spaces_have_files_of_their_own(hub, client):
    hub.put("models/u/r/z", b"model")
    hub.put("spaces/u/r/z", b"space")
    for front, expected in (("", b"model"), ("/spaces", b"space"), ("/datasets", b"z")):
        assert follow(client.get(f"{front}/u/r/resolve/main/z", **KNOWN)[1]["Location"])[2] == expected
    assert [entry["path"] for entry in json.loads(client.get("/api/models/u/r/tree/main", **KNOWN)[2])] == ["z"]


def test_signed_addresses_expire(hub, client):
    hub.set_signed_lifetime(60)
    location = client.get(FILE, **KNOWN)[1]["Location"]
    assert follow(location)[0] == 200
    hub.set_clock(61)
    assert follow(location)[0] == 403
    assert follow(client.get(FILE, **KNOWN)[1]["Location"])[0] == 200


@pytest.mark.parametrize(
    "path, code",
    [
        ("/datasets/u/r/resolve/main/none", "EntryNotFound"),
        ("/datasets/u/r/resolve/v2/z", "RevisionNotFound"),
        ("/datasets/u/none/resolve/main/z", "RepoNotFound"),
        ("/api/datasets/u/r/tree/main/none", "EntryNotFound"),
    ],
)
def test_what_is_not_there_has_a_code(client, path, code):
    status, headers, _ = client.get(path, **KNOWN)
    assert (status, headers["X-Error-Code"]) == (404, code)


def test_tokens_are_asked_for(hub, client):
    assert client.get(FILE)[0] == client.get(TREE)[0] == 401
    hub.allow_anonymous()
    assert client.get(FILE)[0] == 302


def test_a_tree_has_pages_behind_links(client):
    found, path = [], f"{TREE}?recursive=true&limit=2"
    while path:
        _, headers, body = client.get(path, **KNOWN)
        found.append([(entry["type"], entry["path"]) for entry in json.loads(body)])
        link = re.fullmatch('<http://[^/]*(/.*)>; rel="next"', headers.get("Link", ""))
        path = link and link[1]
    assert found == [
        [("directory", "d"), ("directory", "d/e"), ("file", "README.md"), ("file", "d/e/f")],
        [("file", "d/x y"), ("file", "z")],
    ]
    entries = json.loads(client.get(TREE, **KNOWN)[2])
    assert [entry["path"] for entry in entries] == ["d", "README.md", "z"]
    assert [entry["path"] for entry in json.loads(client.get(f"{TREE}/d", **KNOWN)[2])] == ["d/e", "d/x y"]


def test_requests_above_the_rate_are_429_and_say_when_it_ends(hub, client):
    hub.limit_rate("resolvers", requests=2, seconds=100)
    answers = [client.get(FILE, **KNOWN) for _ in range(3)]
    assert [status for status, _, _ in answers] == [302, 302, 429]
    assert answers[0][1]["RateLimit"] in ('"resolvers";r=1;t=100', '"resolvers";r=1;t=101')
    assert re.fullmatch('"resolvers";r=0;t=(99|100)', answers[2][1]["RateLimit"])
    assert answers[2][1]["RateLimit-Policy"] == '"fixed window";"resolvers";q=2;w=100'
    assert client.get(TREE, **KNOWN)[0] == 200, "another bucket"
    hub.limit_rate("resolvers", requests=1, seconds=0.001)
    assert 302 in [client.get(FILE, **KNOWN)[0] for _ in range(3)]


def test_the_hubs_own_client_downloads_and_lists(hub, tmp_path):
    library = pytest.importorskip("huggingface_hub")
    api = library.HfApi(endpoint=hub.url("hub"), token=TOKEN)
    path = api.hf_hub_download("u/r", "d/x y", repo_type="dataset", cache_dir=tmp_path)
    with open(path, "rb") as file:
        assert file.read() == b"d/x y"
    path = api.hf_hub_download("u/r", "README.md", repo_type="dataset", cache_dir=tmp_path)
    with open(path, "rb") as file:
        assert file.read() == b"README.md"
    tree = list(api.list_repo_tree("u/r", recursive=True, repo_type="dataset"))
    assert [entry.path for entry in tree] == ["d", "d/e", "README.md", "d/e/f", "d/x y", "z"]
    with pytest.raises(library.errors.EntryNotFoundError):
        api.hf_hub_download("u/r", "none", repo_type="dataset", cache_dir=tmp_path)

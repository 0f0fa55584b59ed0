#!/usr/bin/env python3
# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Checks which modules of torch_distinput/ import which: `tools/check_imports.py [root of the source tree]`.

Four rules, each violation printed as `file:line: rule`; the script fails if there is one: a room imports only the rooms
of its line in ROOMS; no chain of imports leads from a module back to itself; no module uses an underscored name of
another one, nor an underscored member of an object that another one makes; a module that the API page does not name
begins with an underscore. Imports inside functions and under TYPE_CHECKING count. ARCHITECTURE.md describes the rooms.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from rules import cycles, report

PACKAGE = "torch_distinput"
BELOW_LOADER = ("base", "observe", "recognize", "ops", "datasets", "executors", "distribute")
EVERYWHERE = ("_C", "_build")  # the C++ module, and what the build writes

# A room is a folder without its subfolders; a module of the package's own folder stands for itself. Each line says what
# a room may import besides itself, from the bottom to the top: whole rooms, or single modules, of lines above it.
ROOMS = {
    "_native_part": (),
    "_library": ("_native_part",),
    "typing": (),
    "base": (),
    "storage": ("base",),
    "tables": ("base",),
    "observe": ("base",),
    "recognize": ("base", "tables"),
    "ops": ("base", "tables", "recognize", "typing"),
    "datasets": ("base", "storage", "tables", "observe", "recognize", "ops", "typing"),
    "testing": ("base", "ops", "datasets"),
    "executors": ("base", "observe"),
    "distribute": ("base", "observe", "ops", "datasets", "executors", "typing"),
    "preprocessing": ("base", "ops", "datasets", "distribute", "typing"),
    "compat": ("base", "datasets", "distribute"),
    # The bottom of the loader's room, on which its inner rooms stand: `_config` and `_observers`.
    "loader/orders": ("recognize", "datasets", "loader/_config"),
    "loader/state": ("observe", "recognize", "datasets", "typing", "loader/_config", "loader/orders"),
    "loader/workers": ("base", "recognize", "loader/_config", "loader/orders"),
    "loader/paths": (
        *BELOW_LOADER,
        "loader/_config",
        "loader/orders",
        "loader/state",
        "loader/workers",
    ),
    "loader/sharing": ("base", "distribute"),
    "loader/ranks": (
        *BELOW_LOADER,
        "loader/_config",
        "loader/_observers",
        "loader/orders",
        "loader/state",
        "loader/paths",
        "loader/sharing",
    ),
    "loader/members": (
        "base",
        "observe",
        "ops",
        "datasets",
        "distribute",
        "loader/_config",
        "loader/orders",
        "loader/state",
        "loader/paths",
        "loader/ranks",
    ),
    "loader/ledger": (
        "ops",
        "datasets",
        "distribute",
        "loader/_config",
        "loader/orders",
        "loader/state",
        "loader/paths",
        "loader/ranks",
    ),
    "loader": (
        "base",
        "observe",
        "ops",
        "datasets",
        "executors",
        "distribute",
        "typing",
        "loader/orders",
        "loader/state",
        "loader/workers",
        "loader/paths",
        "loader/ranks",
        "loader/members",
        "loader/ledger",
    ),
    "frameworks": ("base", "datasets", "distribute/_membership", "loader", "loader/orders", "loader/state"),
    "monitoring": ("observe", "loader"),
    "cli": ("base", "tables", "observe", "datasets", "distribute", "loader", "loader/state"),
    "__main__": ("cli",),
    "__init__": (
        "_library",
        "base",
        "observe",
        "ops",
        "datasets",
        "testing",
        "executors",
        "distribute",
        "preprocessing",
        "compat",
        "loader",
        "frameworks",
    ),
}

# Modules without an underscore: those that the API page names, and those that Python itself looks for.
PUBLIC = {
    "__init__",
    "__main__",
    "testing",
    "typing",
    "compat/v1",
    "frameworks/lightning",
    "frameworks/torchft",
    "frameworks/torchtitan",
    "frameworks/transformers",
    "monitoring/prometheus",
    "monitoring/tensorboard",
}

BY_NAME = ("getattr", "hasattr", "setattr", "delattr")

# Underscored members of others that this library needs, for want of public ones.
OF_OTHERS = {
    "torch.utils.data": {
        "_dataset_kind",
        "_index_queues",
        "_IterableDataset_len_called",
        "_MapDatasetFetcher",
        "_num_samples",
        "_pin_memory_thread",
        "_pin_memory_thread_done_event",
        "_remove_worker_pids",
        "_reset",
        "_send_idx",
        "_set_SIGCHLD_handler",
        "_shutdown",
        "_shutdown_workers",
        "_tasks_outstanding",
        "_worker_pids_set",
        "_worker_result_queue",
        "_workers",
        "_workers_done_event",
        "_workers_status",
    },
    "multiprocessing": {"_forkserver", "_preload_modules"},
    "torch": {"_forward_hooks", "_forward_pre_hooks", "_profiler_enabled"},
    "torch.distributed": {
        "_get_default_store",
        "_get_process_group_store",
        "_register_backend",
        "_set_default_backend",
    },
    "accelerate": {
        "_add_dataloader",
        "_dataloaders",
        "_gpu_gather",
        "_is_accelerate_prepared",
        "_remove_dataloader",
        "_shared_state",
        "_wrapped_by_torch_distinput",  # our mark on a function of theirs
    },
    "datasets": {"_column_requires_decoding", "_distributed", "_ex_iterable", "_indices"},
    "collections": {"_fields"},
}


def module_name(path: Path, package: Path) -> str:
    """`loader/ranks/_feed`; a folder's `__init__` has the folder's name, but for the package's own."""
    name = path.relative_to(package).with_suffix("").as_posix()
    return name.removesuffix("/__init__")


def room_of(module: str, rooms: set[str]) -> str:
    if module in rooms:
        return module
    folder = module.rpartition("/")[0]
    return folder or module


def imported(tree: ast.Module, modules: set[str]) -> Iterator[tuple[int, str, str | None]]:
    """The line, the module and the name (None for a whole module) of each import of the package's own."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name.startswith(f"{PACKAGE}."):
                    yield node.lineno, name.name.removeprefix(f"{PACKAGE}.").replace(".", "/"), None
        elif isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(f"{PACKAGE}."):
            place = str(node.module).removeprefix(PACKAGE).removeprefix(".").replace(".", "/")
            for name in node.names:
                whole = f"{place}/{name.name}".removeprefix("/")
                if whole in modules:
                    yield node.lineno, whole, None
                elif place:
                    yield node.lineno, place, name.name


def members(tree: ast.Module) -> set[str]:
    """The names that the classes and functions of a module give to members."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    found.add(part.name)
                elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                    found.add(part.target.id)
                elif isinstance(part, ast.Assign):
                    found |= {name.id for target in part.targets for name in ast.walk(target) if hasattr(name, "id")}
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_own(node.value):
            found.add(node.attr)
    return found


def is_own(value: ast.expr) -> bool:
    """Whether `value` is the object whose method this is."""
    if isinstance(value, ast.Call):
        value = value.func
        return isinstance(value, ast.Name) and value.id == "super"
    return isinstance(value, ast.Name) and value.id in ("self", "cls")


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def foreign_members(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The line and the name of each underscored member that is not the module's own."""
    allowed = members(tree).union(*OF_OTHERS.values())
    for node in ast.walk(tree):
        name = foreign_name(node)
        if name is not None and is_private(name) and name not in allowed:
            yield node.lineno, name


def foreign_name(node: ast.AST) -> str | None:
    """The member of another object that `node` names, also as a text for `getattr` and its like."""
    if isinstance(node, ast.Attribute):
        return None if is_own(node.value) else node.attr
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in BY_NAME:
        return None
    named = isinstance(node.args[1], ast.Constant) and not is_own(node.args[0])
    return str(node.args[1].value) if named else None


def violations(root: Path) -> tuple[int, list[str]]:
    """The number of modules read, and one line per violation."""
    package = root / PACKAGE
    paths = {module_name(path, package): path for path in sorted(package.rglob("*.py")) if path.name != "_build.py"}
    found: list[str] = []
    edges: dict[str, set[str]] = {}
    folders = {room for room in ROOMS if (package / room).is_dir()}
    for module, path in paths.items():
        place = path.relative_to(root).as_posix()
        room = room_of(module, folders)
        if room not in ROOMS:
            found.append(f"{place}:1: {room} is not a room; the rooms are {', '.join(ROOMS)}")
            continue
        if not is_private(module.rpartition("/")[2]) and path.name != "__init__.py" and module not in PUBLIC:
            found.append(f"{place}:1: a module that is not public begins with an underscore")
        tree = ast.parse(path.read_text())
        for line, other, name in imported(tree, set(paths)):
            edges.setdefault(module, set()).add(other)
            allowed = (room, *ROOMS[room])
            if room_of(other, folders) not in allowed and other not in allowed and other not in EVERYWHERE:
                found.append(f"{place}:{line}: imports {other}, but {room} may import only {', '.join(allowed)}")
            if name is not None and is_private(name):
                found.append(f"{place}:{line}: uses {name}, which is private to {other}")
        found += [f"{place}:{line}: uses {name}, which no class here has" for line, name in foreign_members(tree)]
    for group in cycles(edges):
        found.append(f"{PACKAGE}/{group[0]}.py:1: imports itself by way of {', '.join(group[1:])}")
    return len(paths), found


if __name__ == "__main__":
    sys.exit(report("import rules", violations))

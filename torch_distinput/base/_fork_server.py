# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""multiprocessing's server of forks, from which the method "forkserver", Python 3.14's default, starts processes."""

from multiprocessing import forkserver

_PRELOADED = "torch_distinput"


def start_server() -> None:
    """Starts the server where it does not run yet, with this library loaded: to import it takes each process seconds
    otherwise. The server imports while the caller goes on. What the program lets it load stays."""
    modules = forkserver._forkserver._preload_modules  # type: ignore[attr-defined]
    if _PRELOADED not in modules:
        forkserver.set_forkserver_preload([*modules, _PRELOADED])
    forkserver.ensure_running()

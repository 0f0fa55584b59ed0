# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`python -m torch_distinput`: facts that build scripts ask for, and commands that look at data and machines."""

from torch_distinput.cli import main

if __name__ == "__main__":
    main()

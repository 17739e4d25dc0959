"""The ``litepack`` command, which is in this package: ``python -m litepack``."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NoReturn

from litepack._library import command_path


def main() -> NoReturn:
    """Becomes the command. On Windows a program cannot: there it waits for it."""
    if sys.platform == "win32":
        sys.exit(subprocess.call([command_path(), *sys.argv[1:]]))
    os.execv(command_path(), ["litepack", *sys.argv[1:]])


if __name__ == "__main__":
    main()

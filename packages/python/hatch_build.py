"""Puts binaries into the wheel, those that $LITEPACK_BINARIES lists, and names the systems on which they run."""

import os
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Binaries(BuildHookInterface):
    def initialize(self, version, build_data):
        if version == "editable":
            raise RuntimeError("an editable installation has no binaries: install the wheel that `make packages` makes")
        build_data["pure_python"] = False
        # No code of it depends on the version of Python.
        build_data["tag"] = f"py3-none-{os.environ['LITEPACK_WHEEL_PLATFORM']}"
        for file in map(Path, os.environ["LITEPACK_BINARIES"].splitlines()):
            build_data["force_include"][str(file)] = f"litepack/binaries/{file.name}"

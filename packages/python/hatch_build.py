"""Puts the binaries of $LITEPACK_DIST into the wheel, and names the systems on which they run."""

import os
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BINARIES = ("liblitepack.so", "litepackdefault.so", "litepackconfigure.so", "litepack")


class Binaries(BuildHookInterface):
    def initialize(self, version, build_data):
        if version == "editable":
            raise RuntimeError("an editable installation has no binaries: install the wheel that `make packages` makes")
        folder = Path(os.environ["LITEPACK_BINARIES"])
        build_data["pure_python"] = False
        # No code of it depends on the version of Python.
        build_data["tag"] = f"py3-none-{os.environ['LITEPACK_WHEEL_PLATFORM']}"
        for name in BINARIES:
            build_data["force_include"][str(folder / name)] = f"litepack/binaries/{name}"

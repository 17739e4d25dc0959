"""Each platform gets the wheel that is for it, and the package asks for files that this wheel has."""

from __future__ import annotations

import os
import pathlib
import subprocess
import zipfile

import pytest

from litepack import _library as library

WHEELS = pathlib.Path(os.environ["LITEPACK_WHEELS"])
# What pip says that it is on, as Python calls the system, and the wheel.
PLATFORMS = [
    ("manylinux_2_17_x86_64", "linux", "manylinux_2_17_x86_64"),
    ("manylinux_2_17_aarch64", "linux", "manylinux_2_17_aarch64"),
    ("musllinux_1_2_x86_64", "linux", "musllinux_1_2_x86_64"),
    ("musllinux_1_2_aarch64", "linux", "musllinux_1_2_aarch64"),
    ("win_amd64", "win32", "win_amd64"),
    ("macosx_14_0_arm64", "darwin", "macosx_11_0_arm64"),
    ("macosx_13_0_x86_64", "darwin", "macosx_10_14_x86_64"),
]


@pytest.mark.parametrize(("said", "system", "tag"), PLATFORMS)
def test_the_wheel_for_a_platform(said, system, tag, tmp_path, monkeypatch):
    wheels = list(WHEELS.glob(f"litepack-*-py3-none-{tag}.whl"))
    if not wheels:
        pytest.skip("not built")
    command = [os.environ["LITEPACK_PIP"], "download", "--quiet", "--no-index", "--find-links", WHEELS, "--no-deps"]
    subprocess.run([*command, "--only-binary", ":all:", "--platform", said, "-d", tmp_path, "litepack"], check=True)
    assert [file.name for file in tmp_path.iterdir()] == [wheels[0].name]

    monkeypatch.setattr("sys.platform", system)
    asked = {library.loadable_path(), library.loadable_path(default=True), library.command_path()}
    asked.add(str(library.BINARIES / library._file_name("litepackconfigure")))
    with zipfile.ZipFile(wheels[0]) as wheel:
        prefix = "litepack/binaries/"
        there = {name.removeprefix(prefix) for name in wheel.namelist() if name.startswith(prefix)}
    assert {pathlib.Path(path).name for path in asked} == there


def test_a_platform_without_a_wheel_gets_none(tmp_path):
    command = [os.environ["LITEPACK_PIP"], "download", "--quiet", "--no-index", "--find-links", WHEELS, "--no-deps"]
    command += ["--only-binary", ":all:", "--platform", "manylinux_2_12_x86_64", "-d", tmp_path, "litepack"]
    assert subprocess.run(command, capture_output=True).returncode != 0

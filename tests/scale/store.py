"""An object store for the demo that checks signatures: Versity's S3 gateway, built with Go once and kept in WORK/tools."""

import contextlib
import os
import pathlib
import secrets
import shutil
import socket
import subprocess
import sys
import time

MODULE = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
BUCKET, REGION = "shards", "eu-north-1"


def program(work):
    """The gateway; None, with a word on stderr, if it cannot be had."""
    tools = work / "tools"
    built = tools / "versitygw"
    if built.exists():
        return built
    if shutil.which("go") is None:
        print("no object store: building one needs Go", file=sys.stderr)
        return None
    print(f"building {MODULE}, which takes minutes the first time", file=sys.stderr)
    done = subprocess.run(["go", "install", MODULE], env={**os.environ, "GOBIN": str(tools)}, capture_output=True, text=True)
    if done.returncode:
        print(f"no object store: {done.stderr[-500:]}", file=sys.stderr)
        return None
    return built


@contextlib.contextmanager
def running(program, work, files):
    """A store with these files in its bucket: its port, and the variables by which AWS tools get in."""
    import s3fs

    shutil.rmtree(work / "store", ignore_errors=True)
    for part in ("meta", "data"):
        (work / "store" / part).mkdir(parents=True)
    (work / "store" / "data" / BUCKET).mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    key, secret = "AKIDLITEPACKDEMO", secrets.token_hex(20)
    store = subprocess.Popen(
        [program, "--port", f"127.0.0.1:{port}", "--quiet", "--region", REGION, "--keep-alive",
         "posix", "--sidecar", work / "store" / "meta", work / "store" / "data"],
        env={"ROOT_ACCESS_KEY": key, "ROOT_SECRET_KEY": secret}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 300
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            if time.monotonic() > until or store.poll() is not None:
                sys.exit("the object store did not start")
            time.sleep(0.05)
        filesystem = s3fs.S3FileSystem(key=key, secret=secret, endpoint_url=f"http://127.0.0.1:{port}",
                                       client_kwargs={"region_name": REGION})
        for file in map(pathlib.Path, files):
            filesystem.put_file(str(file), f"{BUCKET}/{file.name}")
        yield port, {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret, "AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION}
    finally:
        store.terminate()
        store.wait()
        shutil.rmtree(work / "store", ignore_errors=True)

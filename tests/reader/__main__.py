#!/usr/bin/env python3
"""A second reader of packed files, logs, journals and archives, written from docs/format.md alone. For tests only.

It shares nothing with what wrote the files, but for zstd, which is of others. It compares every checksum, signature and
tag. It is slow.

usage: tests/reader FILE [--key DIGITS | --passphrase TEXT | --derived DIGITS] [--alone] [--frames] > DATABASE
  --derived    what Argon2id made of the passphrase, where no library here has Argon2id
  --alone      without the log or journal beside it
  --frames     of an encrypted archive, its frames of zstd as they are
"""

import argparse
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import archive  # noqa: E402
from notes import Damaged, Refused, WrongKey  # noqa: E402
from reading import content, database  # noqa: E402
from sealing import NoArgon2, Secret  # noqa: E402


def main():
    options = argparse.ArgumentParser(usage=__doc__)
    options.add_argument("file")
    options.add_argument("--key", type=bytes.fromhex)
    options.add_argument("--passphrase", type=str.encode)
    options.add_argument("--derived", type=bytes.fromhex)
    options.add_argument("--alone", action="store_true")
    options.add_argument("--frames", action="store_true")
    given = options.parse_args()
    has_key = any(key is not None for key in (given.key, given.passphrase, given.derived))
    secret = Secret(given.key, given.passphrase, given.derived) if has_key else None
    try:
        if given.frames:
            found = b"".join(archive.sealed_frames(content(given.file), secret))
        else:
            found = database(given.file, secret, given.alone)
    except Refused as error:
        sys.exit(f"{given.file} needs a later version: {error}")
    except (Damaged, WrongKey, NoArgon2) as error:
        sys.exit(f"{given.file}: {error}")
    sys.stdout.buffer.write(found)


if __name__ == "__main__":
    main()

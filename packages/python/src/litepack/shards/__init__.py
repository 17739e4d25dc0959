"""Many databases read as one table, by any engine: which files, which parts of them, and a part as Arrow.

    from litepack import shards

    scan = shards.scan("logs/2026-*.db", table="log", columns=["at", "status", "_file"])
    scan.schema                         # a pyarrow.Schema
    for part in scan.parts:             # by an engine: each in a process of its own, as both can be pickled
        for batch in scan.read(part): ...
    scan.reader()                       # on this machine, all of it: a pyarrow.RecordBatchReader

What it promises: a part gives all of its rows once, or an error. A file that is replaced between planning and the end of
the reading is an error (:class:`Replaced`), never rows of both.

| file | what it knows |
|---|---|
| ``_find`` | paths, patterns and URLs; which version of a file it is |
| ``_columns`` | from SQLite's types to Arrow's; comparing files with each other |
| ``_split`` | ranges of rowids with about as many rows |
| ``_filters`` | conditions of engines as SQL, and as what a file can have |
| ``_catalog`` | files that need not be opened |
| ``_read`` | one part to batches; retries, skipping |
| ``_scan`` | all of it together |
| ``_write`` | a new packed file from batches, in place only when it is whole |

Needs ``pip install litepack[arrow]``; patterns on object stores need s3fs.
"""

try:
    import pyarrow  # noqa: F401
except ImportError as error:
    raise ImportError(f"{error}: pip install 'litepack[arrow]'") from error

from litepack.shards._errors import Damaged, Mismatch, Replaced, ShardError
from litepack.shards._filters import Filter
from litepack.shards._find import Shard, find
from litepack.shards._read import Part, skipped
from litepack.shards._scan import SPLIT_BYTES, Scan, scan
from litepack.shards._write import begin, commit, discard, write

__all__ = [
    "SPLIT_BYTES",
    "Damaged",
    "Filter",
    "Mismatch",
    "Part",
    "Replaced",
    "Scan",
    "Shard",
    "ShardError",
    "begin",
    "commit",
    "discard",
    "find",
    "scan",
    "skipped",
    "write",
]

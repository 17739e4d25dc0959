"""Spark 4: ``spark.read.format("litepack")`` and ``df.write.format("litepack")``.

    spark.read.format("litepack").option("table", "log").load("logs/2026-*.db")
    df.write.format("litepack").mode("append").save("folder")

Conditions are pushed into the files if ``spark.sql.python.filterPushdown.enabled`` is true (Spark 4.1 and later), and
Spark checks every one again, so pushing saves work and decides nothing. But Spark up to 4.3 keeps what was pushed for
*one* query with the DataFrame that ``load`` returned, and uses it for all other queries on that DataFrame: they lose
rows. So nothing is pushed unless the option ``pushFilters`` is ``true``, which says that each ``load`` is used for one
query.

Spark finds this by itself where the package is installed; ``spark.dataSource.register(litepack.spark.Litepack)`` does it
by hand.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

try:
    import pyarrow as pa
    from pyspark.sql import datasource
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceArrowWriter,
        DataSourceReader,
        InputPartition,
        WriterCommitMessage,
    )
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import DecimalType, StructType
except ImportError as error:
    raise ImportError(f"{error}: pip install 'litepack[spark]'") from error

from litepack import shards
from litepack.shards import Filter, Part, Scan
from litepack.shards._columns import folded
from litepack.shards._write import Mode

READ_OPTIONS = (
    "path", "paths", "table", "query", "columns", "mergeschema", "splitbytes", "errors", "skipped", "batchrows", "pushfilters",
    "catalog", "catalogtrusted", "groupbytes",
)
WRITE_OPTIONS = ("path", "table", "indexes")


class Litepack(DataSource):
    """The data source. Options of reading: ``table`` or ``query``; ``columns`` (separated by commas; ``_file`` is the
    file's name), ``mergeSchema``, ``splitBytes``, ``errors`` (``raise``, or ``skip`` with ``skipped``, a folder),
    ``batchRows``, ``pushFilters``, ``catalog``, ``catalogTrusted``, ``groupBytes``, and ``paths``, a JSON list. Of
    writing: ``table``, ``indexes`` (``at; user, at``)."""

    @classmethod
    def name(cls) -> str:
        return "litepack"

    def schema(self) -> StructType:
        return from_arrow_schema(self._scan(None).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        scan = self._scan(arrow_schema(schema))
        # Spark always gives a schema, mostly the one that it got: it says that columns were chosen only if some are missing.
        all_names = {folded(one.name) for one in scan.reading.columns}
        if "columns" not in self._options(READ_OPTIONS) and all_names <= set(map(folded, schema.names)):
            scan = replace(scan, reading=replace(scan.reading, all_columns=True))
        group_bytes = _number("groupBytes", self._options(READ_OPTIONS).get("groupbytes"), scan.split_bytes)
        return PushingReader(scan, group_bytes) if self._pushes() else Reader(scan, group_bytes)

    def _pushes(self) -> bool:
        if not _boolean("pushFilters", self._options(READ_OPTIONS).get("pushfilters", "false")):
            return False
        # Unless pushing is switched on, Spark refuses a reader that takes filters; only its caller tells which it is.
        return any("data_source_pushdown_filters" in frame.filename for frame in inspect.stack(0))

    def writer(self, schema: StructType, overwrite: bool) -> Writer:
        options = self._options(WRITE_OPTIONS)
        if "path" not in options:
            raise ValueError("save() needs a folder")
        indexes = [[name.strip() for name in one.split(",")] for one in options.get("indexes", "").split(";") if one.strip()]
        mode: Mode = "overwrite" if overwrite else "append"
        return Writer(options["path"], mode, options.get("table", "data"), indexes)

    def _options(self, known: Sequence[str]) -> dict[str, str]:
        options = {str(key).lower(): str(value) for key, value in self.options.items()}
        # A misspelt one would change what is read without a word.
        if unknown := sorted(set(options) - set(known)):
            raise ValueError(f"no option {unknown[0]!r}; there are {', '.join(known)}")
        return options

    def _scan(self, schema: pa.Schema | None) -> Scan:
        options = self._options(READ_OPTIONS)
        if "path" in options and "paths" in options or not {"path", "paths", "catalog"} & options.keys():
            raise ValueError("load() needs one path, pattern or URL; several are the option paths, a JSON list, or a catalog")
        paths = json.loads(options["paths"]) if "paths" in options else options.get("path")
        columns = options.get("columns")
        return shards.scan(
            paths,
            table=options.get("table"),
            query=options.get("query"),
            columns=None if columns is None or schema is not None else [name.strip() for name in columns.split(",")],
            schema=schema,
            merge_schema=_boolean("mergeSchema", options.get("mergeschema", "false")),
            split_bytes=_number("splitBytes", options.get("splitbytes"), shards.SPLIT_BYTES),
            errors=options.get("errors", "raise"),  # type: ignore[arg-type]
            skipped=options.get("skipped"),
            batch_rows=_number("batchRows", options.get("batchrows"), 65536),
            catalog=options.get("catalog"),
            catalog_trusted=_boolean("catalogTrusted", options.get("catalogtrusted", "false")),
        )


_TYPES = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def arrow_schema(schema: StructType) -> pa.Schema:
    """A schema of Spark's as Arrow's. (Spark's own function has other arguments in each version.)"""
    fields = []
    for field in schema.fields:
        kind = field.dataType
        name = kind.simpleString()
        if not isinstance(kind, DecimalType) and name not in _TYPES:
            raise ValueError(f"column {field.name}: no column of SQLite can be read as {name}")
        wanted = pa.decimal128(kind.precision, kind.scale) if isinstance(kind, DecimalType) else _TYPES[name]
        fields.append(pa.field(field.name, wanted))
    return pa.schema(fields)


def _boolean(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{name} is true or false, not {text!r}")
    return text.lower() == "true"


def _number(name: str, text: str | None, default: int) -> int:
    if text is None:
        return default
    if not text.strip().isdecimal():
        raise ValueError(f"{name} is a number, not {text!r}")
    return int(text)


@dataclass
class PartsPartition(InputPartition):
    """A partition of Spark's: parts that are read one after the other."""

    parts: list[Part]

    def __init__(self, parts: list[Part]) -> None:
        super().__init__(parts)
        self.parts = parts


class Reader(DataSourceReader):
    """Reads the parts of a scan, small ones together in a task."""

    def __init__(self, scan: Scan, group_bytes: int) -> None:
        self.scan, self.group_bytes = scan, group_bytes

    def partitions(self) -> Sequence[InputPartition]:
        return [PartsPartition(parts) for parts in self.scan.grouped(self.group_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, PartsPartition)
        for part in partition.parts:
            yield from self.scan.read(part)


class PushingReader(Reader):
    """Takes Spark's conditions along to the files."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        self.scan = self.scan.where([made for made in map(translated, filters) if made is not None])
        # All of them, so that Spark checks them again.
        return filters


_OPERATORS = {
    "EqualTo": "=",
    "EqualNullSafe": "is",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "In": "in",
    "StringStartsWith": "startswith",
    "StringContains": "contains",
}


def translated(condition: Any) -> Filter | None:
    """A condition of Spark's as ours; None for what is not pushed."""
    negated = isinstance(condition, datasource.Not)
    if negated:
        condition = condition.child
    attribute: tuple[str, ...] = getattr(condition, "attribute", ())
    if len(attribute) != 1:
        return None
    kind = type(condition).__name__
    if kind in ("IsNull", "IsNotNull"):
        return Filter(attribute[0], "null", None, negated != (kind == "IsNotNull"))
    if kind not in _OPERATORS:
        return None
    value = tuple(condition.value) if kind == "In" else condition.value
    return Filter(attribute[0], _OPERATORS[kind], value, negated)


@dataclass
class Written(WriterCommitMessage):
    """The file that a task wrote; None if it had no row."""

    name: str | None


class Writer(DataSourceArrowWriter):
    """Writes a packed file for each partition. Spark calls ``commit`` or ``abort`` on the driver."""

    def __init__(self, folder: str, mode: Mode, table: str, indexes: list[list[str]]) -> None:
        self.folder, self.mode, self.table, self.indexes = folder, mode, table, indexes
        self.job = shards.begin(folder, mode)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        from pyspark import TaskContext

        context = TaskContext.get()
        number = None if context is None else context.partitionId()
        return Written(
            shards.write(self.folder, self.job, iterator, table=self.table, indexes=self.indexes, number=number)
        )

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        shards.commit(self.folder, self.job, [m.name for m in messages if isinstance(m, Written)], self.mode)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        shards.discard(self.folder, self.job)

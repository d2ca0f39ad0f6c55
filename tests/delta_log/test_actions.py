"""Actions as JSON lines, and columns as JSON text, both directions; lines that are none end in one error."""

from __future__ import annotations

import json
import random
from datetime import datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailrace.delta_log.actions import (
    Action,
    AddFile,
    AppTransaction,
    CommitInfo,
    DataFile,
    DomainMetadata,
    RemoveFile,
    TableMetadata,
    TableProtocol,
    read_actions,
    write_actions,
)
from tailrace.delta_log.checkpoint import read_checkpoint, read_last_checkpoint, read_tombstones, write_checkpoint
from tailrace.delta_log.deletion_vector import DeletionVector
from tailrace.delta_log.log_files import commit_name, log_files
from tailrace.delta_log.table_features import check_readable, check_writable, protocol_for, with_features
from tailrace.delta_log.table_schema import format_schema, parse_schema
from tailrace.delta_log.table_state import Replay
from tailrace.errors import CorruptFile, UnsupportedFile, UsageError

VECTOR = DeletionVector("u", "_dv" + "0" * 20, 34, 2, 1)
SCHEMA = pa.schema({"id": pa.int64(), "at": pa.timestamp("us")})
FILE = DataFile(
    "a b/é%+#?=&;~.parquet", 12, 34, '{"numRecords":5}', VECTOR, {"p": "x y", "q": None}, {"t": "1"}, {"baseRowId": 7, "clusteringProvider": "liquid"}
)  # fmt: skip
ACTIONS: list[Action] = [
    CommitInfo({"timestamp": 5, "operation": "WRITE", "nested": {"é": [1, None]}}),
    TableProtocol(3, 7, frozenset({"deletionVectors"}), frozenset({"deletionVectors", "appendOnly"})),
    TableMetadata("id", format_schema(SCHEMA), "name", None, ("p",), {"delta.x": "y"}, 9),
    AddFile(FILE),
    AddFile(DataFile("plain", 1, 2), data_change=False),
    RemoveFile.of(FILE, 99),
    RemoveFile("old", None, data_change=False),
    AppTransaction("app", 2**62, 3),
    AppTransaction("other", -1),
    DomainMetadata("d", "{}", True),
]


def test_actions_come_back() -> None:
    data = write_actions(ACTIONS)
    assert read_actions(data, "f") == ACTIONS
    assert read_actions(data.replace(b"\n", b"\r\n\n"), "f") == ACTIONS
    add = json.loads(data.splitlines()[3])["add"]
    assert add["path"] == "a%20b/%C3%A9%25+%23%3F=&;~.parquet"  # RFC 2396
    assert add["deletionVector"]["offset"] == 1


def test_what_is_unknown_is_passed_over() -> None:
    lines = '{"cdc":{"path":"x","size":1}}\n' + add_line(modificationTime=2, new={}) + '\n{"z":1}'
    assert read_actions(lines.encode(), "f") == [AddFile(DataFile("a", 1, 2))]


def add_line(**fields: object) -> str:
    return json.dumps({"add": {"path": "a", "size": 1, "modificationTime": 1, "dataChange": True, **fields}})


VECTOR_JSON = {"storageType": "u", "pathOrInlineDv": "", "sizeInBytes": 1, "cardinality": 1}


@pytest.mark.parametrize(
    "line",
    [
        "{", "[]", "1", '"x"', "null", '{"add":1}', '{"add":{}}', '{"add":{"path":1}}', add_line(path="%ff"), add_line(size="1"), add_line(size=True),
        add_line(deletionVector={**VECTOR_JSON, "storageType": "x"}), add_line(deletionVector={**VECTOR_JSON, "sizeInBytes": -1}),
        add_line(deletionVector={**VECTOR_JSON, "offset": 1.5}), add_line(deletionVector={}), add_line(stats={"a": 1}), add_line(tags=[1]),
        '{"protocol":{"minReaderVersion":"3"}}', '{"remove":{"path":"a","dataChange":true,"size":[]}}', "[" * 100_000,
        '{"metaData":{"id":"i","format":{"provider":"orc"},"schemaString":"{}","partitionColumns":[]}}',
    ],
)  # fmt: skip
def test_lines_that_are_no_actions(line: str) -> None:
    with pytest.raises(CorruptFile, match="invalid file") as caught:
        read_actions(b'{"txn":{"appId":"a","version":1}}\n' + line.encode(), commit_name(3))
    assert caught.value.detail.startswith("Line 2 is no action")
    assert caught.value.file == commit_name(3)


def test_damaged_commits_are_other_actions_or_one_error() -> None:
    data = write_actions(ACTIONS)
    for seed in range(3000):
        random.seed(seed)
        damaged = bytearray(data)
        damaged[random.randrange(len(data))] = random.randrange(256)
        try:
            replay = Replay.of()
            replay.apply(read_actions(bytes(damaged), "f"))
            replay.state("f")
        except (CorruptFile, UnsupportedFile):
            pass


def test_a_checkpoint_has_the_state_and_its_tombstones() -> None:
    replay = Replay.of()
    replay.apply([*ACTIONS[:3], ACTIONS[3], ACTIONS[4], *ACTIONS[7:9], DomainMetadata("e", "{}")])
    state = replay.state("f")
    tombstones = [RemoveFile.of(DataFile("gone", 3, 4, deletion_vector=VECTOR), 99), RemoveFile("old", 5)]
    data, count = write_checkpoint(state, tombstones)
    assert count == 2 + 2 + 2 + 1 + 2
    again = Replay.of()
    actions, sidecars = read_checkpoint(data, "c.parquet")
    again.apply(actions)
    assert again.state("c") == state
    assert sidecars == []
    assert read_tombstones(data, "c.parquet") == tombstones
    for wrong in (b"", b"PAR1", data[:-5], data[: len(data) // 2] + data[-100:]):
        with pytest.raises(CorruptFile):
            read_checkpoint(wrong, "c.parquet")


def test_statistics_that_a_checkpoint_has_as_structs() -> None:
    """As writers leave them with `delta.checkpoint.writeStatsAsStruct`, and without the text."""
    kinds = {
        "n": pa.int64(), "d": pa.decimal128(38, 10), "f": pa.float64(), "day": pa.date32(), "at": pa.timestamp("us", "UTC"),
        "local": pa.timestamp("us"),
        "nan": pa.float64(), "none": pa.string(), "s": pa.struct({"t": pa.string()}),
    }  # fmt: skip
    values = {
        "n": 2**62,
        "d": Decimal("1234567890123456789012345678.0000000001"),
        "f": 0.1,
        "day": 0,
        "at": 1,
        "local": -1,
        "nan": float("nan"),
        "none": None,
    }
    parsed = pa.struct({"numRecords": pa.int64(), "minValues": pa.struct(kinds), "tightBounds": pa.bool_()})
    add = pa.struct(
        {
            "path": pa.string(),
            "size": pa.int64(),
            "modificationTime": pa.int64(),
            "dataChange": pa.bool_(),
            "stats_parsed": parsed,
        }
    )
    said = {"numRecords": 3, "minValues": {**values, "s": {"t": "é"}}, "tightBounds": False}
    row = {"path": "a%20b", "size": 1, "modificationTime": 2, "dataChange": False, "stats_parsed": said}
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"add": pa.array([row, None], add)}), sink)
    ((action,), _) = read_checkpoint(sink.getvalue().to_pybytes(), "c.parquet")
    assert isinstance(action, AddFile)
    assert action.file.path == "a b"
    assert action.file.statistics == (
        '{"numRecords":3,"minValues":{"n":4611686018427387904,"d":1234567890123456789012345678.0000000001,"f":0.1,"day":"1970-01-01",'
        '"at":"1970-01-01T00:00:00.000001Z","local":"1969-12-31T23:59:59.999999","s":{"t":"é"}},"tightBounds":false}'
    )


def test_timestamps_of_96_bits_in_statistics() -> None:
    """As Spark writes them: without a time zone, and far beyond what nanoseconds hold."""
    last = pa.array([{"numRecords": 1, "maxValues": {"at": datetime(9999, 12, 31, 23, 59, 59, 999000)}}])
    add = pa.StructArray.from_arrays(
        [pa.array(["a"]), pa.array([1]), pa.array([2]), pa.array([False]), last],
        ["path", "size", "modificationTime", "dataChange", "stats_parsed"],
    )
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"add": add}), sink, use_deprecated_int96_timestamps=True)
    ((action,), _) = read_checkpoint(sink.getvalue().to_pybytes(), "c.parquet")
    assert isinstance(action, AddFile)
    assert action.file.statistics == '{"numRecords":1,"maxValues":{"at":"9999-12-31T23:59:59.999000"}}'


def test_domains_that_are_removed() -> None:
    replay = Replay.of()
    replay.apply([*ACTIONS[1:3], DomainMetadata("a", "1"), DomainMetadata("b", "2")])
    before = replay.state("f")
    replay = Replay.of(before)
    replay.apply([DomainMetadata("a", "1", True)])
    assert replay.state("g", before).domains == {"b": DomainMetadata("b", "2")}
    assert set(before.domains) == {"a", "b"}


def test_names_of_the_log() -> None:
    part = "_delta_log/00000000000000000007.checkpoint.000000000{}.0000000002.parquet"
    whole = "_delta_log/00000000000000000004.checkpoint.parquet"
    v2 = "_delta_log/00000000000000000005.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    names = [
        part.format(1), whole, v2, "_delta_log/00000000000000000007.json", "_delta_log/00000000000000000004.crc", "_delta_log/_last_checkpoint",
        "_delta_log/00000000000000000001.00000000000000000003.compacted.json", "_delta_log/0000000000000000007.json",
        "_delta_log/x/00000000000000000009.json",
    ]  # fmt: skip
    files = log_files((name, "tag") for name in names)
    assert files.commits == {7: "tag"}
    assert [each.version for each in files.checkpoints] == [4, 5]  # one part of two is none
    assert files.newest_checkpoint(4) == (4, (whole,))
    assert files.newest_checkpoint(3) is None
    files = log_files((name, "tag") for name in [*names, part.format(2)])
    assert files.newest_checkpoint(None) == (7, (part.format(1), part.format(2)))


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"version":"1"}', b'{"version":-1}', b"null", b"\xff"])
def test_a_last_checkpoint_that_says_nothing(data: bytes) -> None:
    assert read_last_checkpoint(data) is None


TYPES = [
    pa.int64(), pa.int32(), pa.int16(), pa.int8(), pa.float32(), pa.float64(), pa.decimal128(38, 38), pa.decimal128(1, 0), pa.string(), pa.binary(),
    pa.bool_(), pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.list_(pa.field("element", pa.int64(), False)),
    pa.struct([pa.field("a b", pa.string(), False, {"comment": "é"}), pa.field("l", pa.list_(pa.field("element", pa.string())))]),
    pa.map_(pa.string(), pa.field("value", pa.list_(pa.field("element", pa.int32())), False)),
]  # fmt: skip


def test_schemas_come_back() -> None:
    fields = [
        pa.field(f"c {number}", kind, bool(number % 2), {"comment": "x", "json:delta.id": "7"} if number % 3 else None)
        for number, kind in enumerate(TYPES)
    ]
    schema = pa.schema(fields)
    text = format_schema(schema)
    assert parse_schema(text).equals(schema, check_metadata=True)
    assert json.loads(text)["fields"][1]["metadata"] == {"comment": "x", "delta.id": 7}


@pytest.mark.parametrize(
    "kind",
    [
        pa.timestamp("ns"),
        pa.timestamp("us", "Europe/Berlin"),
        pa.uint64(),
        pa.decimal256(50, 2),
        pa.decimal128(5, -2),
        pa.time64("us"),
        pa.null(),
    ],
)
def test_types_that_delta_does_not_have(kind: pa.DataType) -> None:
    with pytest.raises(UsageError, match="which Delta does not have"):
        format_schema(pa.schema({"c": kind}))


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"type":"struct"}', '{"type":"array"}', '{"type":"struct","fields":[{"name":"a"}]}', "[" * 100_000]
)
def test_texts_that_are_no_schema(text: str) -> None:
    with pytest.raises(CorruptFile):
        parse_schema(text)


def test_types_that_we_do_not_read() -> None:
    with pytest.raises(UnsupportedFile, match='column of type "variant"'):
        parse_schema('{"type":"struct","fields":[{"name":"v","type":"variant","nullable":true,"metadata":{}}]}')


def metadata_with(**settings: str) -> TableMetadata:
    return TableMetadata("id", format_schema(SCHEMA), configuration={f"delta.{name}": value for name, value in settings.items()})


@pytest.mark.parametrize(
    ("protocol", "settings", "feature"),
    [
        (TableProtocol(4, 7), {}, "version 4 of the protocol for readers"),
        (TableProtocol(3, 7, frozenset({"catalogManaged"}), frozenset({"catalogManaged"})), {}, 'feature "catalogManaged"'),
        (TableProtocol(2, 5), {"columnMapping.mode": "name"}, 'feature "columnMapping"'),
    ],
)
def test_features_that_readers_must_know(protocol: TableProtocol, settings: dict[str, str], feature: str) -> None:
    metadata = TableMetadata("id", "", configuration={f"delta.{name}": value for name, value in settings.items()})
    with pytest.raises(UnsupportedFile, match="cannot read Delta table t") as caught:
        check_readable(protocol, metadata, SCHEMA, "t")
    assert caught.value.detail == f"It needs {feature}, which is not supported."


@pytest.mark.parametrize(
    ("protocol", "settings", "feature"),
    [
        (TableProtocol(1, 8), {}, "version 8 of the protocol for writers"),
        (TableProtocol(1, 2), {"delta.appendOnly": "true"}, 'feature "appendOnly"'),
        (TableProtocol(1, 3), {"delta.constraints.c": "a > 1"}, 'feature "checkConstraints"'),
        (TableProtocol(1, 4), {"delta.enableChangeDataFeed": "true"}, 'feature "changeDataFeed"'),
        (TableProtocol(1, 7, None, frozenset({"rowTracking"})), {}, 'feature "rowTracking"'),
        (
            TableProtocol(1, 7, None, frozenset({"inCommitTimestamp"})),
            {"delta.enableInCommitTimestamps": "true"},
            'feature "inCommitTimestamp"',
        ),
    ],
)
def test_features_that_writers_must_know(protocol: TableProtocol, settings: dict[str, str], feature: str) -> None:
    with pytest.raises(UnsupportedFile) as caught:
        check_writable(protocol, TableMetadata("id", "", configuration=settings), SCHEMA, "t")
    assert caught.value.detail == f"It needs {feature}, which is not supported."
    check_readable(protocol, TableMetadata("id", "", configuration=settings), SCHEMA, "t")


def test_features_that_are_not_in_use_are_no_obstacle() -> None:
    listed = frozenset({"deletionVectors", "variantType", "columnMapping", "v2Checkpoint"})
    check_writable(
        TableProtocol(3, 7, listed, listed | {"appendOnly", "changeDataFeed", "invariants"}), metadata_with(), SCHEMA, "t"
    )
    check_writable(TableProtocol(2, 6), metadata_with(), SCHEMA, "t")


def test_a_new_table_asks_for_no_more_than_it_has() -> None:
    plain = pa.schema({"id": pa.int64()})
    assert protocol_for(plain, deletion_vectors=False) == TableProtocol(1, 2)
    nested = pa.schema({"l": pa.list_(pa.struct({"at": pa.timestamp("us")}))})
    both, local = frozenset({"deletionVectors", "timestampNtz"}), frozenset({"timestampNtz"})
    assert protocol_for(nested, deletion_vectors=True) == TableProtocol(3, 7, both, both)
    assert protocol_for(nested, deletion_vectors=False) == TableProtocol(3, 7, local, local)
    later = with_features(TableProtocol(1, 2), frozenset({"timestampNtz"}))
    assert later == TableProtocol(3, 7, local, local | {"appendOnly", "invariants"})
    assert with_features(later, local) is later

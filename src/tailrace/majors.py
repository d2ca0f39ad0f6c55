"""What PostgreSQL's major versions differ in, by name, and which of them are read at all.

A difference in behaviour is a `Capability`, which the code asks for by `supports(major, INFINITE_INTERVALS)`; where majors word a
message differently, `said_by(major, ONLY_SUPPORTS)` gives the words. Layouts, columns, keywords and other tables stand in the
modules that use them. Each such module says in its `COMPARED` with what of PostgreSQL it was compared, and up to which major;
a newer one it refuses by its own name. docs/new_major.md lists these modules. Nothing else in the code compares a major with a
number (tests/test_house.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from tailrace.dataclass import dataclass
from tailrace.errors import UnsupportedWal

MAJORS = (14, 15, 16, 17, 18)
OLDEST, NEWEST = MAJORS[0], MAJORS[-1]
Value = TypeVar("Value")


# -- how modules ask -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Capability:
    """What PostgreSQL does from the major `first` on, up to `last`."""

    first: int = 0
    last: int = 1 << 31

    @classmethod
    def of(cls, majors: str) -> Capability:
        """As tables of columns say it: 16- (since 16), -15 (until 15), 16 (only there), 15-17, or nothing, for every major."""
        first, dash, last = majors.partition("-")
        return cls(int(first or 0), int((last if dash else first) or IN_ALL.last))


IN_ALL = Capability()


def supports(major: int, capability: Capability) -> bool:
    return capability.first <= major <= capability.last


def said_by(major: int, words: Mapping[int, str]) -> str:
    """The words of a major, of a table that has them by the first major that says so."""
    return words[max(first for first in words if first <= major)]


class Compared:
    """With what of PostgreSQL a module has been compared (headers, sources, queries), and up to which major."""

    def __init__(self, module: str, subject: str, *, upto: int) -> None:
        self.module, self.subject, self.upto = module, subject, upto

    def check(self, major: int) -> None:
        """Raise UnsupportedWal unless the module knows what this major has."""
        if major > self.upto:
            raise UnsupportedWal(f"{self.module} says nothing of PostgreSQL {major}", hint=f"Compare it with {self.subject}.")

    def table(self, since: Mapping[int, Value]) -> ByMajor[Value]:
        """A value for each major, of a table that names those from which on it is another."""
        return ByMajor(self, lambda major: since[max(first for first in since if first <= major)])

    def always(self, value: Value) -> ByMajor[Value]:
        """The same value for each major."""
        return ByMajor(self, lambda _: value)

    def made(self, make: Callable[[int], Value]) -> ByMajor[Value]:
        """A value for each major, as `make` makes it."""
        return ByMajor(self, make)


class ByMajor(dict[int, Value]):
    """Values by major. Asked for one that its module has not been compared with, it raises UnsupportedWal."""

    def __init__(self, compared: Compared, make: Callable[[int], Value]) -> None:
        super().__init__({major: make(major) for major in MAJORS if major <= compared.upto})
        self._compared, self._make = compared, make

    def __missing__(self, major: int) -> Value:
        self._compared.check(major)
        return self._make(major)


# -- the log, transactions and decoding ------------------------------------------------------------------------------------------

INVALIDATIONS_OF_ALL_RELATIONS = Capability(15)  # rel_sync_cache_relation_cb (pgoutput.c) takes relid 0 for every relation
BARE_PREPARES = Capability(18)  # ReorderBufferPrepare (reorderbuffer.c) tells a PREPARE of a transaction that has no BEGIN
SLOTS_MOVED_FROM_ANY_DATABASE = Capability(17)  # CreateDecodingContext (logical.c): fast_forward asks for no database
REPLICATION_SLOTS_READ = Capability(15)  # READ_REPLICATION_SLOT (repl_gram.y), and options in parentheses
BACKUPS_IN_ONE_COPY = Capability(15)  # BASE_BACKUP ( … ) (repl_gram.y), whose archives come in one COPY (basebackup_copy.c)
REPLICATION_SLOTS_ALTERED = Capability(17)  # ALTER_REPLICATION_SLOT and UPLOAD_MANIFEST (repl_gram.y)
LONG_TIMELINES = Capability(16)  # IdentifySystem (walsender.c) gives its timeline as int8
WAL_SENDERS_EXPLAINED = Capability(16)  # InitPostgres (postinit.c): permission denied to start WAL sender, and why in DETAIL
CANCELS_EXPLAINED = Capability(16)  # pg_cancel_backend (signalfuncs.c): permission denied to cancel query, and why in DETAIL
SNAPSHOTS_USED_TO_READ = Capability(16)  # CreateReplicationSlot (walsender.c): USE_SNAPSHOT needs a read-only transaction
MISSING_SNAPSHOTS_NAMED = Capability(17)  # ImportSnapshot (snapmgr.c) tells one that is gone from what is no name
FAILOVER_SLOTS = Capability(17)  # pg_create_logical_replication_slot(…, failover) (catalog/pg_proc.dat)
LIMITED_ORIGIN_NAMES = Capability(18)  # replorigin_create (origin.c) takes MAX_RONAME_LEN bytes at most
RESERVED_ORIGINS = Capability(16)  # IsReservedOriginName (origin.c): "any" and "none" are values of the option origin

# -- output plugins --------------------------------------------------------------------------------------------------------------

MESSAGES_BEGIN_TRANSACTIONS = Capability(17)  # pg_decode_message (test_decoding.c) prints BEGIN before a transactional message
EMPTY_TRANSACTIONS_SKIPPED = Capability(15)  # pgoutput_begin_txn (pgoutput.c) sends BEGIN when the first change comes
PGOUTPUT_TWO_PHASE = Capability(15)  # the option two_phase (parse_output_parameters in pgoutput.c), and its messages
PARALLEL_STREAMING = Capability(16)  # LOGICALREP_PROTO_STREAM_PARALLEL_VERSION_NUM (replication/logicalproto.h)
MISSING_OPTIONS_NAMED = Capability(17)  # parse_output_parameters (pgoutput.c) asks first whether options are missing

# -- publications ----------------------------------------------------------------------------------------------------------------

ROW_FILTERS = Capability(15)  # pg_publication_rel.prqual and prattrs: row filters and column lists
PUBLISHED_SCHEMAS = Capability(15)  # pg_publication_namespace: FOR TABLES IN SCHEMA
PUBLISHED_GENERATED_COLUMNS = Capability(18)  # pg_publication.pubgencols; column lists may have generated columns, too
MISSING_PUBLICATIONS_SKIPPED = Capability(18)  # LoadPublications (pgoutput.c) warns of a publication that does not exist
LISTS_COMPARED_BY_ATTRIBUTES = Capability(15, 15)  # pgoutput_column_list_init: a list of as many columns as natts is none
GENERATED_COLUMNS_ALWAYS_SHOWN = Capability(last=15)  # pg_publication_tables.attnames has them, though they are not sent
UNOPENED_RELATIONS_EXPLAINED = Capability(16)  # validate_relation_kind (table.c): cannot open relation, and why in DETAIL

# -- SQL -------------------------------------------------------------------------------------------------------------------------

BOOLEAN_CONSTANTS = Capability(15)  # makeBoolAConst (gram.y): true is a constant, not a cast to bool, which names its column
BOUNDS_WITH_UNITS = Capability(
    17
)  # parse_and_validate_value (guc.c): the bounds of a range have the parameter's unit behind them
TRANSACTION_NOT_RESET = Capability(16)  # GUC_NO_RESET (guc.c): parameters of a transaction cannot be reset
SCRAM_ITERATIONS = Capability(16)  # the parameter, and that clients are told of it (guc_tables.c)
SEARCH_PATH_REPORTED = Capability(18)  # clients are told of it (guc_tables.c)
PARAMETERS_SPELLED_AS_DEFINED = Capability(18)  # set_config_option (guc.c): errors do not name a parameter as it was written

# -- types -----------------------------------------------------------------------------------------------------------------------

INFINITE_INTERVALS = Capability(17)  # INTERVAL_IS_NOBEGIN, INTERVAL_IS_NOEND (utils/timestamp.h)
OCTAL_CHARS = Capability(15)  # charout (char.c) prints a byte beyond ASCII as \ooo
JSONPATH_NUMBERS_IN_BRACKETS = Capability(15)  # printJsonPathItem (jsonpath.c): a number before an accessor, (1).type()

# -- expressions -----------------------------------------------------------------------------------------------------------------

NUMBERS_IN_OTHER_BASES = Capability(16)  # 0x1F, 0o17, 0b11 and 1_000 (scan.l), also as input (pg_strtoint32 in numutils.c)
SQL_JSON_CONSTRUCTORS = Capability(16)  # JSON_ARRAY, JSON_OBJECT and IS JSON (gram.y)
SQL_JSON_FUNCTIONS = Capability(17)  # JSON, JSON_SCALAR, JSON_SERIALIZE, JSON_EXISTS, JSON_QUERY and JSON_VALUE (gram.y)
STORED_LOCATIONS = Capability(last=16)  # nodeToString (outfuncs.c) keeps where a node stood; since 17 it writes -1
XML_INDENT = Capability(16)  # XMLSERIALIZE … [NO] INDENT (gram.y; get_rule_expr in ruleutils.c)
RANGE_TABLE_DETAILS = Capability(16)  # errorMissingRTE (parse_relation.c) says why in DETAIL, not as a HINT
SQRT_SCALE_BY_WEIGHT = Capability(16)  # numeric_sqrt (numeric.c) takes the digits before the point of a root by another rule
POWER_SCALE_BY_WEIGHT = Capability(16)  # power_var_int (numeric.c) chooses the scale of a result by its size
BUCKETS_BY_PORTION = Capability(16)  # width_bucket_float8 (float.c), compute_bucket (numeric.c): none behind the last one
BINS_BEFORE_ORIGIN = Capability(16)  # timestamp_bin (timestamp.c): whole strides before the origin begin their own bin
PATHS_WITHOUT_VARIABLES = Capability(17)  # getJsonPathVariable (jsonpath_exec.c): none that is missing is null, for @? and @@ too
WALFILE_OF_BOUNDARY = Capability(17)  # pg_walfile_name (xlogfuncs.c): of an LSN between two segments the file that begins there
SIZES_IN_B = Capability(16)  # pg_size_bytes (dbsize.c) takes B for bytes
VERTICAL_TABS_ARE_SPACE = Capability(16)  # scanner_isspace (scansup.c)
INTERVAL_QUARTERS = Capability(18)  # interval_part_common (timestamp.c): weeks, and quarters of negative intervals
INFINITE_UNITS_CHECKED = Capability(18)  # timestamp_trunc (timestamp.c) refuses an unknown unit of infinity, too
JSON_NULL_CASTS = Capability(18)  # jsonb_int4 and its like (jsonb.c) make NULL of a JSON null

# -- what messages say, by the first major that says so --------------------------------------------------------------------------

NO_DOUBLE_STRING = {  # executeItemOptUnwrapTarget (jsonpath_exec.c), as below
    14: "string argument of jsonpath item method .double() is not a valid representation of a double precision number",
    17: 'argument "{}" of jsonpath item method .double() is invalid for type double precision',
}
NO_DOUBLE_NUMBER = {
    14: "numeric argument of jsonpath item method .double() is out of range for type double precision",
    17: NO_DOUBLE_STRING[17],
}
ONLY_SUPPORTS = {14: "we only support", 16: "server only supports"}  # pgoutput_startup (pgoutput.c)
STREAMING_VALUES = {14: "a Boolean value", 16: 'a Boolean value or "parallel"'}  # defGetStreamingMode (subscriptioncmds.c)
RESERVED_ORIGIN_NAMES = {  # pg_replication_origin_create (origin.c)
    14: 'starting with "pg_"',
    16: '"any", "none", and names starting with "pg_"',
}
FREE_A_SLOT = {  # ReplicationSlotCreate (slot.c)
    14: "Free one or increase max_replication_slots.",
    17: 'Free one or increase "max_replication_slots".',
}
USE_SNAPSHOT = {  # CreateReplicationSlot (walsender.c)
    14: "CREATE_REPLICATION_SLOT ... USE_SNAPSHOT",
    15: "CREATE_REPLICATION_SLOT ... (SNAPSHOT 'use')",
}
EXPORT_SNAPSHOT = {
    14: "CREATE_REPLICATION_SLOT ... EXPORT_SNAPSHOT",
    15: "CREATE_REPLICATION_SLOT ... (SNAPSHOT 'export')",
}
NO_TARGET_LSN_STATE = {14: "XX000", 18: "22023"}  # pg_replication_slot_advance (slotfuncs.c): invalid target WAL LSN
PROCESS = {14: "server", 15: "backend"}  # pg_signal_backend (signalfuncs.c): PID … is not a PostgreSQL … process
SIZE_UNITS = {  # pg_size_bytes (dbsize.c)
    14: '"bytes", "kB", "MB", "GB", "TB", and "PB"',
    16: '"bytes", "B", "kB", "MB", "GB", "TB", and "PB"',
}
WRONG_ELEMENT = {14: "Unexpected array element.", 17: "Incorrectly quoted array element."}  # ReadArrayStr (arrayfuncs.c)
DATE_STYLE = {14: "datestyle", 18: "DateStyle"}  # DateTimeParseError (datetime.c)

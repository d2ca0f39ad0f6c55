// Reads messages of pgoutput with pg_walstream: a 4-byte length and a message each, from standard input, and prints what it read, a line each.
// Argument: the version of the protocol. LSNs are printed as PostgreSQL prints them, times in microseconds since 2000, values in hex.
use pg_walstream::protocol::{LogicalReplicationMessage as M, LogicalReplicationParser, TupleData};
use std::fmt::Write as _;
use std::io::{self, BufWriter, Read, Write};

fn main() -> io::Result<()> {
    let version = std::env::args().nth(1).and_then(|said| said.parse().ok()).expect("a version of the protocol");
    let mut parser = LogicalReplicationParser::with_protocol_version(version);
    let mut data = Vec::new();
    io::stdin().lock().read_to_end(&mut data)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut rest = &data[..];
    while rest.len() >= 4 {
        let (head, behind) = rest.split_at(4);
        let (message, next) = behind.split_at(u32::from_be_bytes(head.try_into().unwrap()) as usize);
        rest = next;
        match parser.parse_wal_message(message) {
            Ok(read) => {
                let xid = match (&read.message, read.xid) {
                    (M::StreamStart { .. } | M::StreamStop | M::Origin { .. }, _) | (_, None) => String::new(),
                    (_, Some(xid)) => format!(",\"xid\":{xid}"),
                };
                writeln!(out, "{{{}{xid}}}", told(&read.message))?;
            }
            Err(error) => writeln!(out, "{{\"error\":{}}}", text(&error.to_string()))?,
        }
    }
    out.flush()
}

fn told(message: &M) -> String {
    match message {
        M::Begin { final_lsn, timestamp, xid } => {
            format!("\"msg\":\"Begin\",\"final_lsn\":{},\"ts\":{timestamp},\"xid\":{xid}", lsn(*final_lsn))
        }
        M::Commit { flags, commit_lsn, end_lsn, timestamp } => format!(
            "\"msg\":\"Commit\",\"flags\":{flags},\"commit_lsn\":{},\"end_lsn\":{},\"ts\":{timestamp}",
            lsn(*commit_lsn), lsn(*end_lsn)
        ),
        M::Relation { relation_id, namespace, relation_name, replica_identity, columns } => {
            let columns: Vec<String> = columns
                .iter()
                .map(|each| format!("[{},{},{},{}]", each.flags, text(&each.name), each.type_id, each.type_modifier))
                .collect();
            format!(
                "\"msg\":\"Relation\",\"relid\":{relation_id},\"ns\":{},\"rel\":{},\"replident\":{},\"cols_flag_name_typoid_typmod\":[{}]",
                text(namespace), text(relation_name), text(&(*replica_identity as char).to_string()), columns.join(",")
            )
        }
        M::Insert { relation_id, tuple } => format!("\"msg\":\"Insert\",\"relid\":{relation_id},\"new\":{}", row(tuple)),
        M::Update { relation_id, old_tuple, new_tuple, key_type } => {
            let old = old_tuple.as_ref().map_or(String::new(), |tuple| {
                let kind = key_type.map(String::from).unwrap_or_default();
                format!(",\"old_kind\":{},\"old\":{}", text(&kind), row(tuple))
            });
            format!("\"msg\":\"Update\",\"relid\":{relation_id},\"new\":{}{old}", row(new_tuple))
        }
        M::Delete { relation_id, old_tuple, key_type } => {
            format!("\"msg\":\"Delete\",\"relid\":{relation_id},\"old_kind\":{},\"old\":{}", text(&key_type.to_string()), row(old_tuple))
        }
        M::Truncate { relation_ids, flags } => {
            let oids: Vec<String> = relation_ids.iter().map(ToString::to_string).collect();
            format!("\"msg\":\"Truncate\",\"n\":{},\"flags\":{flags},\"relids\":[{}]", oids.len(), oids.join(","))
        }
        M::Type { type_id, namespace, type_name } => {
            format!("\"msg\":\"Type\",\"oid\":{type_id},\"ns\":{},\"name\":{}", text(namespace), text(type_name))
        }
        M::Origin { origin_lsn, origin_name } => {
            format!("\"msg\":\"Origin\",\"origin_lsn\":{},\"name\":{}", lsn(*origin_lsn), text(origin_name))
        }
        M::Message { flags, lsn: at, prefix, content } => format!(
            "\"msg\":\"Message\",\"flags\":{flags},\"lsn\":{},\"prefix\":{},\"content\":\"{}\"",
            lsn(*at), text(prefix), hex(content)
        ),
        M::StreamStart { xid, first_segment } => {
            format!("\"msg\":\"StreamStart\",\"xid\":{xid},\"first_segment\":{}", u8::from(*first_segment))
        }
        M::StreamStop => "\"msg\":\"StreamStop\"".to_string(),
        M::StreamCommit { xid, flags, commit_lsn, end_lsn, timestamp } => format!(
            "\"msg\":\"StreamCommit\",\"xid\":{xid},\"flags\":{flags},\"commit_lsn\":{},\"end_lsn\":{},\"ts\":{timestamp}",
            lsn(*commit_lsn), lsn(*end_lsn)
        ),
        M::StreamAbort { xid, subtransaction_xid, abort_lsn, abort_timestamp } => {
            let mut said = format!("\"msg\":\"StreamAbort\",\"xid\":{xid},\"subxid\":{subtransaction_xid}");
            if let (Some(at), Some(time)) = (abort_lsn, abort_timestamp) {
                write!(said, ",\"abort_lsn\":{},\"abort_ts\":{time}", lsn(*at)).unwrap();
            }
            said
        }
        M::BeginPrepare { prepare_lsn, end_lsn, timestamp, xid, gid } => {
            prepared("BeginPrepare", "prepare", *prepare_lsn, *end_lsn, *timestamp, *xid, gid)
        }
        M::Prepare { flags, prepare_lsn, end_lsn, timestamp, xid, gid } => {
            prepared("Prepare", "prepare", *prepare_lsn, *end_lsn, *timestamp, *xid, gid) + &format!(",\"flags\":{flags}")
        }
        M::StreamPrepare { flags, prepare_lsn, end_lsn, timestamp, xid, gid } => {
            prepared("StreamPrepare", "prepare", *prepare_lsn, *end_lsn, *timestamp, *xid, gid) + &format!(",\"flags\":{flags}")
        }
        M::CommitPrepared { flags, commit_lsn, end_lsn, timestamp, xid, gid } => {
            prepared("CommitPrepared", "commit", *commit_lsn, *end_lsn, *timestamp, *xid, gid) + &format!(",\"flags\":{flags}")
        }
        M::RollbackPrepared { flags, prepare_end_lsn, rollback_end_lsn, prepare_timestamp, rollback_timestamp, xid, gid } => format!(
            "\"msg\":\"RollbackPrepared\",\"flags\":{flags},\"prepare_end_lsn\":{},\"rollback_end_lsn\":{},\"prepare_ts\":{prepare_timestamp},\
             \"rollback_ts\":{rollback_timestamp},\"xid\":{xid},\"gid\":{}",
            lsn(*prepare_end_lsn), lsn(*rollback_end_lsn), text(gid)
        ),
    }
}

fn prepared(name: &str, what: &str, at: u64, end: u64, time: i64, xid: u32, gid: &str) -> String {
    format!(
        "\"msg\":\"{name}\",\"{what}_lsn\":{},\"end_lsn\":{},\"{what}_ts\":{time},\"xid\":{xid},\"gid\":{}",
        lsn(at), lsn(end), text(gid)
    )
}

fn row(tuple: &TupleData) -> String {
    let columns: Vec<String> = tuple
        .columns
        .iter()
        .map(|each| match each.data_type as char {
            kind @ ('t' | 'b') => format!("[\"{kind}\",\"{}\"]", hex(each.as_bytes())),
            kind => text(&kind.to_string()),
        })
        .collect();
    format!("[{}]", columns.join(","))
}

fn lsn(at: u64) -> String {
    format!("\"{:X}/{:X}\"", at >> 32, at & 0xFFFF_FFFF)
}

fn hex(data: &[u8]) -> String {
    data.iter().fold(String::with_capacity(2 * data.len()), |mut said, byte| {
        write!(said, "{byte:02x}").unwrap();
        said
    })
}

fn text(said: &str) -> String {
    let mut found = String::from("\"");
    for letter in said.chars() {
        match letter {
            '"' | '\\' => found.extend(['\\', letter]),
            letter if letter < ' ' => write!(found, "\\u{:04x}", letter as u32).unwrap(),
            letter => found.push(letter),
        }
    }
    found + "\""
}

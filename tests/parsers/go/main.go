// Reads messages of pgoutput with jackc/pglogrepl: a 4-byte length and a message each, from standard input, and prints what it read, a line each.
// Argument: the version of the protocol. LSNs are printed as PostgreSQL prints them, times in microseconds since 2000, values in hex.
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/jackc/pglogrepl"
)

type told map[string]any

const epoch = 946_684_800_000_000

func main() {
	version := os.Args[1]
	in, out := bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout)
	defer out.Flush()
	inStream := false
	for {
		var size uint32
		if err := binary.Read(in, binary.BigEndian, &size); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			panic(err)
		}
		data := make([]byte, size)
		if _, err := io.ReadFull(in, data); err != nil {
			panic(err)
		}
		line, err := json.Marshal(read(data, version, &inStream))
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(out, "%s\n", line)
	}
}

func read(data []byte, version string, inStream *bool) (found told) {
	defer func() {
		if wrong := recover(); wrong != nil {
			found = told{"error": fmt.Sprint(wrong)}
		}
	}()
	var message pglogrepl.Message
	var err error
	if version == "1" {
		message, err = pglogrepl.Parse(data)
	} else {
		message, err = pglogrepl.ParseV2(data, *inStream)
	}
	if err != nil && err.Error() == "replication message not supported" {
		return told{"unread": string(data[:1])}
	} else if err != nil {
		return told{"error": err.Error()}
	}
	switch m := message.(type) {
	case *pglogrepl.StreamStartMessageV2:
		*inStream = true
		return told{"msg": "StreamStart", "xid": m.Xid, "first_segment": m.FirstSegment}
	case *pglogrepl.StreamStopMessageV2:
		*inStream = false
		return told{"msg": "StreamStop"}
	case *pglogrepl.StreamCommitMessageV2:
		return told{"msg": "StreamCommit", "xid": m.Xid, "flags": m.Flags, "commit_lsn": m.CommitLSN.String(),
			"end_lsn": m.TransactionEndLSN.String(), "ts": since(m.CommitTime)}
	case *pglogrepl.StreamAbortMessageV2:
		return told{"msg": "StreamAbort", "xid": m.Xid, "subxid": m.SubXid}
	case *pglogrepl.RelationMessageV2:
		return within(relation(&m.RelationMessage), m.Xid, *inStream)
	case *pglogrepl.TypeMessageV2:
		return within(typed(&m.TypeMessage), m.Xid, *inStream)
	case *pglogrepl.InsertMessageV2:
		return within(insert(&m.InsertMessage), m.Xid, *inStream)
	case *pglogrepl.UpdateMessageV2:
		return within(update(&m.UpdateMessage), m.Xid, *inStream)
	case *pglogrepl.DeleteMessageV2:
		return within(deleted(&m.DeleteMessage), m.Xid, *inStream)
	case *pglogrepl.TruncateMessageV2:
		return within(truncate(&m.TruncateMessage), m.Xid, *inStream)
	case *pglogrepl.LogicalDecodingMessageV2:
		return within(logical(&m.LogicalDecodingMessage), m.Xid, *inStream)
	case *pglogrepl.RelationMessage:
		return relation(m)
	case *pglogrepl.TypeMessage:
		return typed(m)
	case *pglogrepl.InsertMessage:
		return insert(m)
	case *pglogrepl.UpdateMessage:
		return update(m)
	case *pglogrepl.DeleteMessage:
		return deleted(m)
	case *pglogrepl.TruncateMessage:
		return truncate(m)
	case *pglogrepl.LogicalDecodingMessage:
		return logical(m)
	case *pglogrepl.BeginMessage:
		return told{"msg": "Begin", "final_lsn": m.FinalLSN.String(), "ts": since(m.CommitTime), "xid": m.Xid}
	case *pglogrepl.CommitMessage:
		return told{"msg": "Commit", "flags": m.Flags, "commit_lsn": m.CommitLSN.String(), "end_lsn": m.TransactionEndLSN.String(),
			"ts": since(m.CommitTime)}
	case *pglogrepl.OriginMessage:
		return told{"msg": "Origin", "origin_lsn": m.CommitLSN.String(), "name": m.Name}
	}
	return told{"error": fmt.Sprintf("%T", message)}
}

func since(at time.Time) int64 { return at.UnixMicro() - epoch }

func within(found told, xid uint32, inStream bool) told {
	if inStream {
		found["xid"] = xid
	}
	return found
}

func relation(m *pglogrepl.RelationMessage) told {
	columns := make([][]any, 0, len(m.Columns))
	for _, each := range m.Columns {
		columns = append(columns, []any{each.Flags, each.Name, each.DataType, each.TypeModifier})
	}
	return told{"msg": "Relation", "relid": m.RelationID, "ns": m.Namespace, "rel": m.RelationName,
		"replident": string(rune(m.ReplicaIdentity)), "cols_flag_name_typoid_typmod": columns}
}

func typed(m *pglogrepl.TypeMessage) told {
	return told{"msg": "Type", "oid": m.DataType, "ns": m.Namespace, "name": m.Name}
}

func insert(m *pglogrepl.InsertMessage) told {
	return told{"msg": "Insert", "relid": m.RelationID, "new": columns(m.Tuple)}
}

func update(m *pglogrepl.UpdateMessage) told {
	found := told{"msg": "Update", "relid": m.RelationID, "new": columns(m.NewTuple)}
	if m.OldTuple != nil {
		found["old_kind"], found["old"] = string(rune(m.OldTupleType)), columns(m.OldTuple)
	}
	return found
}

func deleted(m *pglogrepl.DeleteMessage) told {
	return told{"msg": "Delete", "relid": m.RelationID, "old_kind": string(rune(m.OldTupleType)), "old": columns(m.OldTuple)}
}

func truncate(m *pglogrepl.TruncateMessage) told {
	return told{"msg": "Truncate", "n": m.RelationNum, "flags": m.Option, "relids": m.RelationIDs}
}

func logical(m *pglogrepl.LogicalDecodingMessage) told {
	flags := 0
	if m.Transactional {
		flags = 1
	}
	return told{"msg": "Message", "flags": flags, "lsn": m.LSN.String(), "prefix": m.Prefix, "content": hex.EncodeToString(m.Content)}
}

func columns(tuple *pglogrepl.TupleData) []any {
	found := make([]any, 0, len(tuple.Columns))
	for _, each := range tuple.Columns {
		kind := string(rune(each.DataType))
		if each.Data == nil {
			found = append(found, kind)
		} else {
			found = append(found, []any{kind, hex.EncodeToString(each.Data)})
		}
	}
	return found
}

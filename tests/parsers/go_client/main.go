// Streams a slot with jackc/pglogrepl, as its own example does: identify, create, start, receive, report. Arguments: a connection string, and how many
// commits to wait for. Prints what it read, a line each.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	commits := must(strconv.Atoi(os.Args[2]))
	conn := must(pgconn.Connect(ctx, os.Args[1]))
	defer conn.Close(ctx)
	system := must(pglogrepl.IdentifySystem(ctx, conn))
	fmt.Println("system", system.DBName, system.Timeline)
	slot := must(pglogrepl.CreateReplicationSlot(ctx, conn, "of_go", "pgoutput",
		pglogrepl.CreateReplicationSlotOptions{Temporary: true, SnapshotAction: "NOEXPORT_SNAPSHOT"}))
	fmt.Println("slot", slot.SlotName, slot.OutputPlugin)
	position := must(pglogrepl.ParseLSN(slot.ConsistentPoint))
	options := []string{"proto_version '1'", "publication_names 'p'", "messages 'true'"}
	if err := pglogrepl.StartReplication(ctx, conn, "of_go", position, pglogrepl.StartReplicationOptions{PluginArgs: options}); err != nil {
		panic(err)
	}
	fmt.Println("started")
	for commits > 0 {
		message, ok := must(conn.ReceiveMessage(ctx)).(*pgproto3.CopyData)
		if !ok {
			continue
		}
		switch message.Data[0] {
		case pglogrepl.PrimaryKeepaliveMessageByteID:
			must(pglogrepl.ParsePrimaryKeepaliveMessage(message.Data[1:]))
		case pglogrepl.XLogDataByteID:
			data := must(pglogrepl.ParseXLogData(message.Data[1:]))
			parsed := must(pglogrepl.Parse(data.WALData))
			fmt.Println(parsed.Type())
			if parsed.Type() == pglogrepl.MessageTypeCommit {
				commits--
				position = data.WALStart
				update := pglogrepl.StandbyStatusUpdate{WALWritePosition: position}
				if err := pglogrepl.SendStandbyStatusUpdate(ctx, conn, update); err != nil {
					panic(err)
				}
			}
		}
	}
	must(pglogrepl.SendStandbyCopyDone(ctx, conn))
	fmt.Println("done")
}

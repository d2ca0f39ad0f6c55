/*
 * trace.c: an output plugin that says which of its callbacks are called, in which order and with what.
 *
 * Each call is a line of the file "trace" in the data directory; where a callback may write, the line is a row as well. The same plugin in Python is
 * in tests/support/tracing.py, and says the same.
 *
 * Options: "filter_origins" filters what was replicated from elsewhere, "filter_gid" prepared transactions whose gid begins so, and "raise" names a
 * callback that raises an error once it has said its line. Which sets of callbacks there are is decided when it is compiled: all of them, or with
 * -DREQUIRED those that a plugin must have, startup and shutdown, and with -DTWO_PHASE those for two phases, too.
 */
#include "postgres.h"

#include "fmgr.h"
#include "nodes/pg_list.h"
#include "replication/logical.h"
#include "replication/origin.h"
#include "replication/output_plugin.h"
#include "replication/reorderbuffer.h"
#include "storage/fd.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_output_plugin_init(OutputPluginCallbacks *cb);

typedef struct
{
	bool		filter_origins;
	char	   *filter_gid;
	char	   *raise;
} Trace;

#define BOOL(value) ((value) ? "true" : "false")

/* The name of the callback and its arguments; what it is about may be a row. */
static void pg_attribute_printf(4, 5)
say(LogicalDecodingContext *ctx, const char *callback, bool writes, const char *format,...)
{
	Trace	   *trace = ctx->output_plugin_private;
	StringInfoData line;
	FILE	   *file;

	initStringInfo(&line);
	appendStringInfoString(&line, callback);
	for (;;)
	{
		va_list		args;
		int			needed;

		va_start(args, format);
		needed = appendStringInfoVA(&line, format, args);
		va_end(args);
		if (needed == 0)
			break;
		enlargeStringInfo(&line, needed);
	}
	file = AllocateFile("trace", "a");
	if (file == NULL)
		ereport(ERROR, (errcode_for_file_access(), errmsg("could not open file \"%s\": %m", "trace")));
	fprintf(file, "%s\n", line.data);
	FreeFile(file);
	if (writes)
	{
		OutputPluginPrepareWrite(ctx, true);
		appendStringInfoString(ctx->out, line.data);
		OutputPluginWrite(ctx, true);
	}
	if (trace->raise != NULL && strcmp(trace->raise, callback) == 0)
		ereport(ERROR, (errmsg("raised in %s", callback)));
}

/* -- its life -- */

static void
trace_startup(LogicalDecodingContext *ctx, OutputPluginOptions *options, bool is_init)
{
	Trace	   *trace = palloc0(sizeof(Trace));
	StringInfoData given;
	ListCell   *cell;

	initStringInfo(&given);
	foreach(cell, ctx->output_plugin_options)
	{
		DefElem    *option = lfirst(cell);
		char	   *value = option->arg ? strVal(option->arg) : NULL;

		appendStringInfo(&given, " %s=%s", option->defname, value ? value : "NULL");
		if (strcmp(option->defname, "filter_origins") == 0)
			trace->filter_origins = true;
		else if (strcmp(option->defname, "filter_gid") == 0)
			trace->filter_gid = value;
		else if (strcmp(option->defname, "raise") == 0)
			trace->raise = value;
	}
	options->output_type = OUTPUT_PLUGIN_TEXTUAL_OUTPUT;
	ctx->output_plugin_private = trace;
	say(ctx, "startup", false, " is_init=%s options:%s", BOOL(is_init), given.data);
}

static void
trace_shutdown(LogicalDecodingContext *ctx)
{
	say(ctx, "shutdown", false, "%s", "");
}

/* -- transactions -- */

static void
trace_begin(LogicalDecodingContext *ctx, ReorderBufferTXN *txn)
{
	say(ctx, "begin", true, " xid=%u first_lsn=%X/%X commit_lsn=%X/%X end_lsn=%X/%X commit_time=" INT64_FORMAT " origin=%u origin_lsn=%X/%X",
		txn->xid, LSN_FORMAT_ARGS(txn->first_lsn), LSN_FORMAT_ARGS(txn->final_lsn), LSN_FORMAT_ARGS(txn->end_lsn),
		txn->xact_time.commit_time, txn->origin_id, LSN_FORMAT_ARGS(txn->origin_lsn));
}

/* How a change is told, in a block of a transaction in progress or not. */
static void
say_change(LogicalDecodingContext *ctx, const char *callback, ReorderBufferTXN *txn, Relation relation, ReorderBufferChange *change)
{
	const char *kind = "?";

	if (change->action == REORDER_BUFFER_CHANGE_INSERT)
		kind = "insert";
	else if (change->action == REORDER_BUFFER_CHANGE_UPDATE)
		kind = "update";
	else if (change->action == REORDER_BUFFER_CHANGE_DELETE)
		kind = "delete";
	say(ctx, callback, true, " xid=%u relation=%s.%s kind=%s lsn=%X/%X old=%s new=%s", txn->xid,
		get_namespace_name(RelationGetNamespace(relation)), RelationGetRelationName(relation), kind, LSN_FORMAT_ARGS(change->lsn),
		BOOL(change->data.tp.oldtuple != NULL), BOOL(change->data.tp.newtuple != NULL));
}

static void
say_truncate(LogicalDecodingContext *ctx, const char *callback, ReorderBufferTXN *txn, int count, Relation relations[],
			 ReorderBufferChange *change)
{
	StringInfoData names;

	initStringInfo(&names);
	for (int i = 0; i < count; i++)
		appendStringInfo(&names, "%s%s.%s", i ? "," : "", get_namespace_name(RelationGetNamespace(relations[i])),
						 RelationGetRelationName(relations[i]));
	say(ctx, callback, true, " xid=%u relations=%s lsn=%X/%X cascade=%s restart_sequences=%s", txn->xid, names.data,
		LSN_FORMAT_ARGS(change->lsn), BOOL(change->data.truncate.cascade), BOOL(change->data.truncate.restart_seqs));
}

static void
say_message(LogicalDecodingContext *ctx, const char *callback, ReorderBufferTXN *txn, XLogRecPtr lsn, bool transactional,
			const char *prefix, Size size)
{
	char	   *xid = txn ? psprintf("%u", txn->xid) : "NULL";

	say(ctx, callback, true, " xid=%s lsn=%X/%X transactional=%s prefix=%s size=%zu", xid, LSN_FORMAT_ARGS(lsn), BOOL(transactional), prefix,
		size);
}

static void
trace_change(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, Relation relation, ReorderBufferChange *change)
{
	say_change(ctx, "change", txn, relation, change);
}

static void
trace_truncate(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, int count, Relation relations[], ReorderBufferChange *change)
{
	say_truncate(ctx, "truncate", txn, count, relations, change);
}

static void
trace_message(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr lsn, bool transactional, const char *prefix, Size size,
			  const char *message)
{
	say_message(ctx, "message", txn, lsn, transactional, prefix, size);
}

static void
trace_commit(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr commit_lsn)
{
	say(ctx, "commit", true, " xid=%u commit_lsn=%X/%X", txn->xid, LSN_FORMAT_ARGS(commit_lsn));
}

static bool
trace_filter_by_origin(LogicalDecodingContext *ctx, RepOriginId origin_id)
{
	Trace	   *trace = ctx->output_plugin_private;

	say(ctx, "filter_by_origin", false, " origin=%u", origin_id);
	return trace->filter_origins && origin_id != InvalidRepOriginId;
}

/* -- two phases -- */

static bool
trace_filter_prepare(LogicalDecodingContext *ctx, TransactionId xid, const char *gid)
{
	Trace	   *trace = ctx->output_plugin_private;

	say(ctx, "filter_prepare", false, " xid=%u gid=%s", xid, gid);
	return trace->filter_gid != NULL && strncmp(gid, trace->filter_gid, strlen(trace->filter_gid)) == 0;
}

static void
trace_begin_prepare(LogicalDecodingContext *ctx, ReorderBufferTXN *txn)
{
	say(ctx, "begin_prepare", true, " xid=%u gid=%s first_lsn=%X/%X prepare_lsn=%X/%X end_lsn=%X/%X prepare_time=" INT64_FORMAT, txn->xid,
		txn->gid, LSN_FORMAT_ARGS(txn->first_lsn), LSN_FORMAT_ARGS(txn->final_lsn), LSN_FORMAT_ARGS(txn->end_lsn),
		txn->xact_time.prepare_time);
}

static void
trace_prepare(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr prepare_lsn)
{
	say(ctx, "prepare", true, " xid=%u gid=%s prepare_lsn=%X/%X", txn->xid, txn->gid, LSN_FORMAT_ARGS(prepare_lsn));
}

static void
trace_commit_prepared(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr commit_lsn)
{
	say(ctx, "commit_prepared", true, " xid=%u gid=%s commit_lsn=%X/%X", txn->xid, txn->gid, LSN_FORMAT_ARGS(commit_lsn));
}

static void
trace_rollback_prepared(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr prepare_end_lsn, TimestampTz prepare_time)
{
	say(ctx, "rollback_prepared", true, " xid=%u gid=%s prepare_end_lsn=%X/%X prepare_time=" INT64_FORMAT, txn->xid, txn->gid,
		LSN_FORMAT_ARGS(prepare_end_lsn), prepare_time);
}

/* -- blocks of transactions in progress -- */

static void
trace_stream_start(LogicalDecodingContext *ctx, ReorderBufferTXN *txn)
{
	say(ctx, "stream_start", true, " xid=%u", txn->xid);
}

static void
trace_stream_stop(LogicalDecodingContext *ctx, ReorderBufferTXN *txn)
{
	say(ctx, "stream_stop", true, " xid=%u", txn->xid);
}

static void
trace_stream_abort(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr abort_lsn)
{
	say(ctx, "stream_abort", true, " xid=%u abort_lsn=%X/%X", txn->xid, LSN_FORMAT_ARGS(abort_lsn));
}

static void
trace_stream_prepare(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr prepare_lsn)
{
	say(ctx, "stream_prepare", true, " xid=%u gid=%s prepare_lsn=%X/%X", txn->xid, txn->gid, LSN_FORMAT_ARGS(prepare_lsn));
}

static void
trace_stream_commit(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr commit_lsn)
{
	say(ctx, "stream_commit", true, " xid=%u commit_lsn=%X/%X", txn->xid, LSN_FORMAT_ARGS(commit_lsn));
}

static void
trace_stream_change(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, Relation relation, ReorderBufferChange *change)
{
	say_change(ctx, "stream_change", txn, relation, change);
}

static void
trace_stream_message(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr lsn, bool transactional, const char *prefix, Size size,
					 const char *message)
{
	say_message(ctx, "stream_message", txn, lsn, transactional, prefix, size);
}

static void
trace_stream_truncate(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, int count, Relation relations[], ReorderBufferChange *change)
{
	say_truncate(ctx, "stream_truncate", txn, count, relations, change);
}

void
_PG_output_plugin_init(OutputPluginCallbacks *cb)
{
	cb->startup_cb = trace_startup;
	cb->begin_cb = trace_begin;
	cb->change_cb = trace_change;
	cb->commit_cb = trace_commit;
	cb->shutdown_cb = trace_shutdown;
#if !defined(REQUIRED) || defined(TWO_PHASE)
	cb->filter_prepare_cb = trace_filter_prepare;
	cb->begin_prepare_cb = trace_begin_prepare;
	cb->prepare_cb = trace_prepare;
	cb->commit_prepared_cb = trace_commit_prepared;
	cb->rollback_prepared_cb = trace_rollback_prepared;
#endif
#ifndef REQUIRED
	cb->truncate_cb = trace_truncate;
	cb->message_cb = trace_message;
	cb->filter_by_origin_cb = trace_filter_by_origin;
	cb->stream_start_cb = trace_stream_start;
	cb->stream_stop_cb = trace_stream_stop;
	cb->stream_abort_cb = trace_stream_abort;
	cb->stream_prepare_cb = trace_stream_prepare;
	cb->stream_commit_cb = trace_stream_commit;
	cb->stream_change_cb = trace_stream_change;
	cb->stream_message_cb = trace_stream_message;
	cb->stream_truncate_cb = trace_stream_truncate;
#endif
}

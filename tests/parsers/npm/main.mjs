// Reads messages of pgoutput with parsers from npm: a 4-byte length and a message each, from standard input, and prints what was read, a line each.
// Arguments: the package. LSNs are printed as PostgreSQL prints them, times in microseconds since 2000, values in hex.
// They make numbers and dates of values where they know the type, and are kept from that. postgres tells of changes alone. Two of them must not be given what
// they don't know.
import { EventEmitter } from 'node:events'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'

const require = createRequire(path.join(process.cwd(), 'package.json'))
const EPOCH = 946684800000000n
const IDENTITIES = { default: 'd', nothing: 'n', full: 'f', index: 'i' }
const HEX = bytes => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex')

function * messages() {
  const data = readFileSync(0)
  for (let at = 0; at < data.length;) {
    const size = data.readUInt32BE(at)
    yield data.subarray(at + 4, at += 4 + size)
  }
}

const lsn = text => text === null ? '0/0' : text.split('/').map(half => parseInt(half, 16).toString(16).toUpperCase()).join('/')
const since = time => Number(time - EPOCH)

function columns(relation, tuple, missing) {
  return relation.columns.map(({ name }) => {
    const value = tuple[name]
    if (value === null) return 'n'
    if (value === undefined) return missing
    return value instanceof Uint8Array ? ['b', HEX(value)] : ['t', Buffer.from(value).toString('hex')]
  })
}

function sides(relation, key, old, after) {
  return {
    ...key && { old_kind: 'K', old: columns(relation, key, 'n') },
    ...old && { old_kind: 'O', old: columns(relation, old, 'n') },
    ...after && { new: columns(relation, after, 'u') },
  }
}

function told(m, before, after) {
  switch (m.tag) {
    case 'begin': return { msg: 'Begin', final_lsn: lsn(m.commitLsn), ts: since(m.commitTime), xid: m.xid }
    case 'commit': return {
      msg: 'Commit', flags: m.flags, commit_lsn: lsn(m.commitLsn), end_lsn: lsn(m.commitEndLsn), ts: since(m.commitTime),
    }
    case 'origin': return { msg: 'Origin', origin_lsn: lsn(m.originLsn), name: m.originName }
    case 'type': return { msg: 'Type', oid: m.typeOid, ns: m.typeSchema, name: m.typeName }
    case 'relation': return {
      msg: 'Relation', relid: m.relationOid, ns: m.schema, rel: m.name, replident: IDENTITIES[m.replicaIdentity],
      cols_flag_name_typoid_typmod: m.columns.map(each => [each.flags, each.name, each.typeOid, each.typeMod]),
    }
    case 'truncate': return {
      msg: 'Truncate', n: m.relations.length, flags: m.cascade + 2 * m.restartIdentity, relids: m.relations.map(each => each.relationOid),
    }
    case 'message': return { msg: 'Message', flags: m.flags, lsn: lsn(m.messageLsn), prefix: m.prefix, content: HEX(m.content) }
    default: {
      const msg = m.tag[0].toUpperCase() + m.tag.slice(1)
      const relid = m.relation.relationOid
      return { msg, relid, ...m.beforeRaw === undefined ? sides(m.relation, m.key, m.old, m.new) : either(m.relation, m.beforeRaw, m.afterRaw) }
    }
  }
}

// pgwire does not tell whether the tuple of before is a key or a row.
function either(relation, before, after) {
  return { ...before && { old: columns(relation, before, 'n') }, ...after && { new: columns(relation, after, 'u') } }
}

async function pgLogicalReplication() {
  require(require.resolve('pg', { paths: [require.resolve('pg-logical-replication')] })).types.getTypeParser = () => text => text
  const { PgoutputPlugin } = require('pg-logical-replication')
  const plugin = new PgoutputPlugin({ protoVersion: 1, publicationNames: [] })
  return async data => {
    try {
      return told(plugin.parse(data))
    } catch (error) {
      if (error.message === 'unknown pgoutput message') return { unread: String.fromCharCode(data[0]) }
      throw error
    }
  }
}

// Its reader ends with the first message that it does not know, and is part of a stream, which here is never connected.
async function pgwire() {
  const { pgconnection } = await import(path.join(process.cwd(), 'node_modules/pgwire/index.js'))
  const stream = pgconnection('postgresql://nobody@localhost').logicalReplication({ slot: 'none' })
  let next
  const chunks = async function * () {
    for (;;) yield { messages: [{ data: next }] }
  }
  Object.defineProperty(stream, Symbol.asyncIterator, { value: chunks })
  const decoded = stream.pgoutputDecode()
  return async data => {
    const letter = String.fromCharCode(data[0])
    if (!'BCORYIUDTM'.includes(letter)) return { unread: letter }
    next = data
    const { value } = await decoded.next()
    return told(value.messages[0])
  }
}

async function postgres() {
  const { default: Subscribe } = await import(path.join(process.cwd(), 'node_modules/postgres/src/subscribe.js'))
  const stream = new EventEmitter()
  const slot = Object.assign([{ consistent_point: '0/0' }], { state: {} })
  const sql = { options: { parsers: {} }, end() {}, close() {}, unsafe: () => Object.assign(Promise.resolve(slot), { writable: async () => stream }) }
  const subscribe = Subscribe(() => sql, { publications: 'none', transform: { column: {}, value: {}, row: {} } })
  let found
  await subscribe('*', (row, { command, relation, key, old }) => {
    const msg = command[0].toUpperCase() + command.slice(1)
    const before = command === 'delete' ? row : old
    found = {
      msg, schema: relation.schema, table: relation.table,
      ...before && { old_kind: key ? 'K' : 'O', old: columns(relation, before, 'u') },
      ...command !== 'delete' && { new: columns(relation, row, 'u') },
    }
  })
  return async data => {
    const letter = String.fromCharCode(data[0])
    found = { unread: letter }
    if ('BCORYIUDT'.includes(letter)) stream.emit('data', Buffer.concat([Buffer.from('w'), Buffer.alloc(24), data]))
    return found
  }
}

const read = await { 'pg-logical-replication': pgLogicalReplication, pgwire, postgres }[process.argv[2]]()
const lines = []
for (const data of messages()) {
  try {
    lines.push(JSON.stringify(await read(data)))
  } catch (error) {
    lines.push(JSON.stringify({ error: String(error) }))
  }
}
process.stdout.write(lines.map(line => line + '\n').join(''))

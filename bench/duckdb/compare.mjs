// Compares `coppice tpch` with DuckDB, on the same tables: those that `coppice tpch dbgen` writes.
//
//   node bench/duckdb/compare.mjs COPPICE verify [SF]          answers with other parameters are equal
//   node bench/duckdb/compare.mjs COPPICE time [SF [ROUNDS]]   query 3 on 2 processes, and on 2 threads
//
// COPPICE is the command. DuckDB is npm's @duckdb/node-api, in the directory $COPPICE_DUCKDB, by default
// ~/.cache/coppice-duckdb (bash .ci/install-duckdb). Exit code 1: an answer differs, or something failed;
// 3: DuckDB is missing.
import { execFileSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'

const [coppice, what, scale = '0.01', rounds = '11'] = process.argv.slice(2)
const ways = { verify, time }
if (!coppice || !ways[what]) {
  console.error('usage: node bench/duckdb/compare.mjs COPPICE verify|time [SF [ROUNDS]]')
  process.exit(2)
}

const at = process.env.COPPICE_DUCKDB ?? join(homedir(), '.cache/coppice-duckdb')
let duckdb
try {
  duckdb = createRequire(join(at, 'package.json'))('@duckdb/node-api')
} catch {
  console.error(`no DuckDB in ${at}; to install it: bash .ci/install-duckdb`)
  process.exit(3)
}

// The columns that queries 1, 3 and 5 need. Amounts are exact.
const amount = 'DECIMAL(15,2)'
const tables = {
  customer: { c_custkey: 'INTEGER', c_nationkey: 'INTEGER', c_mktsegment: 'VARCHAR' },
  orders: { o_orderkey: 'BIGINT', o_custkey: 'INTEGER', o_orderdate: 'DATE', o_shippriority: 'INTEGER' },
  lineitem: {
    l_orderkey: 'BIGINT', l_suppkey: 'INTEGER', l_quantity: amount, l_extendedprice: amount, l_discount: amount,
    l_tax: amount, l_returnflag: 'VARCHAR', l_linestatus: 'VARCHAR', l_shipdate: 'DATE',
  },
  supplier: { s_suppkey: 'INTEGER', s_nationkey: 'INTEGER' },
}
const regions = ['AFRICA', 'AMERICA', 'ASIA', 'EUROPE', 'MIDDLE EAST']
const nations = [ // name and region, by key (TPC-H 4.2.3)
  ['ALGERIA', 0], ['ARGENTINA', 1], ['BRAZIL', 1], ['CANADA', 1], ['EGYPT', 4], ['ETHIOPIA', 0], ['FRANCE', 3],
  ['GERMANY', 3], ['INDIA', 2], ['INDONESIA', 2], ['IRAN', 4], ['IRAQ', 4], ['JAPAN', 2], ['JORDAN', 4], ['KENYA', 0],
  ['MOROCCO', 0], ['MOZAMBIQUE', 0], ['PERU', 1], ['CHINA', 2], ['ROMANIA', 3], ['SAUDI ARABIA', 4], ['VIETNAM', 2],
  ['RUSSIA', 3], ['UNITED KINGDOM', 3], ['UNITED STATES', 1],
]

const connection = await (await duckdb.DuckDBInstance.create(':memory:', { threads: '2' })).connect()
await load()
await ways[what]()

// load has DuckDB read the tables, through files of text that are removed then.
async function load() {
  const dir = mkdtempSync(join(tmpdir(), 'coppice-duckdb-'))
  try {
    for (const [table, columns] of Object.entries(tables)) {
      const path = join(dir, table + '.tbl')
      const file = openSync(path, 'w')
      execFileSync(coppice, ['tpch', 'dbgen', '--sf', scale, '--table', table, '--columns', Object.keys(columns).join(',')], { stdio: ['ignore', file, 'inherit'] })
      closeSync(file)
      const types = Object.entries(columns).map(([name, type]) => `'${name}': '${type}'`).join(', ')
      await connection.run(`CREATE TABLE ${table} AS FROM read_csv('${path}', delim = '|', header = false, auto_detect = false, columns = {${types}})`)
    }
  } finally {
    rmSync(dir, { recursive: true })
  }
  await connection.run(`CREATE TABLE region AS FROM (VALUES ${regions.map((name, i) => `(${i}, '${name}')`)}) t(r_regionkey, r_name)`)
  await connection.run(`CREATE TABLE nation AS FROM (VALUES ${nations.map(([name, region], i) => `(${i}, '${name}', ${region})`)}) t(n_nationkey, n_name, n_regionkey)`)
}

// The queries. Rows with the same sums would have no order without the last column of theirs.
function q1(until) {
  return `SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), sum(l_extendedprice * (1 - l_discount)),
      sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)), avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*)
    FROM lineitem WHERE l_shipdate <= DATE '${until}' GROUP BY ALL ORDER BY l_returnflag, l_linestatus`
}

function q3(segment, date) {
  return `SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
    FROM customer, orders, lineitem
    WHERE c_mktsegment = '${segment}' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
      AND o_orderdate < DATE '${date}' AND l_shipdate > DATE '${date}'
    GROUP BY l_orderkey, o_orderdate, o_shippriority ORDER BY revenue DESC, o_orderdate, l_orderkey LIMIT 10`
}

function q5(region, date) {
  return `SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
    FROM customer, orders, lineitem, supplier, nation, region
    WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey AND c_nationkey = s_nationkey
      AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = '${region}'
      AND o_orderdate >= DATE '${date}' AND o_orderdate < DATE '${date}' + INTERVAL 1 YEAR
    GROUP BY n_name ORDER BY revenue DESC, n_name`
}

async function theirs(sql) {
  const rows = (await connection.runAndReadAll(sql)).getRows()
  return rows.map((row) => row.map(String))
}

function ours(...words) {
  return JSON.parse(execFileSync(coppice, ['tpch', '--sf', scale, '--json', ...words], { stdio: ['ignore', 'pipe', 'inherit'] }))
}

// verify compares answers with many parameters; a process dies in every other job.
async function verify() {
  const cases = []
  for (const until of ['1998-09-02', '1998-08-03', '1995-06-17', '1992-01-01']) {
    cases.push([q1(until), '--query', '1', '--date', until])
  }
  for (const segment of ['AUTOMOBILE', 'BUILDING', 'FURNITURE', 'HOUSEHOLD', 'MACHINERY']) {
    for (const date of ['1995-03-01', '1995-03-31', '1993-11-11']) {
      cases.push([q3(segment, date), '--query', '3', '--segment', segment, '--date', date])
    }
  }
  for (const region of regions) {
    for (const date of ['1993-01-01', '1996-02-29', '1997-01-01']) {
      cases.push([q5(region, date), '--query', '5', '--region', region, '--date', date])
    }
  }
  let wrong = 0
  for (const [i, [sql, ...words]] of cases.entries()) {
    if (i % 2) words.push('-n', '3', '--kill', `${i % 3}@reduce#1`)
    const want = await theirs(sql)
    const got = ours(...words).rows.map((row) => row.map(String))
    if (JSON.stringify(got) !== JSON.stringify(want)) {
      console.log(`differs: ${words.join(' ')}\n  ours   ${JSON.stringify(got)}\n  theirs ${JSON.stringify(want)}`)
      wrong++
    }
  }
  console.log(`scale ${scale}: ${cases.length - wrong} of ${cases.length} answers are DuckDB's`)
  if (wrong) process.exitCode = 1
}

// time measures query 3 in turns, both on tables in memory: DuckDB's warm, ours the only one of its job.
async function time() {
  const sql = q3('BUILDING', '1995-03-15')
  const seconds = { ours: [], theirs: [], ratio: [] }
  for (let round = 0; round < Number(rounds); round++) {
    await theirs(sql)
    const began = performance.now()
    const want = await theirs(sql)
    const took = (performance.now() - began) / 1000
    const report = ours('-n', '2')
    if (JSON.stringify(report.rows.map((row) => row.map(String))) !== JSON.stringify(want)) {
      throw new Error(`ours ${JSON.stringify(report.rows)}, theirs ${JSON.stringify(want)}`)
    }
    seconds.theirs.push(took)
    seconds.ours.push(report.query_seconds)
    seconds.ratio.push(report.query_seconds / took)
  }
  const quartiles = (values) => [0.25, 0.5, 0.75].map((q) => values.sort((a, b) => a - b)[Math.floor(q * (values.length - 1))])
  const line = (name, values, unit) => {
    const [low, median, high] = quartiles(values).map((v) => v.toFixed(4))
    console.log(`  ${name.padEnd(24)} ${median}${unit} (${low}–${high})`)
  }
  console.log(`query 3, scale ${scale}, tables in memory, ${rounds} rounds in turns; medians and quartiles:`)
  line('coppice, 2 processes', seconds.ours, ' s')
  line('DuckDB, 2 threads', seconds.theirs, ' s')
  line('ratio', seconds.ratio, '')
}

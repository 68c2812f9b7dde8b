'use strict';
// Chains through code that isn't JavaScript's, and in threads with isolates of their own.
const vm = require('vm');
const crypto = require('crypto');
const { Worker, isMainThread, workerData } = require('worker_threads');

function spin(n) {
  let sum = 0;
  for (let i = 0; i < n; i++) sum = (sum + i * 7) % 1013;
  return sum;
}

// Its expression has no match, which takes many attempts.
const slow = /^(?:[a-z]+x?)*\d$/;
function matching() {
  return slow.test('abcdefghijklmnopqrs!');
}

// C++ in between: an API function runs a script, which calls back.
function fromScript() { return spin(150000); }
global.fromScript = fromScript;
const script = new vm.Script('fromScript()', { filename: 'inner.js' });
function throughApi() {
  return script.runInThisContext();
}

// C++ at the leaf.
const block = Buffer.alloc(1 << 18);
function hashing() {
  return crypto.createHash('sha256').update(block).digest()[0];
}

function* inner() {
  for (let i = 0; i < 4; i++) yield spin(40000);
}
function* delegating() {
  yield* inner();
}
function generators() {
  let sum = 0;
  for (const value of delegating()) sum += value;
  return sum;
}

async function* values() {
  for (let i = 0; i < 3; i++) {
    await null;
    yield spin(50000);
  }
}
async function asynchronous() {
  let sum = 0;
  for await (const value of values()) sum += value;
  return sum;
}
function continued() { return spin(100000); }
function promised() {
  return Promise.resolve().then(continued);
}

// (module: 0 is imported; 1 "spinInWasm", 2 "descend", 3 without a name calls the imported one)
const TEXT = (text) => [text.length, ...Buffer.from(text)];
const SECTION = (id, bytes) => [id, ...LEB(bytes.length), ...bytes];
function LEB(n) {
  const bytes = [];
  do { bytes.push((n & 127) | (n > 127 ? 128 : 0)); n >>= 7; } while (n);
  return bytes;
}
const BODY = (bytes) => [...LEB(bytes.length), ...bytes];
const module_ = Uint8Array.from([
  0, 0x61, 0x73, 0x6d, 1, 0, 0, 0,
  ...SECTION(1, [1, 0x60, 1, 0x7f, 1, 0x7f]),
  ...SECTION(2, [1, ...TEXT('e'), ...TEXT('f'), 0, 0]),
  ...SECTION(3, [3, 0, 0, 0]),
  ...SECTION(7, [2, ...TEXT('descend'), 0, 2, ...TEXT('back'), 0, 3]),
  ...SECTION(10, [3,
    // do { sum = (sum + n * 7) % 1013 } while (--n); return sum
    ...BODY([1, 1, 0x7f, 3, 0x40, 0x20, 1, 0x20, 0, 0x41, 7, 0x6c, 0x6a, 0x41, 0xf5, 7, 0x70, 0x21, 1,
      0x20, 0, 0x41, 1, 0x6b, 0x22, 0, 0x0d, 0, 0x0b, 0x20, 1, 0x0b]),
    // depth ? descend(depth - 1) + 1 : spinInWasm(200000)
    ...BODY([0, 0x20, 0, 4, 0x7f, 0x20, 0, 0x41, 1, 0x6b, 0x10, 2, 0x41, 1, 0x6a,
      5, 0x41, 0xc0, 0x9a, 0x0c, 0x10, 1, 0x0b, 0x0b]),
    ...BODY([0, 0x20, 0, 0x10, 0, 0x41, 1, 0x6a, 0x0b])]),
  ...SECTION(0, [...TEXT('name'), 1, 22, 2, 1, ...TEXT('spinInWasm'), 2, ...TEXT('descend')]),
]);
function imported(n) { return spin(n); }
const { descend, back } = new WebAssembly.Instance(new WebAssembly.Module(module_), { e: { f: imported } }).exports;
function intoWasm() {
  return descend(5);
}
function throughWasm() {
  return back(100000);
}

const parts = { matching, throughApi, hashing, generators, intoWasm, throughWasm };
async function run(names, seconds) {
  const end = Date.now() + seconds * 1000;
  while (Date.now() < end) {
    for (const name of names) {
      if (parts[name]) parts[name]();
    }
    if (names.includes('asynchronous')) {
      await asynchronous();
      await promised();
    } else {
      await new Promise(setImmediate);
    }
  }
}
if (isMainThread) {
  const seconds = Number(process.argv[2] || 10);
  const names = (process.argv[3] || Object.keys(parts).concat('asynchronous').join()).split(',');
  for (let i = 0; i < Number(process.argv[4] || 0); i++) new Worker(__filename, { workerData: { names, seconds } });
  run(names, seconds);
} else {
  run(workerData.names, workerData.seconds);
}

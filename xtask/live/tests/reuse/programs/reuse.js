// Defines a function, runs it for 25 ms of CPU time and frees it, again and again: reuse.js VARIANT SECONDS.
// Prints for each function: name, file, first line and CPU time in milliseconds.
'use strict';
const vm = require('vm');

function now() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

const LOOP = `(now, limit) {
  let total = 0;
  while (now() < limit) {
    for (let number = 0; number < 500; number++) total = (total + number * number) % 1021;
  }
  return total;
}`;

// A module with a function of that name: for (; count; count--) total += count.
function webAssembly(name) {
  const section = (kind, bytes) => [kind, bytes.length, ...bytes];
  const text = (string) => [string.length, ...Buffer.from(string)];
  const body = [
    1, 1, 0x7f, 3, 0x40, 0x20, 1, 0x20, 0, 0x6a, 0x21, 1, 0x20, 0, 0x41, 1, 0x6b, 0x22, 0, 0x0d, 0, 0x0b, 0x20, 1, 0x0b,
  ];
  const module = new WebAssembly.Module(new Uint8Array([
    0, 0x61, 0x73, 0x6d, 1, 0, 0, 0,
    ...section(1, [1, 0x60, 1, 0x7f, 1, 0x7f]),
    ...section(3, [1, 0]),
    ...section(7, [1, ...text('f'), 0, 0]),
    ...section(10, [1, body.length, ...body]),
    ...section(0, [...text('name'), ...section(1, [1, 0, ...text(name)])]),
  ]));
  const { f } = new WebAssembly.Instance(module).exports;
  return (now, limit) => { while (now() < limit) f(1000000); };
}

const digits = (index) => String(index).padStart(3, '0');

const make = {
  // Functions of the same shape, with names of the same length.
  functions(index) {
    const name = `f_${digits(index)}x`;
    return [`(function ${name}${LOOP})`, 'functions.js', name, 1];
  },
  // Functions with one name, on one line, in different files with long paths.
  files(index) {
    const file = `/srv/application/${digits(index)}/node_modules/plugins/handlers/base.js`;
    return [`(function run${LOOP})`, file, 'run', 1];
  },
  // Modules of one size.
  wasm(index) {
    const name = `f_${digits(index)}x`;
    return [webAssembly(name), 'wasm://wasm', name, '*'];
  },
  // Functions with one name, in one file, on different lines.
  lines(index) {
    return ['\n'.repeat(index) + `(function run${LOOP})`, 'lines.js', 'run', index + 1];
  },
};

const end = now() + Number(process.argv[3]) * 1000;
for (let index = 1; now() < end; index++) {
  let [text, filename, name, line] = make[process.argv[2]](index);
  let code = typeof text === 'function' ? text : new vm.Script(text, { filename }).runInThisContext();
  const start = now();
  code(now, start + 25);
  const used = now() - start;
  code = text = null;
  require('fs').writeSync(1, `${name}\t${filename}\t${line}\t${used}\n`);
  global.gc();
}

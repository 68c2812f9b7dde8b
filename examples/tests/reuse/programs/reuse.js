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
  // Functions with one name, in one file, on different lines.
  lines(index) {
    return ['\n'.repeat(index) + `(function run${LOOP})`, 'lines.js', 'run', index + 1];
  },
};

const end = now() + Number(process.argv[3]) * 1000;
for (let index = 1; now() < end; index++) {
  const [text, filename, name, line] = make[process.argv[2]](index);
  let code = new vm.Script(text, { filename }).runInThisContext();
  const start = now();
  code(now, start + 25);
  const used = now() - start;
  code = null;
  require('fs').writeSync(1, `${name}\t${filename}\t${line}\t${used}\n`);
  global.gc();
}

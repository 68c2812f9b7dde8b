'use strict';
// Burns a CPU at a depth of calls: DEPTH, and "one" function that calls itself or "each" call of a function of its own.
const [depth, kind] = [Number(process.argv[2]), process.argv[3]];

function burn() {
  let total = 0;
  for (let number = 0; number < 20000; number++) total = (total + number * number) % 1013;
  return total;
}

function descend(depth, isLong) {
  if (depth > 1) return descend(depth - 1, isLong) + 1;
  let total = 0;
  do total += isLong ? burn() : 1; while (isLong);
  return total;
}

// Functions of some lines, each with a name.
let last = descend;
function chain(count) {
  let text = '';
  for (let number = 0; number < count; number++) {
    text += `function step${number}(next, isLong) {
      let at = next;
      at = at + 1;
      return ${number ? `step${number - 1}` : 'descend'}(at > 0 ? 1 : at, isLong) + 1;
    }\n`;
  }
  const name = `step${count - 1}`;
  return require('vm').runInThisContext(`(function (descend) {\n${text} return ${name};\n})`, { filename: 'steps.js' })(descend);
}
if (kind === 'each') last = chain(depth);

// Calls until the compilers are done.
for (let round = 0; round < (kind === 'each' ? 5000 : 50000); round++) last(kind === 'each' ? 1 : 5, false);
console.log('ready');
last(kind === 'each' ? 1 : depth, true);

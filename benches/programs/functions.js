'use strict';
// Burns a CPU at a given depth of calls of different functions until it is ended: functions.js DEPTH
function burn() {
  let total = 0;
  for (let number = 0; number < 20000; number++) total = (total + number * number) % 1013;
  return total;
}

function descend1(rounds) {
  let total = 0;
  while (rounds-- > 0) total += burn();
  return total;
}

// The main script and the innermost function are frames too.
const depth = Number(process.argv[2]) - 2;
let text = '';
for (let level = 2; level <= depth; level++) {
  text += `function descend${level}(rounds) { return descend${level - 1}(rounds) + 1; }\n`;
}
const descend = eval(`${text}descend${depth}`);

// Calls until the compilers are done.
for (let round = 0; round < 20000; round++) descend(round % 100 ? 0 : 1);
console.log('ready');
// A small integer: another value would end the optimized code.
descend(2 ** 30 - 1);

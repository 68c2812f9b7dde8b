'use strict';
// Burns a CPU at a given depth of calls until it is ended: spin.js DEPTH
function burn() {
  let total = 0;
  for (let number = 0; number < 20000; number++) total = (total + number * number) % 1013;
  return total;
}

function descend(depth, rounds) {
  if (depth > 1) return descend(depth - 1, rounds) + 1;
  let total = 0;
  while (rounds-- > 0) total += burn();
  return total;
}

// Calls until the compilers are done.
for (let round = 0; round < 20000; round++) descend(10, round % 100 ? 0 : 1);
console.log('ready');
// The main script and the innermost function are frames too.
// A small integer: another value would end the optimized code.
descend(Number(process.argv[2]) - 2, 2 ** 30 - 1);

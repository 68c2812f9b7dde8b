// Runs a known chain of functions for as many seconds as the first argument says:
// outer, then middle 20 times, then spin.
const seconds = Number(process.argv[2] || 5);
const end = Date.now() + seconds * 1000;

function spin() {
  let sum = 0;
  for (let i = 0; i < 20000; i++) sum = (sum * 31 + i) | 0;
  return sum;
}

function middle(depth) {
  return depth === 1 ? spin() + 1 : middle(depth - 1) + 1;
}

function outer() {
  return middle(20) + 1;
}

// V8 writes its files through a buffer: more code pushes out that of the functions above.
for (let i = 0; i < 2000; i++) outer();
for (let i = 0; i < 200; i++) new Function(`return ${i}`)();
while (Date.now() < end) outer();

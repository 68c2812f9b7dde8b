// Methods that call themselves below a callback of map, then a function that spins; compiled code where `warm` is given.
class Shape {
  area(n) {
    return n > 0 ? this.area(n - 1) : leaf();
  }
}
let rounds = process.argv[2] === 'warm' ? 200000 : 0;
let count = 0;
function step(n) { return n + 1; }
function leaf() {
  if (rounds > 0) { rounds--; count = step(count); return count; }
  require('fs').writeSync(1, 'ready\n');
  for (;;) { count = step(count); }
}
function each(n) {
  return new Shape().area(n);
}
while (rounds > 0) [2].map(each);
[2].map(each);

// Says that it works, and works for as many seconds as its argument says.
function inner(count) {
  let sum = 0;
  for (let index = 0; index < count; index++) sum += Math.sqrt(index);
  return sum;
}
function middle(count) {
  let sum = 0;
  for (let index = 0; index < 50; index++) sum += inner(count);
  return sum;
}
function outer() {
  return middle(2000);
}
outer();
console.log("works");
const end = Date.now() + 1000 * Number(process.argv[2]);
while (Date.now() < end) outer();

// Runs until it is ended, ten calls deep.
function leaf(seed) {
  for (let round = 0; round < 20000; round++) seed = (seed * 31) % 1000003;
  return seed;
}

function descend(depth, seed) {
  if (depth === 0) for (;;) seed = leaf(seed);
  return descend(depth - 1, seed + 1) + 1;
}

descend(10, 1);

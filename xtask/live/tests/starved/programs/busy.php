<?php
// Says that it works, and works for as many seconds as its argument says.
function inner($count) { $sum = 0; for ($index = 0; $index < $count; $index++) $sum += sqrt($index); return $sum; }
function middle($count) { $sum = 0; for ($index = 0; $index < 50; $index++) $sum += inner($count); return $sum; }
function outer() { return middle(2000); }
outer();
echo "works\n";
$end = time() + (int) $argv[1];
while (time() < $end) outer();

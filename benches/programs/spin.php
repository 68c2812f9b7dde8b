<?php
// Burns a CPU at a given depth of calls, for a given number of seconds: spin.php DEPTH SECONDS
function burn()
{
    for ($total = 0, $number = 0; $number < 20000; $number++) {
        $total += $number * $number % 1021;
    }
    return $total;
}

function descend($depth, $deadline)
{
    if ($depth > 1) {
        return descend($depth - 1, $deadline);
    }
    while (microtime(true) < $deadline) {
        burn();
    }
}

echo "ready\n";
// The main script and the innermost function are frames too.
descend($argv[1] - 2, microtime(true) + $argv[2]);

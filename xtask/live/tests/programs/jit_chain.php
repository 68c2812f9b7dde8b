<?php
// Runs a known chain of functions for as many seconds as the first argument says: outer, then middle 20 times, then spin.

function spin()
{
    $sum = 0;
    for ($i = 0; $i < 20000; $i++) {
        $sum = ($sum * 31 + $i) & 0xffffff;
    }
    return $sum;
}

function middle($depth)
{
    return $depth == 1 ? spin() + 1 : middle($depth - 1) + 1;
}

function outer()
{
    return middle(20) + 1;
}

$end = microtime(true) + $argv[1];
while (microtime(true) < $end) {
    outer();
}

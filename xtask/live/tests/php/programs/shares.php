<?php
// Spends its time in four functions, some 1 : 2 : 3 : 4, for the seconds of the argument, and prints the samples of excimer:
//
//     ready<NEWLINE>
//     function<TAB>samples<NEWLINE>

function first(int $turns): int
{
    for ($sum = 0; $turns > 0; $turns--) {
        $sum = ($sum * 31 + $turns) % 65521;
    }
    return $sum;
}

function second(int $turns): int
{
    for ($sum = 0; $turns > 0; $turns--) {
        $sum = ($sum * 31 + $turns) % 65521;
    }
    return $sum;
}

function third(int $turns): int
{
    for ($sum = 0; $turns > 0; $turns--) {
        $sum = ($sum * 31 + $turns) % 65521;
    }
    return $sum;
}

function fourth(int $turns): int
{
    for ($sum = 0; $turns > 0; $turns--) {
        $sum = ($sum * 31 + $turns) % 65521;
    }
    return $sum;
}

// Of random lengths: the samples of both profilers are regular.
function round_of_all(): int
{
    $turns = mt_rand(1000, 9000);
    return first($turns) + second(2 * $turns) + third(3 * $turns) + fourth(4 * $turns);
}

$profiler = new ExcimerProfiler();
$profiler->setPeriod(0.005);
$profiler->setEventType(EXCIMER_CPU);
$profiler->setMaxDepth(10);
$profiler->start();
echo "ready\n";
$ends = microtime(true) + (float) $argv[1];
while (microtime(true) < $ends) {
    round_of_all();
}
$profiler->stop();
foreach ($profiler->getLog()->aggregateByFunction() as $function => $counts) {
    echo "$function\t{$counts['self']}\n";
}

<?php
// Defines a closure, runs it for 25 ms of CPU time and frees it, again and again: reuse.php VARIANT SECONDS.
// Prints for each closure: any name, any file, first line and CPU time in milliseconds.
function now() {
    $usage = getrusage();
    return ($usage['ru_utime.tv_sec'] + $usage['ru_stime.tv_sec']) * 1000
        + ($usage['ru_utime.tv_usec'] + $usage['ru_stime.tv_usec']) / 1000;
}

const BODY = 'return function ($limit) { $total = 0; while (now() < $limit) {
    for ($number = 0; $number < 500; $number++) { $total = ($total + $number * $number) % 1021; }
} return $total; };';

$end = now() + (float) $argv[2] * 1000;
for ($line = 1000; now() < $end; $line++) {
    $code = eval(str_repeat("\n", $line - 1) . BODY);
    $start = now();
    $code($start + 25);
    $used = now() - $start;
    unset($code);
    gc_collect_cycles();
    echo "*\t*\t$line\t$used\n";
}

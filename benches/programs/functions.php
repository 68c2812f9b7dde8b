<?php
// Burns a CPU at a given depth of calls of different functions, for a given number of seconds: functions.php DEPTH SECONDS
function burn()
{
    for ($total = 0, $number = 0; $number < 20000; $number++) {
        $total += $number * $number % 1021;
    }
    return $total;
}

function descend_1($deadline)
{
    while (microtime(true) < $deadline) {
        burn();
    }
}

// The main script and the innermost function are frames too.
$depth = $argv[1] - 2;
$text = '';
for ($level = 2; $level <= $depth; $level++) {
    $text .= "function descend_$level(\$deadline)\n{\n    return descend_" . ($level - 1) . "(\$deadline);\n}\n";
}
eval($text);

echo "ready\n";
"descend_$depth"(microtime(true) + $argv[2]);

<?php
// Methods that call themselves below a closure that array_map calls, then a function that spins.
class Shape {
    function area($n) {
        return $n > 0 ? $this->area($n - 1) : leaf();
    }
}
function leaf() {
    echo "ready\n";
    while (true);
}
array_map(function ($n) {
    return (new Shape)->area($n);
}, [2]);

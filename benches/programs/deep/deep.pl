# Runs until it is ended, ten calls deep.
use strict;

sub leaf {
    my ($seed) = @_;
    $seed = $seed * 31 % 1000003 for 1 .. 20000;
    return $seed;
}

sub descend {
    my ($depth, $seed) = @_;
    while ($depth == 0) {
        $seed = leaf($seed);
    }
    return descend($depth - 1, $seed + 1) + 1;
}

descend(10, 1);

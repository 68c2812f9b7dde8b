# Spends its time in four subs, some 1 : 2 : 3 : 4, for the seconds of the argument. Prints "ready".

use strict;
use warnings;
use Time::HiRes ();

sub first { my ($turns, $sum) = (@_, 0); $sum = ($sum * 31 + $_) % 65521 for 1 .. $turns; return $sum; }
sub second { my ($turns, $sum) = (@_, 0); $sum = ($sum * 31 + $_) % 65521 for 1 .. $turns; return $sum; }
sub third { my ($turns, $sum) = (@_, 0); $sum = ($sum * 31 + $_) % 65521 for 1 .. $turns; return $sum; }
sub fourth { my ($turns, $sum) = (@_, 0); $sum = ($sum * 31 + $_) % 65521 for 1 .. $turns; return $sum; }

# Of random lengths: samples are regular.
sub round_of_all {
    my $turns = 1000 + int rand 8000;
    return first($turns) + second(2 * $turns) + third(3 * $turns) + fourth(4 * $turns);
}

$| = 1;
print "ready\n";
my $ends = Time::HiRes::time() + $ARGV[0];
round_of_all() while Time::HiRes::time() < $ends;

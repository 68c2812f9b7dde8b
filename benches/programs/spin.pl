# Burns a CPU at a given depth of calls, for a given number of seconds: spin.pl DEPTH SECONDS
use strict;
no warnings 'recursion';

sub burn {
    my $total = 0;
    $total += $_ * $_ % 1021 for 1 .. 20000;
    return $total;
}

sub descend {
    my ($depth, $deadline) = @_;
    return 1 + descend($depth - 1, $deadline) if $depth > 1;
    burn() while time < $deadline;
}

$| = 1;
print "ready\n";
# The main program and the innermost sub are frames too.
descend($ARGV[0] - 2, time + $ARGV[1]);

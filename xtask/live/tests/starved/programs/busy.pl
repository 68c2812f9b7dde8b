# Says that it works, and works for as many seconds as its argument says.
use strict;
use warnings;
sub inner { my $sum = 0; $sum += sqrt $_ for 0 .. $_[0]; return $sum; }
sub middle { my $sum = 0; $sum += inner($_[0]) for 1 .. 50; return $sum; }
sub outer { return middle(2000); }
outer();
$| = 1;
print "works\n";
my $end = time + $ARGV[0];
outer() while time < $end;

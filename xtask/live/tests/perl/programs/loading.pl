# Loads a copy of a library before each call of a chain with another depth, so that stacks are unwound from copies all the time, while
# the frames of Perl change.
use strict;
use warnings;
no warnings 'recursion';
use DynaLoader;
use File::Temp 'tempdir';
use List::Util;
use Time::HiRes 'time';

package Chains;

sub leaf {
    my ($end, $sum) = (main::time() + 0.004, 0);
    while (main::time() < $end) {
        $sum += $_ for 1 .. 50;
    }
    return $sum;
}

sub down {
    my $count = shift;
    return $count ? 1 + down($count - 1) : 1 + leaf();
}

eval "sub run_$_ { return 1 + down($_) } 1" or die $@ for 1 .. 20;

package main;

my ($library) = map { DynaLoader::dl_findfile("-L$_/auto/List/Util", 'Util.so') } @INC;
my $folder = tempdir(CLEANUP => 1);
open my $original, '<:raw', $library or die "$library: $!";
my $code = do { local $/; <$original> };
$| = 1;
print "pid\t$$\nready\n";
for (my $round = 0; ; $round++) {
    my $file = "$folder/$round.so";
    open my $copy, '>:raw', $file or die "$file: $!";
    print $copy $code;
    close $copy;
    my $loaded = DynaLoader::dl_load_file($file, 0) or die DynaLoader::dl_error();
    unlink $file;
    Chains->can('run_' . ($round % 20 + 1))->();
    DynaLoader::dl_unload_file($loaded);
}

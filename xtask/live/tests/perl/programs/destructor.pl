# Frees objects whose destructor is a function in C, which takes most of the time.
use strict;
use warnings;
use Storable ();

my @many = map { [$_] } 1 .. 20_000;

{ no warnings 'prototype'; sub Freed::DESTROY; *Freed::DESTROY = \&Storable::mstore; }

sub inner {
    my $object = bless [@many], 'Freed';
    undef $object;
}

sub outer { inner() }

$| = 1;
print "ready\n";
outer() while 1;

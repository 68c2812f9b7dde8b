# Defines a sub, runs it for 25 ms of CPU time and frees it, again and again: reuse.pl VARIANT SECONDS.
# Prints for each sub: name, file, first line and CPU time in milliseconds.
use strict;
no strict 'refs';
no warnings;

# The CPU time of the process, without modules.
sub now {
    my $time = "\0" x 16;
    syscall(228, 2, $time);
    my ($seconds, $nanoseconds) = unpack('qq', $time);
    return $seconds * 1000 + $nanoseconds / 1e6;
}

my $loop = <<'END';
my ($until) = @_; my $total = 0;
while (main::now() < $until) {
    for my $number (1 .. 500) { $total = ($total + $number * $number) % 1021; }
}
END

my %make = (
    # Subs of the same shape, with names of the same length.
    subs => sub { my $name = sprintf 'f_%03dx', @_; ("sub $name {\n$loop}\n1", $name, "main::$name", '*', '*') },
    # Subs with one name in different packages.
    packages => sub { my $package = sprintf 'P_%03d', @_; ("package $package; sub run {\n$loop}\n1", "${package}::run", "${package}::run", '*', '*') },
    # Subs without a name in different files with long paths.
    anonymous => sub {
        my $file = sprintf '/usr/share/application/plugins/%03d/lib/perl5/Handlers/Base.pm', @_;
        ("#line 1 \"$file\"\nsub {\n$loop}", undef, 'main::__ANON__', $file, '*');
    },
    # Code of evals, with different files.
    evals => sub { my $file = sprintf '/usr/share/eval_%03d.pl', @_; ("\n#line 1 \"$file\"\n$loop", '', '(eval)', $file, '*') },
);

my $make = $make{$ARGV[0]};
my $end = now() + $ARGV[1] * 1000;
for (my $index = 1; now() < $end; $index++) {
    my ($text, $name, $shown, $file, $line) = $make->($index);
    my $start = now();
    if (!defined $name) {
        my $code = eval $text or die $@;
        $start = now();
        $code->($start + 25);
        undef $code;
    } elsif ($name eq '') {
        @_ = ($start + 25);
        eval $text;
    } else {
        eval $text or die $@;
        $start = now();
        &$name($start + 25);
        undef &$name;
        my ($package, $short) = $name =~ /^(?:(.*)::)?(.*)$/;
        if ($package) { undef %{"${package}::"}; delete $main::{"${package}::"} } else { delete $main::{$short} }
    }
    printf "%s\t%s\t%s\t%.2f\n", $shown, $file, $line, now() - $start;
}

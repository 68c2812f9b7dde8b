# Calls the chain named by the first argument and spins at its end, after having printed Perl's own backtrace:
#
#     chain
#     frame<TAB>sub<TAB>file<TAB>line         leaf first
#     ready
#
# Lines with the comment "spin" are those on which the innermost sub may be. With "threads FOLDER" before them, the further
# arguments are chains, each of which runs in a thread of that name, prints to a file of that name in the folder, and
# waits for a file "go" there.

package Chains;

use strict;
use warnings;
use utf8;
use List::Util ();

my $ends = time + 120;

# The folder to which threads print.
my $folder;

# Prints the chain that leads here.
sub announce {
    my @frames;
    for (my $depth = 0; my (undef, $file, $line) = (caller $depth)[0 .. 2]; $depth++) {
        my ($sub) = \((caller $depth + 1)[3]);
        # `caller` has the format itself in place of its name.
        my $name = !$sub ? '{main}' : ref $sub eq 'FORMAT' ? 'Chains::PAGE' : $$sub // '{main}';
        push @frames, "frame\t$name\t$file\t$line\n";
    }
    # All threads share the descriptor of STDOUT, which would stay that of a file opened in its place.
    my $output = defined $folder ? undef : \*STDOUT;
    open $output, '>', $folder . '/' . $0 or die if defined $folder;
    binmode $output, ':utf8';
    select((select($output), $| = 1)[0]);
    print $output "chain\n", @frames, "ready\n";
    # Threads that spin would delay the next ones.
    sleep 1 until !defined $folder || -e "$folder/go";
}

# The end of every chain.
sub leaf {
    announce();
    my $sum = 0;
    while (time < $ends) {                              # spin
        for my $i (1 .. 20000) {                        # spin
            $sum = ($sum * 31 + $i) % 65521;            # spin
            $sum ^= $i;                                 # spin
        }
    }
    return $sum;
}

sub two_lines {
    announce();
    my $sum = 0;
    while (1) {
        for my $i (1 .. 100000) { $sum = ($sum * 31 + $i) % 65521; }     # spin
        for my $i (1 .. 100000) { $sum = ($sum * 31 + $i) % 65521; }     # spin
    }
}

sub recursion {
    my ($depth) = @_;
    if ($depth > 0) {
        for my $step (1) {
            return 1 + recursion($depth - 1);
        }
    }
    return leaf();
}

sub compare {
    leaf();
    return $a <=> $b;
}

sub compare_in_eval {
    eval { recursion(1) };
    return $a <=> $b;
}

sub evaluates { return eval { recursion(1) }; }

sub has_evaluated {
    eval { 1 };
    return recursion(1);
}

package Derived {
    our @ISA = ('Base');
    sub method { my ($self) = @_; return $self->SUPER::method(3); }
    sub AUTOLOAD { return if our $AUTOLOAD =~ /DESTROY/; return Chains::recursion(2); }
}

package Base {
    sub new { return bless {}, $_[1] // 'Derived'; }
    sub method {
        my ($self, $depth) = @_;
        return $depth > 0 ? Base::method($self, $depth - 1) : $self->missing;
    }
}

package Overloaded {
    use overload '+' => sub { return Chains::recursion(1); }, '""' => \&text;
    sub text { return 1 + shift; }
}

package Tied {
    sub TIESCALAR { return bless []; }
    sub FETCH { return Chains::leaf(); }
}

package Dying {
    sub DESTROY { Chains::leaf(); }
}

package DyingInEval {
    sub DESTROY { eval { Chains::leaf() }; }
}

package TiedInEval {
    sub TIESCALAR { return bless []; }
    sub FETCH { return eval "Chains::leaf()"; }
}

package Missing {
    sub AUTOLOAD { our $AUTOLOAD; return Chains::recursion(1) unless $AUTOLOAD =~ /DESTROY/; }
}

package TiedHash {
    sub TIEHASH { return bless {}; }
    sub STORE { return Chains::recursion(2); }
}

package Compared {
    use overload '<=>' => sub { return Chains::leaf(); }, 'cmp' => 'text', 'bool' => sub { 1 };
    sub text { return Chains::recursion(1); }
}

package Chains;

sub größe { return leaf(); }

sub forwards { goto &recursion; }

# Evaluates subs with other names at other lines, whose memory is that of the former ones.
sub reuses {
    for my $number (1 .. 500) {
        no strict 'refs';
        eval "\n" x $number . "sub used_$number { my \$text = 'x' x $number; return length \$text }\nused_$number()";
        undef &{"used_$number"};
        delete $Chains::{"used_$number"};
    }
    return eval "\n\nsub used_last { return leaf(); }\nused_last()";
}

format PAGE =
@<<<<<<
recursion(1)
.

my %chains = (
    recursion => sub { recursion($_[0]) },
    methods => sub { Base->new('Derived')->method },
    sort_sub => sub { my @sorted = sort compare 3, 1, 2; },
    sort_block => sub { my @sorted = sort { recursion(1); $a <=> $b } 3, 1, 2; },
    map => sub { map { recursion(1) } 1 },
    eval_block => sub { eval { recursion(1) } },
    eval_string => sub { eval "\n\nrecursion(1)\n" },
    closures => sub { my $inner = sub { leaf() }; my $outer = sub { $inner->() }; $outer->() },
    overload => sub { my $text = 'x' . bless([], 'Overloaded'); },
    tie => sub { tie my $tied, 'Tied'; my $value = $tied + 1; },
    destructor => sub { my $dying = bless [], 'Dying'; undef $dying; },
    goto => sub { goto &leaf },
    die => sub { local $SIG{__DIE__} = sub { leaf() }; eval { die "expected\n" } },
    warn => sub { local $SIG{__WARN__} = sub { leaf() }; warn "expected\n" },
    substitution => sub { (my $text = 'abc') =~ s/b/leaf()/e },
    two_lines => sub { two_lines() },
    sort_call => sub { my @sorted = sort { leaf() } 3, 1, 2; },
    sort_sub_eval => sub { my @sorted = sort compare_in_eval 3, 1, 2; },
    sort_block_eval => sub { my @sorted = sort { eval { recursion(1) }; $a <=> $b } 3, 1, 2; },
    sort_block_string => sub { my @sorted = sort { eval "recursion(1)"; $a <=> $b } 3, 1, 2; },
    sort_after_eval => sub { my @sorted = sort { eval { 1 }; recursion(1); $a <=> $b } 3, 1, 2; },
    sort_called_eval => sub { my @sorted = sort { evaluates(); $a <=> $b } 3, 1, 2; },
    sort_called_after_eval => sub { my @sorted = sort { has_evaluated(); $a <=> $b } 3, 1, 2; },
    sort_leaf_after_eval => sub { my @sorted = sort { eval { 1 }; leaf(); $a <=> $b } 3, 1, 2; },
    sort_nested => sub {
        my @sorted = sort { eval { my @inner = sort { eval { recursion(1) }; 0 } 2, 1; }; 0 } 2, 1;
    },
    eval_in_eval => sub { my @sorted = sort { eval { eval { recursion(1) } }; 0 } 2, 1; },
    eval_around => sub { eval { my @sorted = sort { eval { recursion(1) }; 0 } 2, 1; } },
    map_eval => sub { map { eval { recursion(1) } } 1 },
    first_eval => sub { List::Util::first { eval { recursion(1) } } 1 },
    reduce_eval => sub { List::Util::reduce { eval { recursion(1) } } 1, 2 },
    tie_eval => sub { tie my $tied, 'TiedInEval'; my $value = $tied + 1; },
    destructor_eval => sub { my $dying = bless [], 'DyingInEval'; undef $dying; },
    die_eval => sub { local $SIG{__DIE__} = sub { eval { leaf() } }; eval { die "expected\n" } },
    regex_code => sub { 'abc' =~ /b(?{ recursion(1) })/ },
    first => sub { List::Util::first { recursion(1) } 1 },
    reduce => sub { List::Util::reduce { leaf() } 1, 2 },
    autoload => sub { Missing::sub_of_this_name(1) },
    autoload_method => sub { Missing->method_of_this_name },
    tie_hash => sub { tie my %tied, 'TiedHash'; $tied{key} = 1; },
    overload_compare => sub { my @sorted = sort { $a <=> $b } map { bless [], 'Compared' } 1, 2; },
    overload_method => sub { my $is_less = bless([], 'Compared') lt 'text'; },
    goto_recursion => sub { forwards(5) },
    format => sub { open PAGE, '>', '/dev/null' or die; write PAGE; },
    reused => sub { reuses() },
    symbolic => sub { my $name = 'recursion'; no strict 'refs'; &$name(1) },
    can => sub { Chains->can('recursion')->(1) },
    names => sub {
        require Sub::Util;
        return Sub::Util::set_subname('Chains::' . 'long' x 250, sub { größe() })->();
    },
);

if ($ARGV[0] eq 'threads') {
    require threads;
    (undef, $folder, my @names) = @ARGV;
    my $run = sub {
        ($0) = @_;
        $chains{$0}->(0);
    };
    $_->join for map { threads->create($run, $_) } @names;
} else {
    $chains{$ARGV[0]}->($ARGV[1] // 0);
}

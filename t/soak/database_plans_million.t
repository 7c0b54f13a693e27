# The plans of id_database_plans.t, on a million sessions: what it asserts is
# asserted here, and that it did look.

use v5.36;

use Test::More;

$ENV{PLATFORM_TEST_SESSIONS} = 1_000_000;
open my $tap, q{-|}, $^X, qw(-It/lib t/id_database_plans.t) or die "perl: $!\n";
my %seen;
while (my $line = <$tap>) {
    my ($failed, $name) = $line =~ /\A(not )?ok \d+ - (.*)$/ or next;
    ok !$failed, $name;
    $seen{ $name =~ s/\A\d+ of them/of them/r }++;
}
close $tap;
is $?, 0, 'all of it passes, to its end';
is $seen{$_->[0]} // 0, $_->[1], "it has told: $_->[0]"
    for [ '1000000 sessions', 1 ], [ 'no statement reads a whole table', 2 ],
    [ 'one that does would be seen', 1 ], [ 'of them HOT', 1 ],
    [ '1000000 sessions, one: nested loops alone', 1 ],
    [ '1000000 sessions, one: the same indexes', 1 ],
    [ 'a plan of: SET jti =', 1 ], [ 'a plan of: session_id = ANY', 1 ];

done_testing();

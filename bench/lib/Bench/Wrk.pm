package Bench::Wrk;

# Runs wrk with bench/wrk.lua, and reads what it says.

use strict;
use warnings;

use POSIX ();

use Platform::Test::Env;

use Exporter qw(import);
our @EXPORT = qw(wrk);

sub program { return Platform::Test::Env::find('wrk') }

# What a run's line tells: a hash, with refused => why where it went wrong.
sub parse {
    my ($said) = @_;

    my ($line) = $said =~ /^BENCH (.*)$/m
        or return { refused => 'wrk: ' . ($said =~ s/\s+/ /gr) };
    my %got = map { split /=/, $_, 2 } split ' ', $line;
    for my $error (qw(connect read write timeout)) {
        $got{refused} //= "$got{$error} $error errors" if $got{$error};
    }
    $got{refused} //= $got{wrong} =~ tr/_/ /r if $got{wrong} ne '';
    $got{refused} //= 'no answer' if !$got{requests};
    $got{rate} = $got{requests} / ($got{us} / 1e6) if $got{us} > 0;
    return \%got;
}

# url; connections; seconds, a whole number; core => N, where it may run;
# headers => ["Name: value", ...]; args => { name => value } for wrk.lua.
sub wrk {
    my (%o) = @_;

    my $wrk = program()
        // die "bench: wrk is not installed (Debian package wrk)\n";
    my @cmd = (qw(setpriv --pdeathsig TERM --),
        (defined $o{core} ? ('taskset', '-c', $o{core}) : ()), $wrk,
        '-t1', "-c$o{connections}", "-d$o{seconds}s", '--timeout', '10s', '-s',
        Platform::Test::Env::root() . '/bench/wrk.lua',
        (map { ('-H', $_) } @{ $o{headers} // [] }), $o{url}, '--',
        map {"$_=$o{args}{$_}"} grep { defined $o{args}{$_} }
            sort keys %{ $o{args} });
    my $pid = open(my $fh, '-|') // die "fork: $!\n";
    if ($pid == 0) {
        open STDERR, '>&', \*STDOUT;
        exec @cmd or POSIX::_exit(127);
    }
    local $/;
    my $said = <$fh> // '';
    close $fh;
    return parse($said);
}

1;

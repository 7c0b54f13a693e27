package Bench::Identity::Measure;

# One round of load, and the floors of the same moment.

use strict;
use warnings;

use JSON::PP;

use Bench::Identity::Stage;

use Exporter qw(import);
our @EXPORT = qw(calibrate calibrate_updates load_round);

my $json = JSON::PP->new->utf8;
my $cores = do {
    my $n = `nproc`;
    $n + 0;
};

# How the floors are measured: [name, threads, pause in microseconds].  One
# client leaves the cores asleep for much of the time, and what wakes up is
# slower; many keep them all busy, and the cores of a machine may share what
# makes them fast.
our $PAUSE_US = 3000;
our @LOADS = ([ paused => 1, $PAUSE_US ], [ one => 1, 0 ], [ all => $cores, 0 ]);

# What the cryptography costs now, in microseconds of processor time; and how
# often a second ("rate") all cores together do it.
sub calibrate {
    my ($stage, $ms, @kinds) = @_;

    my %floor;
    for my $kind (@kinds) {
        for my $load (@LOADS) {
            my ($name, $threads, $pause) = @$load;
            my $got = _floor($stage, $stage->{key_file}, $ms, $threads,
                $kind, $pause);
            $floor{$name}{$kind} = $got->{cpu_us};
            $floor{rate}{$kind} = $got->{rate} if $name eq 'all';
        }
    }
    return \%floor;
}

# Durable one-row UPDATEs a second: of one client, and of as many as the
# service has connections.
sub calibrate_updates {
    my ($stage, $ms) = @_;

    return {
        map {
            $_ => _floor($stage, $stage->conninfo, $ms, $_, 'update')->{rate}
        } 1, $Bench::Identity::Stage::THREADS
    };
}

sub _floor {
    my ($stage, @args) = @_;

    my ($status, $said) = $stage->run('floors', @args);
    die "floors @args[1 .. $#args] failed: $said\n" if $status != 0;
    return $json->decode($said);
}

# Runs the load generator against a backend: what it printed, and processor
# time per request by who used it.  A round with an error in it is refused:
# undef, after a line on standard error.
sub load_round {
    my ($stage, $backend, @args) = @_;

    my $before = $stage->cpu($backend);
    my ($status, $said) = $stage->run('load',
        '--port', $stage->port($backend), @args);
    my $after = $stage->cpu($backend);
    my $round = eval { $json->decode($said) };
    if ($status != 0 || !$round || $round->{error} ne ''
        || $round->{requests} == 0)
    {
        print STDERR "refused, $backend: "
            . ($round ? $round->{error} || 'no requests' : $said) . "\n";
        return undef;
    }
    my %cpu = map {
        $_ => ($after->{$_} - $before->{$_}) / $round->{requests}
    } keys %$before;
    $cpu{load} = delete $round->{cpu_us};
    return { %$round, cpu => \%cpu };
}

1;

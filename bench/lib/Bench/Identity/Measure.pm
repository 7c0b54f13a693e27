package Bench::Identity::Measure;

# One round of load, and the floors of the same moment.

use strict;
use warnings;

use JSON::PP;

use Bench::Identity::Stage;

use Exporter qw(import);
our @EXPORT = qw(calibrate load_round);

my $json = JSON::PP->new->utf8;
my $cores = do {
    my $n = `nproc`;
    $n + 0;
};

# What the cryptography costs now, in microseconds of processor time: with one
# thread on an otherwise idle machine ("one") and with every core at work
# ("all"), since the cores of a machine may share what makes them fast.
sub calibrate {
    my ($stage, $ms, @kinds) = @_;

    my %floor;
    for my $kind (@kinds) {
        for my $load ([ one => 1 ], [ all => $cores ]) {
            my ($status, $said) = $stage->run('floors', $stage->{key_file},
                $ms, $load->[1], $kind);
            die "floors $kind failed: $said\n" if $status != 0;
            $floor{ $load->[0] }{$kind} = $json->decode($said)->{cpu_us};
        }
    }
    return \%floor;
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

# Clients that hold all connections of a worker, or all of its descriptors, do
# not stop the key set from being refreshed: a fetch has one of its own.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Keys;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep);

my $ALL = 64;

my $t = Platform::Test->new;
my ($key, $new) = map { jwt_key($_) } qw(a b);
my $issuer = $t->issuer(body => jwks($key));
my $port = $t->port('gateway');
my ($address) = map {"127.0.0.1:$_"} $issuer->port;

sub configure {
    my ($passed, $main) = @_;

    my $nginx = keys_gateway($t, main => "worker_processes 1; $main",
        keys => <<"KEYS");
upstream keys { server $address; keepalive 4; }
platform_gateway_key_cooldown 1s;
platform_gateway_key_soft_age 2s;
KEYS
    $t->write_file('nginx.conf', $t->read_file('nginx.conf')
            =~ s/worker_connections \d+/worker_connections $ALL/r
            =~ s{http://\Q$address\E/}{http://$passed/}r);
    return $nginx;
}

# A request that lacks its last line.
sub half {
    my ($key) = @_;

    my $c = Platform::Test::Http->new(port => $port);
    $c->send(http_request_bytes(GET => '/branch',
        token => jwt_token('branch', $key)) =~ s/\r\n\z//r);
    return $c;
}

# Clients that wait for whatever is free for a moment.
sub greedy {
    my $parent = $$;
    my $pid = fork // die "fork: $!\n";
    return $pid if $pid;
    my @c;
    while (getppid == $parent) {
        eval { push @c, half($new) };
        shift @c if @c > 50;
        sleep 0.005;
    }
    POSIX::_exit(0);
}

sub new_sets { return scalar(() = $_[0]->error_log =~ /: new key set, /g) }

$t->allow(qr/$ALL worker_connections are not enough/,
    qr/accept4\(\) failed \(24: /);

my %case = (
    'one connection a fetch' => [ $address, '' ],
    'kept alive'             => [ 'keys', '' ],
    'few descriptors'        => [ $address, 'worker_rlimit_nofile 48;' ],
);
for my $what (sort keys %case) {
    $issuer->set(body => jwks($key));
    my $nginx = configure(@{ $case{$what} });
    $t->start_nginx;
    ok eventually(sub { keys_get($t, $key)->status == 200 }), "$what: starts";

    my $said = length $nginx->error_log;
    my @held = map { half($new) } 1 .. $ALL + 16;
    ok eventually(sub {
        substr($nginx->error_log, $said) =~ /accept4\(\) failed|not enough\n/
    }), "$what: there is room for no more";

    my $pid = greedy();
    my $failed = keys_failures($t);

    for my $set (jwks($new), jwks($new) . "\n", jwks($key, $new)) {
        my $before = new_sets($nginx);
        $issuer->set(body => $set);
        ok eventually(sub { new_sets($nginx) > $before }),
            "$what: a new set is fetched";
    }
    is scalar(keys_failures($t)), $failed, "$what: no fetch has failed";

    $issuer->set(hold => 1);
    ok eventually(sub { keys_failures($t) > $failed }),
        "$what: one that fails";
    my $before = new_sets($nginx);
    $issuer->set(hold => 0, body => jwks($new));
    ok eventually(sub { new_sets($nginx) > $before }),
        "$what: does not keep the next from its connection";
    is scalar(keys_failures($t)), $failed + 1, "$what: which does not fail";
    kill 'KILL', $pid;
    waitpid $pid, 0;

    my ($c) = @held;
    $c->send("\r\n");
    is $c->read_response->status, 200, "$what: the new key works";
    $_->close for @held;
    $t->stop($nginx);
}

$t->done;

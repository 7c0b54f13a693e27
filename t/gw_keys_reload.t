# Reloads keep the set: no storm of fetches, no lost request, and nothing of
# an old configuration is fetched after it is gone.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Keys;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

my $COOLDOWN = 5;

my $t = Platform::Test->new;
my ($key, $new) = map { jwt_key($_) } qw(a b);
my $issuer = $t->issuer(body => jwks($key));
my $port = $t->port('gateway');
my $keys = <<"KEYS";
platform_gateway_key_cooldown ${COOLDOWN}s;
platform_gateway_key_soft_age 600s;
platform_gateway_key_hard_age 3600s;
KEYS

my $nginx = keys_gateway($t, keys => $keys);
$t->start_nginx;
ok eventually(sub { keys_get($t, $key)->status == 200 }), 'a key set is there';

# Twenty reloads, or more until there were 200 answers, while another process
# asks without a pause.

sub under_load {
    my ($reloads) = @_;

    my $bytes = http_request_bytes(GET => '/branch',
        token => jwt_token('branch', $key));
    pipe my $in, my $out or die "pipe: $!\n";
    my $until = $t->dir . '/enough';
    my $pid = fork // die "fork: $!\n";
    if (!$pid) {
        my %status;
        while (!-e $until) {
            $status{ $_ ? $_->status : 'none' }++
                for http_parallel([ map { [ $port, $bytes ] } 1 .. 8 ]);
            $t->write_file('many', '') if ($status{200} // 0) > 200;
        }
        syswrite $out, join ' ', %status;
        POSIX::_exit(0);
    }
    close $out;
    while ($reloads-- > 0 || !-e $t->dir . '/many') {
        $t->reload or die "a reload failed\n";
        last if $reloads < -1000;
    }
    $t->write_file('enough', '');
    my %status = split ' ', <$in> // '';
    waitpid $pid, 0;
    return \%status;
}

my $began = time;
my $status = under_load(20);
is_deeply [ keys %$status ], [200], 'requests during 20 reloads pass'
    or diag explain $status;
cmp_ok $status->{200}, '>', 200, 'and they were many';
my $allowed = 2 + int((time - $began) / $COOLDOWN);
cmp_ok $issuer->count, '<=', $allowed, "with at most $allowed fetches";

# A reload while the issuer is down.

$issuer->down;
ok $t->reload, 'a reload with the issuer down';
is keys_get($t, $key)->status, 200, 'the old set serves at once';

# A reload that fails leaves the engine at work.

$t->write_file('nginx.conf', "nonsense;\n");
$t->allow(qr/\[emerg\] .*unknown directive "nonsense"/);
ok !$t->reload, 'a reload of a broken configuration fails';
$issuer->set(body => jwks($key, $new));
$issuer->up;
ok eventually(sub { keys_get($t, $new)->status == 200 }),
    'and the old workers still fetch';

# Another issuer: soon fetched from, whatever the age of the old set.

my $other = $t->issuer(name => 'other', body => jwks($new));
my $conf = keys_gateway($t, keys => $keys);
$t->write_file('nginx.conf',
    $t->read_file('nginx.conf') =~ s/:\d+(?=\/jwks)/':' . $other->port/er);
ok $t->reload, 'a reload with another issuer';
ok eventually(
    sub { keys_get($t, $key, iat => past())->status == 401 }),
    'its set replaces the old one within a cooldown';
is keys_get($t, $new)->status, 200, 'and its key works';

# A fetch in the old configuration that ends after the reload.

$issuer->set(body => jwks($key));
keys_gateway($t, keys => $keys);
$t->reload;
ok eventually(sub { keys_get($t, $key)->status == 200 }),
    'back to the first issuer';
my $count = $issuer->count;
sleep $COOLDOWN + 0.2;
$issuer->set(hold => 1);
my $c = Platform::Test::Http->new(port => $port);
$c->send(http_request_bytes(GET => '/branch',
    token => jwt_token('branch', jwt_key('c'), iat => past())));
ok eventually(sub { $issuer->count > $count }),
    'a fetch of the old configuration';
my @old = $nginx->workers;
$t->write_file('nginx.conf',
    $t->read_file('nginx.conf') =~ s/:\d+(?=\/jwks)/':' . $other->port/er);
ok $t->reload, 'a reload';
$issuer->set(hold => 0);
isnt $c->read_response->status, 200, 'ends after the reload';
ok eventually(
    sub { keys_get($t, $key, iat => past())->status == 401 }),
    'the new configuration decides';
ok eventually(sub { !grep { kill 0, $_ } @old }), 'the old one is gone';
is keys_get($t, $key, iat => past())->status, 401, 'and stays';

# Another size makes another zone.

$other->down;
keys_gateway($t, keys => "$keys platform_gateway_zone platform_gateway:2m;");
$t->write_file('nginx.conf',
    $t->read_file('nginx.conf') =~ s/:\d+(?=\/jwks)/':' . $other->port/er);
ok $t->reload, 'a zone of another size';
is keys_get($t, $new)->status, 503, 'starts afresh';
$other->up;
ok eventually(sub { keys_get($t, $new)->status == 200 }),
    'and is filled within a cooldown';

$t->done;

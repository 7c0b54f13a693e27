# A set of keys belongs to its source: a reload that leaves the source alone
# keeps the set, whatever the issuer does; after one to other issuers or to
# another place for their keys the old set is gone at once, in memory, on disk
# and for workers that are still at work.

use Platform::Test;
use Platform::Test::KeyDir;
use Platform::Test::Keys;

my $NEW = 'http://other.test';

my ($t, $issuer, $key, $new) = keys_test(qw(a b));
my $other = $t->issuer(name => 'other', body => jwks($new));
my $port = $t->port('gateway');

my @ONE = (main => 'worker_processes 1;');
my @issuer = (qr{http://issuer\.test} => $NEW);
my @address = (qr{:\d+(?=/jwks)} => ':' . $other->port);

# A reload to the usual configuration, with these changes.
sub reload (%o) {
    keys_gateway($t, @ONE, %o);
    $t->reload or die "no reload\n";
}

sub ready { return http_get($port, '/readyz')->status }

sub get (@token) { return keys_get($t, @token)->status }

# The first source, with a good set, whatever was before.
sub begin ($what, %o) {
    $issuer->up;
    $issuer->set(body => jwks($key));
    $other->down;
    reload(%o);
    keys_pass($t, 2);
    keys_until($t, "$what: the first source's key works", 200, $key);
}

my $nginx = keys_begin($t, @ONE);

# The same source: kept, under another policy too.

begin('a reload that changes nothing of it');
$issuer->down;
reload(hard_age => '2d', server => <<'SERVER');
location /second { platform_gateway_access branch; platform_gateway_leeway 5s; empty_gif; }
SERVER
is_deeply [ get($key), ready(), map { http_get($port, '/second', token => $_)->status }
    jwt_token('branch', $key), undef ], [ 200, 200, 200, 401 ],
    'the set serves on, under a policy more too, and it is ready';

$t->write_file('nginx.conf', "nonsense;\n");
$t->allow(qr/\[emerg\] .*unknown directive "nonsense"/);
ok !$t->reload, 'a reload of a broken configuration fails';
$issuer->set(body => jwks($key, $new));
$issuer->up;
keys_pass($t, 2);
keys_until($t, 'and the old workers still fetch', 200, $new);

# From another location, so that the set is of a fetch that these workers began.

my @long = (cooldown => '10m', soft_age => '20m');
my @moved = (@long, change => [ qr{/_keys} => '/_moved' ]);
begin('reloads', @moved);
my $count = $issuer->count;
my %seen;
for (1 .. 5) {
    reload(@moved);
    $seen{ get($key) }++ for 1 .. 5;
}
is_deeply \%seen, { 200 => 25 }, 'requests between reloads pass';
is $issuer->count, $count, 'with no fetch before the cooldown is over';

# Another source: gone, although the new one gives nothing yet.

my %change = (
    'another issuer, elsewhere' => [ @issuer, @address ],
    'another issuer'            => [@issuer],
    'another address'           => [@address],
    'another host, the same port' => [ qr{127\.0\.0\.1(?=:\d+/jwks)}, '127.0.0.2' ],
    'another location'          => [ qr{/_keys} => '/_other' ],
    'an issuer more'            => [ @address, qr{(?<=issuer http://issuer\.test)} => " $NEW" ],
);
for my $what (sort keys %change) {
    my @change = @{ $change{$what} };
    my @iss = $what =~ /another issuer/ ? (iss => $NEW) : ();
    begin($what);
    $issuer->down;
    my $said = () = keys_failures($t);
    reload(change => \@change);
    is_deeply [ get($key, @iss), ready() ], [ 503, 503 ], "$what: the old key is gone, not ready";
    ok eventually(sub { keys_failures($t) > $said && (keys_failures($t))[-1] =~ /there is none yet/
    }), "$what: it is fetched, and nothing is said to be kept";
    next unless "@change" =~ $other->port;
    $other->up;
    keys_pass($t, 2);
    keys_until($t, "$what: the new key works", 200, $new, @iss);
    is get($key, @iss, iat => past()), 401, "$what: the old one is refused";
}

begin('a fetch under way');
$issuer->set(hold => 1);
my ($c) = reverse keys_refetch($t, $issuer);
my @old = $nginx->workers;
$other->up;
reload(change => \@address);
$issuer->set(hold => 0);
isnt $c->read_response->status, 200, 'ends after the reload';
keys_until($t, 'the new configuration decides', 401, $key, iat => past());
ok eventually(sub { !grep { kill 0, $_ } @old }), 'the old one is gone';
is get($key, iat => past()), 401, 'and stays';

begin('a cooldown');
$other->up;
reload(change => [ @issuer, @address ], cooldown => '60s');
is get($new, iss => $NEW), 200, 'to another issuer';
reload(cooldown => '60s');
is get($key), 200, 'and back within the cooldown';

begin('a zone of another size');
$issuer->down;
reload(http => 'platform_gateway_zone platform_gateway:2m;');
is get($key), 503, 'starts afresh';
$issuer->up;
keys_pass($t, 2);
keys_until($t, 'and is filled within a cooldown', 200, $key);

begin('a file');
$t->write_file('file.json', jwks($new));
reload(source => '', http => "platform_gateway_key_file @{[ $t->dir ]}/file.json;");
keys_are($t, 'from a location to a file', [ 200, $new ], [ 401, $key, iat => past() ]);
$issuer->down;
reload();
is get($new), 503, 'and back: the key of the file is gone';

my @file = (http => "platform_gateway_key_cache_file @{[ $t->dir ]}/keys;");
begin('a file that keeps the set', @file);
ok eventually(sub { -s $t->dir . '/keys' }), 'which is written';
$issuer->down;
keys_begin($t, @file, change => [ @issuer, @address ]);
is get($key, iss => $NEW), 503, 'is not for another issuer, after a restart';
like $nginx->error_log, qr/ignored: it was written for another issuer/, 'which says why';
keys_begin($t, @file);
is get($key), 200, 'control: the file is good for its own';

# A worker of the old configuration that has yet to learn that it is to go.

begin('the old worker');
my ($old) = $nginx->workers;
my @c = map { Platform::Test::Http->new(port => $port) } 1 .. 2;
my @requests = map { [ GET => '/branch', token => jwt_token('branch', $_) ] } $new, $key;
is $_->request(@{ $requests[1] })->status, 200, 'has a client' for @c;
kill 'STOP', $old;
$c[$_]->send(http_request_bytes(@{ $requests[$_] })) for 0, 1;
$other->up;
keys_gateway($t, @ONE, change => [ @issuer, @address ]);
$nginx->signal('HUP');
ok eventually(sub { grep { $_ != $old } $nginx->workers }), 'a new worker';
keys_until($t, 'with a new source', 200, $new, iss => $NEW);
keys_pass($t, 2);    # the cooldown: who may fetch can do so
$count = $issuer->count;
kill 'CONT', $old;
is_deeply [ map { $_->read_response->status } @c ], [ 503, 503 ],
    'neither the new key opens anything for the old issuer, nor the old key still';
is $issuer->count, $count, 'and the old source is not asked again';

# Workers that begin late: as long as there is that file.

my $dir = $t->dir;
my $late = preload($t, 'late', <<"C");
pid_t fork(void)
{
    pid_t pid = ((pid_t (*)(void)) dlsym(RTLD_NEXT, "fork"))();

    for (int i = 0; pid == 0 && i < 6000 && access("$dir/wait", F_OK) == 0; i++)
        usleep(10000);
    return pid;
}
C

# How often the error log says that; after a reload, until it says so once more.
sub said ($pattern) { return scalar(() = $nginx->error_log =~ /$pattern/g) }

sub reload_late (%o) {
    my $said = said('start worker process ');
    $t->write_file('wait', '');
    keys_gateway($t, @ONE, %o);
    $nginx->signal('HUP');
    return eventually(sub { said('start worker process ') > $said });
}

# A fetch that ends before they begin is not under way any more.

$issuer->set(body => jwks($key));
keys_gateway($t, @ONE, @long);
$nginx->{clock}{so} .= ":$late";
keys_hold($issuer, sub { $nginx->start });
($old) = $nginx->workers;
ok reload_late(@long), 'late workers: a reload during a fetch';
$count = $issuer->count;
$issuer->set(hold => 0);
ok eventually(sub { said('new key set') && !kill 0, $old }), 'late workers: the fetch ends';
unlink "$dir/wait";
keys_until($t, 'late workers: its set is in use', 200, $key);
sleep 0.6;    # whatever is due begins
is $issuer->count, $count, 'late workers: no other fetch before the cooldown is over';

# A fetch that is under way when they begin is given up, for another at once.

keys_hold($issuer, sub { $t->stop($nginx); $nginx->start });
$count = $issuer->count;
for my $n (1 .. 3) {
    reload(@long);
    ok eventually(sub { $issuer->count == $count + $n }), "reload $n during a fetch begins another";
}
$issuer->set(hold => 0);
keys_until($t, 'which brings the set', 200, $key);
is $issuer->count, $count + 3, 'and that is all';

# Two reloads, the second before the workers of the first have begun: the last
# configuration is the one in force.

reload_late(change => [@issuer]);
reload_late(change => [ @issuer, @address ]);
unlink "$dir/wait";
keys_until($t, 'late workers: the set of the last of two reloads', 200, $new, iss => $NEW);

$t->done;

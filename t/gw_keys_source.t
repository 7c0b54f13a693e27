# A set of keys belongs to its source: after a reload to other issuers or to
# another place for their keys the old one is gone at once, in memory, on disk
# and for workers that are still at work.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Keys;
use Test::More;
use Time::HiRes qw(sleep);

my $NEW = 'http://other.test';

my $t = Platform::Test->new;
my ($key, $new) = map { jwt_key($_) } qw(a b);
my $issuer = $t->issuer(body => jwks($key));
my $other = $t->issuer(name => 'other', body => jwks($new));
my $port = $t->port('gateway');
my $cache = $t->dir . '/keys';
my $keys = <<"KEYS";
platform_gateway_key_cooldown 1s;
platform_gateway_key_soft_age 60s;
KEYS

# The usual configuration, with these substitutions in its text.
sub configure {
    my ($http, @changes) = @_;

    my $nginx = keys_gateway($t, main => 'worker_processes 1;',
        keys => "$keys $http");
    my $text = $t->read_file('nginx.conf');
    while (my ($from, $to) = splice @changes, 0, 2) {
        $text =~ s/$from/$to/g or die "no $from\n";
    }
    $t->write_file('nginx.conf', $text);
    return $nginx;
}

my @issuer = (qr{http://issuer\.test} => $NEW);
my @address = (qr{:\d+(?=/jwks)} => ':' . $other->port);
my @uri = (qr{/_keys} => '/_other');

sub ready { return http_get($port, '/readyz')->status }

# A good start, whatever was before.
sub begin {
    my ($what, $http) = @_;

    $issuer->up;
    $other->down;
    configure($http // '');
    $t->reload or die;
    ok eventually(sub { keys_get($t, $key)->status == 200 }),
        "$what: the first source's key works";
    return;
}

my $nginx = configure('');
$t->start_nginx;

# The same source: kept.

begin('a reload that changes nothing of it');
$issuer->down;
configure('platform_gateway_key_hard_age 2d;');
$t->reload or die;
is keys_get($t, $key)->status, 200, 'the set serves on';
is ready(), 200, 'and it is ready';

# The same issuer under another policy is no other source.

configure('', qr{(?=location /branch)} => 'location /second { '
    . 'platform_gateway_access branch; platform_gateway_leeway 5s; '
    . 'empty_gif; } ');
$t->reload or die;
is keys_get($t, $key)->status, 200, 'a policy more: the set serves on';
is http_get($port, '/second', token => jwt_token('branch', $key))->status,
    200, 'under both';
is http_get($port, '/second')->status, 401, 'control: which is checked';

# Another source: gone, although the new one gives nothing yet.

my %change = (
    'another issuer, elsewhere' => [ @issuer, @address ],
    'another issuer'            => [ @issuer ],
    'another address'           => [ @address ],
    'another host, the same port' => [ qr{127\.0\.0\.1(?=:\d+/jwks)},
        '127.0.0.2' ],
    'another location'          => [ @uri ],
    'an issuer more'            => [ @address,
        qr{(?<=issuer http://issuer\.test)} => " $NEW" ],
);
for my $what (sort keys %change) {
    my @change = @{ $change{$what} };
    my @iss = $what =~ /another issuer/ ? (iss => $NEW) : ();
    begin($what);
    $issuer->down;
    configure('', @change);
    my $said = () = keys_failures($t);
    $t->reload or die;
    is keys_get($t, $key, @iss)->status, 503, "$what: the old key is gone";
    ok eventually(sub { keys_failures($t) > $said }), "$what: it is fetched";
    like +(keys_failures($t))[-1], qr/there is none yet/,
        "$what: nothing is said to be kept";
    is ready(), 503, "$what: not ready";
    next unless "@change" =~ $other->port;
    $other->up;
    ok eventually(sub { keys_get($t, $new, @iss)->status == 200 }),
        "$what: the new key works";
    is keys_get($t, $key, @iss, iat => past())->status, 401,
        "$what: the old one is refused";
}

# The cooldown of the old source is not that of the new one.

begin('a cooldown');
$other->up;
$keys =~ s/cooldown 1s/cooldown 60s/;
configure('', @issuer, @address);
$t->reload or die;
is keys_get($t, $new, iss => $NEW)->status, 200, 'to another issuer';
$issuer->set(body => jwks($key));
configure('');
$t->reload or die;
is keys_get($t, $key)->status, 200, 'and back within the cooldown';
$keys =~ s/cooldown 60s/cooldown 1s/;

# A file, and from a file to a location.

begin('a file');
$t->write_file('file.json', jwks($new));
keys_gateway($t, source => '', main => 'worker_processes 1;',
    keys => "$keys platform_gateway_key_file @{[ $t->dir ]}/file.json;");
$t->reload or die;
is keys_get($t, $new)->status, 200, 'from a location to a file';
is keys_get($t, $key, iat => past())->status, 401, 'the old key is refused';
$issuer->down;
configure('');
$t->reload or die;
is keys_get($t, $new)->status, 503, 'and back: the key of the file is gone';

# On disk.

my $file = "platform_gateway_key_cache_file $cache;";
begin('a file that keeps the set', $file);
ok eventually(sub { -s $cache }), 'which is written';
$issuer->down;
configure($file, @issuer, @address);
$t->reload or die;
is keys_get($t, $key, iss => $NEW)->status, 503, 'another issuer';
$nginx->stop;
$nginx->start;
is keys_get($t, $key, iss => $NEW)->status, 503, 'also after a restart';
like $nginx->error_log, qr/ignored: it was written for another issuer/,
    'which says why';
configure($file);
$nginx->stop;
$nginx->start;
is keys_get($t, $key)->status, 200, 'control: the file is good for its own';

# A worker of the old configuration that has yet to learn that it is to go.

begin('the old worker');
my ($old) = $nginx->workers;
my @c = map { Platform::Test::Http->new(port => $port) } 1 .. 2;
is $_->request(GET => '/branch', token => jwt_token('branch', $key))->status,
    200, 'has a client' for @c;
kill 'STOP', $old;
$c[0]->send(http_request_bytes(GET => '/branch',
    token => jwt_token('branch', $new)));
$c[1]->send(http_request_bytes(GET => '/branch',
    token => jwt_token('branch', $key)));
configure('', @issuer, @address);
$other->up;
$nginx->signal('HUP');
ok eventually(sub {
    grep { $_ != $old } $nginx->workers
}), 'a new worker';
ok eventually(sub { keys_get($t, $new, iss => $NEW)->status == 200 }),
    'with a new source';
sleep 1.1;    # the cooldown: who may fetch can do so
my $count = $issuer->count;
kill 'CONT', $old;
is $c[0]->read_response->status, 503,
    'the new key opens nothing for the old issuer';
is $c[1]->read_response->status, 503, 'nor does the old key still';
is $issuer->count, $count, 'and the old source is not asked again';

$t->done;

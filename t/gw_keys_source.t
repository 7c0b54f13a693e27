# A set of keys belongs to its source: a reload that leaves the source alone
# keeps the set, whatever the issuer does; after one to other issuers or to
# another place for their keys the old set is gone at once, in memory, on disk
# and for workers that are still at work.
#
# platform_gateway_key_file is read at the start, at every soft age and at a reload;
# what is bad later replaces nothing.  It may be PEM, and its keys
# and their tokens without an id.  platform_gateway_key_cache_file,
# the last good set on disk: a restart while the issuer is down serves, up to the
# hard age counted from the fetch; a bad file is ignored with one line.

use Platform::Test;
use Platform::Test::KeyDir;
use Platform::Test::Keys;

my ($t, $issuer, $key, $new, $third) = keys_test(qw(a b c));
my $port = $t->port('gateway');

my $path = $t->dir . '/keys.json';
my @file = (source => '', http => "platform_gateway_key_file $path;");

# As an operator would: beside it, then renamed over it.
sub keys_file (@keys) {
    rename $t->write_file('keys.new', jwks(@keys)), $path or die "rename: $!\n";
}

keys_file($key);
my $nginx = keys_begin($t, @file, soft_age => '60s');
keys_are($t, 'the first request finds keys, another key is refused', [ 200, $key ],
    [ 401, $new, iat => past() ]);

keys_file($key, $new);
keys_pass($t, 60);
keys_until($t, 'a new file is read', 200, $new);
$t->write_file('keys.json', jwks($new));
keys_pass($t, 60);
keys_until($t, 'so is one that was written in place', 401, $key, iat => past());

for my $case (
    [ 'no such file'    => sub { unlink $path } ],
    [ 'no usable key'   => sub { $t->write_file('keys.json', '{"keys":[]}') } ],
    [ 'JSON'            => sub { $t->write_file('keys.json', '<html>') } ],
    [ 'it is too large' => sub { $t->write_file('keys.json', jwks($key) . ' ' x 65536) } ],
    [ 'regular file'    => sub { unlink $path; mkdir $path } ],
) {
    my ($said, $do) = @$case;
    my $before = () = keys_failures($t);
    $do->();
    keys_pass($t, 60);
    ok eventually(sub { keys_failures($t) > $before }), "$said: logged";
    like +(keys_failures($t))[-1], qr/\Q$said\E.* and kept/i, 'with the why';
    is keys_get($t, $new)->status, 200, 'and the last good one is kept';
}
my $lines = keys_failures($t);
keys_pass($t, 60);
ok eventually(sub { keys_failures($t) > $lines }), 'what stays bad is said again';

rmdir $path;
keys_file($third);
keys_pass($t, 60);
keys_until($t, 'a good one is taken again', 200, $third);

# A reload takes what is there, whatever the age; so does an unknown key.

keys_gateway($t, @file, soft_age => '3600s');
keys_file($key);
ok $t->reload, 'a reload';
keys_until($t, 'reads the file', 401, $third, iat => past());
keys_file($key, $new);
keys_pass($t, 2);
keys_until($t, 'a token of an unknown key has it read', 200, $new);

$t->write_file('keys.json', '{}');
$t->allow(qr/\[emerg\] .*platform_gateway_key_file/);
ok !$t->reload, 'a reload with a bad file fails';
is keys_get($t, $key)->status, 200, 'the old workers serve';

# The cache file, first in a directory that is not there.

my $file = $t->dir . '/cache/keys';
my $head = 198;
my @cache = (http => "platform_gateway_key_cache_file $file;");

sub cached { return $t->read_file('cache/keys') // '' }

sub document { return length cached() > $head ? substr(cached(), $head) : '' }

sub fetched { return cached() =~ /^fetched (\d+)$/m ? $1 : 0 }

keys_begin($t, @cache, soft_age => '60s', cooldown => '30s');    # so long a fetch may take
ok $nginx->wait_log(qr/"\Q$file\E" not written: opening .* its directory has to be the user's/),
    'a directory that is missing is told';
keys_until($t, 'and does no harm', 200, $key);
my $made = keys_now();
mkdir $t->dir . '/cache' or die;
keys_pass($t, 60);

ok eventually(sub { document() eq jwks($key) }), 'the next fetch writes the document';
my ($then, $inode) = (fetched(), (stat $file)[1]);
ok $then >= $made && $then <= keys_now(), 'and the time, which is not to come';
is +(stat $file)[2] & 07777, 0600, 'for the worker alone';

link $file, "$file-old" or die;    # or its number could come again
keys_pass($t, 60);
ok eventually(sub { fetched() > $then }), 'the time moves on while the document is the same';
is document(), jwks($key), 'which is there whole';
isnt +(stat $file)[1], $inode, 'in a new file';
unlink "$file-old";

$issuer->set(body => jwks($key, $new));
keys_pass($t, 60);
ok eventually(sub { keys_get($t, $new)->status == 200 && document() eq jwks($key, $new) }),
    'a new document replaces it';
is_deeply [ glob "$file.*" ], [], 'and no other is left';

# A set is as old as the beginning of its fetch, however slow that was.

my $later = jwks($key, $new) . "\n";
$issuer->set(body => $later);
keys_hold($issuer, sub { keys_pass($t, 60) });
my $asked = keys_now();
keys_pass($t, 2);
$issuer->set(hold => 0);
ok eventually(sub { document() eq $later }), 'that is slow';
cmp_ok fetched(), '<=', $asked, 'is kept with the time at which it began';

$issuer->down;
@cache = (@cache, soft_age => '3000s');
keys_begin($t, @cache);
keys_are($t, 'a restart with the issuer down serves, keys that are in no set are refused',
    [ 200, $new ], [ 401, $third, iat => past() ]);
is http_get($port, '/readyz')->status, 200, 'and is ready';
my $good = cached();
unlike $t->read_file('nginx.error.log'), qr/ ignored: /, 'nothing was ignored so far';

# Files that are of no use: the start is a cold one then.

sub time_of ($at) { return $good =~ s/^(fetched )\d+/sprintf '%s%020d', $1, $at/emr }

my $weak = substr($good, 0, $head) . '{"keys":[]}';
substr my $damaged = $good, $head + 20, 1, '~';
for my $case (
    [ 'it is truncated', substr($good, 0, 100) ],
    map({ [ 'it is damaged', $_ ] } $damaged, $weak, substr($good, 0, -1),
        $good =~ s/fetched 0/fetched x/r, "\0" x length $good),
    [ 'it is too large', $good . ' ' x 65536 ],
    [ 'another issuer', $good =~ s/(source .)(.)/$1 . ($2 eq '0' ? 1 : 0)/er ],
    [ 'it is from the future', time_of(keys_now() + 3600) ],
    [ 'it is past the hard age', time_of(keys_now() - 3700) ],
) {
    my ($why, $content) = @$case;
    $t->write_file('cache/keys', $content);
    keys_begin($t, @cache, hard_age => '3600s');
    is keys_get($t, $key)->status, 503, "$why: a cold start";
    is_deeply [ $nginx->error_log =~ / ignored: .*?($why|$)/mg ], [$why],
        'one line says it';
}
$t->write_file('cache/keys', time_of(keys_now() - 3000));
keys_begin($t, @cache, hard_age => '3600s');
is keys_get($t, $key)->status, 200, 'one of 50 minutes ago is good';

$t->write_file('cache/keys', time_of(keys_now() - 60));
keys_begin($t, http => $cache[1], soft_age => '2m', hard_age => '2m');
is keys_get($t, $key)->status, 200, 'a set that is not too old';
keys_pass($t, 61);
keys_until($t, 'ends at the hard age after it was fetched', 503, $key);

$t->write_file('cache/keys', time_of(keys_now()));
keys_begin($t, @cache);
$issuer->set(body => jwks($new));
$issuer->up;
keys_pass($t, 2);
keys_until($t, 'a key that was removed meanwhile is soon gone', 401, $key, iat => past());

# Public keys in PEM, and keys without an id.  Of two keys of one type a token
# without an id says neither.

my ($ec, $ed) = (jwt_key('e', alg => 'ES256'), jwt_key('f', alg => 'EdDSA'));

# The status that an old token of the key gets: with its id, as => another, or
# none (undef).
sub status ($key, %o) {
    my $token = jwt_sign(key => $key, payload => jwt_claims('branch', iat => past()),
        header => { exists $o{as} ? (kid => $o{as}) : (), alg => $o{alg} // $key->alg });
    return http_get($port, '/branch', token => $token)->status;
}

sub unnamed ($key) { return $key->jwk(kid => undef) }

keys_gateway($t, @file, soft_age => '3600s');
for my $case (
    [ 'PEM of each type', join("\n", map { $_->public_pem } $key, $ec, $ed),
        map({ [ 200, $_, as => undef ], [ 200, $_, as => 'x' ] } $key, $ec, $ed),
        [ 401, $new, as => undef ], [ 401, $ec, alg => 'RS256', as => undef ],
        [ 401, $key, alg => 'ES256', as => undef ], [ 401, $key, alg => 'RS512', as => undef ] ],
    [ 'a key with an id', jwks($key),
        [ 200, $key, as => undef ], [ 200, $key ], [ 401, $key, as => 'x' ],
        [ 401, $key, as => '' ], [ 401, $new, as => undef ] ],
    [ 'two of one type', jwks($key, $new, $ec),
        [ 200, $new ], [ 200, $key ], [ 200, $ec, as => undef ], [ 401, $key, as => undef ],
        [ 401, $new, as => undef ] ],
) {
    my ($name, $content, @want) = @$case;
    $t->write_file('keys.json', $content);
    ok $t->reload, "$name: nginx takes the file";
    ok eventually(sub { status(@{ $want[0] }[ 1 .. $#{ $want[0] } ]) == 200 }), 'and uses it';
    is_deeply [ map { status(@$_[ 1 .. $#$_ ]) } @want ], [ map { $_->[0] } @want ],
        'for the tokens that it is for';
}

$t->write_file('keys.json', $key->public_pem . $new->public_pem);
like +($t->nginx->test)[1], qr/\[emerg\] .*key_file.*gives no keys: [^;]*key id is missing/,
    'PEM with two keys of one type: refused';

$issuer->set(body => jwks($key, unnamed($ec)));
keys_begin($t);
keys_until($t, 'a set that is fetched', 200, $key);
is_deeply [ status($key, as => undef), status($ec), status($ec, as => undef), status($key) ],
    [ 401, 401, 401, 200 ], 'has no such keys, and is for no such tokens';

# A reload, with the same source or another.

my $NEW = 'http://other.test';

my $other = $t->issuer(name => 'other', body => jwks($new));

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

$nginx = keys_begin($t, @ONE);

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

my @kept = (http => "platform_gateway_key_cache_file @{[ $t->dir ]}/keys;");
begin('a file that keeps the set', @kept);
ok eventually(sub { -s $t->dir . '/keys' }), 'which is written';
$issuer->down;
keys_begin($t, @kept, change => [ @issuer, @address ]);
is get($key, iss => $NEW), 503, 'is not for another issuer, after a restart';
like $nginx->error_log, qr/ignored: it was written for another issuer/, 'which says why';
keys_begin($t, @kept);
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

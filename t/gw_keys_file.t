# platform_gateway_key_file is read at the start, at every soft age and at a reload;
# what is bad later replaces nothing.  It may be PEM, and its keys
# and their tokens without an id.  platform_gateway_key_cache_file,
# the last good set on disk: a restart while the issuer is down serves, up to the
# hard age counted from the fetch; a bad file is ignored with one line.

use Platform::Test;
use Platform::Test::Keys;

my ($t, $issuer, $old, $new, $third) = keys_test(qw(a b c));
my $port = $t->port('gateway');

my $path = $t->dir . '/keys.json';
my @file = (source => '', http => "platform_gateway_key_file $path;");

# As an operator would: beside it, then renamed over it.
sub keys_file (@keys) {
    rename $t->write_file('keys.new', jwks(@keys)), $path or die "rename: $!\n";
}

keys_file($old);
my $nginx = keys_begin($t, @file, soft_age => '60s');
keys_are($t, 'the first request finds keys, another key is refused', [ 200, $old ],
    [ 401, $new, iat => past() ]);

keys_file($old, $new);
keys_pass($t, 60);
keys_until($t, 'a new file is read', 200, $new);
$t->write_file('keys.json', jwks($new));
keys_pass($t, 60);
keys_until($t, 'so is one that was written in place', 401, $old, iat => past());

for my $case (
    [ 'no such file'    => sub { unlink $path } ],
    [ 'no usable key'   => sub { $t->write_file('keys.json', '{"keys":[]}') } ],
    [ 'JSON'            => sub { $t->write_file('keys.json', '<html>') } ],
    [ 'it is too large' => sub { $t->write_file('keys.json', jwks($old) . ' ' x 65536) } ],
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
keys_file($old);
ok $t->reload, 'a reload';
keys_until($t, 'reads the file', 401, $third, iat => past());
keys_file($old, $new);
keys_pass($t, 2);
keys_until($t, 'a token of an unknown key has it read', 200, $new);

$t->write_file('keys.json', '{}');
$t->allow(qr/\[emerg\] .*platform_gateway_key_file/);
ok !$t->reload, 'a reload with a bad file fails';
is keys_get($t, $old)->status, 200, 'the old workers serve';

# The cache file, first in a directory that is not there.

my $file = $t->dir . '/cache/keys';
my $head = 198;
my @cache = (http => "platform_gateway_key_cache_file $file;");

sub cached { return $t->read_file('cache/keys') // '' }

sub document { return length cached() > $head ? substr(cached(), $head) : '' }

sub fetched { return cached() =~ /^fetched (\d+)$/m ? $1 : 0 }

keys_begin($t, @cache, soft_age => '60s');
ok $nginx->wait_log(qr/"\Q$file\E" not written: opening .* its directory has to be the user's/),
    'a directory that is missing is told';
keys_until($t, 'and does no harm', 200, $old);
my $made = keys_now();
mkdir $t->dir . '/cache' or die;
keys_pass($t, 60);

ok eventually(sub { document() eq jwks($old) }), 'the next fetch writes the document';
my ($then, $inode) = (fetched(), (stat $file)[1]);
ok $then >= $made && $then <= keys_now(), 'and the time, which is not to come';
is +(stat $file)[2] & 07777, 0600, 'for the worker alone';

link $file, "$file-old" or die;    # or its number could come again
keys_pass($t, 60);
ok eventually(sub { fetched() > $then }), 'the time moves on while the document is the same';
is document(), jwks($old), 'which is there whole';
isnt +(stat $file)[1], $inode, 'in a new file';
unlink "$file-old";

$issuer->set(body => jwks($old, $new));
keys_pass($t, 60);
ok eventually(sub { keys_get($t, $new)->status == 200 && document() eq jwks($old, $new) }),
    'a new document replaces it';
is_deeply [ glob "$file.*" ], [], 'and no other is left';

# A set is as old as the beginning of its fetch, however slow that was.

my $later = jwks($old, $new) . "\n";
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
    is keys_get($t, $old)->status, 503, "$why: a cold start";
    is_deeply [ $nginx->error_log =~ / ignored: .*?($why|$)/mg ], [$why],
        'one line says it';
}
$t->write_file('cache/keys', time_of(keys_now() - 3000));
keys_begin($t, @cache, hard_age => '3600s');
is keys_get($t, $old)->status, 200, 'one of 50 minutes ago is good';

$t->write_file('cache/keys', time_of(keys_now() - 15));
keys_begin($t, http => $cache[1], soft_age => '20s', hard_age => '20s');
is keys_get($t, $old)->status, 200, 'a set that is not too old';
keys_pass($t, 6);
keys_until($t, 'ends at the hard age after it was fetched', 503, $old);

$t->write_file('cache/keys', time_of(keys_now()));
keys_begin($t, @cache);
$issuer->set(body => jwks($new));
$issuer->up;
keys_pass($t, 2);
keys_until($t, 'a key that was removed meanwhile is soon gone', 401, $old, iat => past());

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
    [ 'one key in PEM', $old->public_pem,
        [ 200, $old, as => undef ], [ 200, $old ], [ 401, $new, as => undef ], [ 401, $new ],
        [ 401, $ec, as => undef ] ],
    [ 'PEM of each type', join("\n", map { $_->public_pem } $old, $ec, $ed),
        map({ [ 200, $_, as => undef ], [ 200, $_, as => 'x' ] } $old, $ec, $ed),
        [ 401, $new, as => undef ], [ 401, $ec, alg => 'RS256', as => undef ],
        [ 401, $old, alg => 'ES256', as => undef ], [ 401, $old, alg => 'RS512', as => undef ] ],
    [ 'a key without an id', jwks(unnamed($new), unnamed($ec)),
        [ 200, $new, as => undef ], [ 200, $new ], [ 200, $ec, as => undef ], [ 200, $ec ],
        [ 401, $old, as => undef ], [ 401, $old ] ],
    [ 'a key with an id', jwks($old),
        [ 200, $old, as => undef ], [ 200, $old ], [ 401, $old, as => 'x' ],
        [ 401, $old, as => '' ], [ 401, $new, as => undef ] ],
    [ 'two of one type', jwks($old, $new, $ec),
        [ 200, $new ], [ 200, $old ], [ 200, $ec, as => undef ], [ 401, $old, as => undef ],
        [ 401, $new, as => undef ] ],
    [ 'two, one without an id', jwks(unnamed($old), $new),
        [ 200, $new ], [ 401, $old ], [ 401, $old, as => undef ], [ 401, $new, as => undef ] ],
    [ 'an id that is none', jwks($old->jwk(kid => ''), $ec),
        [ 200, $ec ], [ 401, $old, as => undef ], [ 401, $old ] ],
) {
    my ($name, $content, @want) = @$case;
    $t->write_file('keys.json', $content);
    ok $t->reload, "$name: nginx takes the file";
    ok eventually(sub { status(@{ $want[0] }[ 1 .. $#{ $want[0] } ]) == 200 }), 'and uses it';
    is_deeply [ map { status(@$_[ 1 .. $#$_ ]) } @want ], [ map { $_->[0] } @want ],
        'for the tokens that it is for';
}

for my $case (
    [ 'two keys of one type', 'key id is missing', $old->public_pem . $new->public_pem ],
    [ 'a private key', 'not a key of a known type', $old->public_pem . $ec->private_pem ],
    [ 'more behind it', 'not a key of a known type', $old->public_pem . 'x' ],
) {
    my ($name, $said, $content) = @$case;
    $t->write_file('keys.json', $content);
    my ($ok, $why) = $t->nginx->test;
    like $why, qr/\[emerg\] .*platform_gateway_key_file.*gives no keys: [^;]*$said/,
        "PEM with $name: refused";
}

$issuer->set(body => jwks($old, unnamed($ec)));
keys_begin($t);
keys_until($t, 'a set that is fetched', 200, $old);
is_deeply [ status($old, as => undef), status($ec), status($ec, as => undef), status($old) ],
    [ 401, 401, 401, 200 ], 'has no such keys, and is for no such tokens';

$t->done;

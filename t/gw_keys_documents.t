# A bad document never replaces a good one: the old set serves on, and exactly
# one log line says why.  What a key set is at all, jose/test/check_jwk.c shows.

use Platform::Test;
use Platform::Test::Keys;

my $t = Platform::Test->new;
my $key = jwt_key('a');
my $good = jwks($key);
my $issuer = $t->issuer(body => $good);

# Other locations of the server, which another set can be had from.

my $planted = jwt_key('b')->as('planted');
my $other = $t->issuer(name => 'other', body => jwks($key, $planted));
my @server = (server => $t->expand(<<'SERVER'));
location /open { %%TO_other%% }
location /guarded { platform_gateway_access branch; %%TO_other%% }
location @named { %%TO_other%% }
SERVER

keys_begin($t, @server);
keys_until($t, 'a good set', 200, $key);

my @json = ('Content-Type' => 'application/json');
my $head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";

sub chunked ($body, $end) {
    return "${head}Transfer-Encoding: chunked\r\n\r\n"
        . sprintf("%x\r\n%s\r\n", length $body, $body) . $end;
}

my $big = $good . ' ' x (65537 - length $good);
my @bad = (
    [ 'status 500', qr/: status 500/, status => 500 ],
    [ 'status 201', qr/: status 201/, status => 201 ],
    [ 'a redirect', qr/: status 302/, status => 302,
        headers => [ @json, Location => '/elsewhere' ] ],
    map({ [ "a redirect inside of nginx, to $_",
            qr/: another location answered, by X-Accel-Redirect/,
            headers => [ @json, 'X-Accel-Redirect' => $_ ] ] }
        qw(/open /guarded @named)),
    [ 'no answer', qr/: status 502/, hangup => 1 ],
    [ 'no HTTP', qr/: no response/, raw => "SSH-2.0-x\r\n" ],
    [ 'HTML', qr/: the document is HTML/,
        headers => [ 'Content-Type' => 'text/html; charset=utf-8' ],
        body => '<html><body>Please log in</body></html>' ],
    [ 'truncated, with a length', qr/: the document is truncated/, truncate => 100 ],
    [ 'truncated, chunked', qr/: the document is truncated/,
        raw => chunked(substr($good, 0, 100), '') ],
    [ 'truncated, to the close', qr/key set not refreshed: /,
        raw => "$head\r\n" . substr $good, 0, 100 ],
    [ 'over 64 KiB, with a length', qr/: the document is too large/, body => $big ],
    [ 'over 64 KiB, chunked', qr/: the document is too large/, raw => chunked($big, "0\r\n\r\n") ],
    [ 'compressed', qr/: the document is compressed/,
        headers => [ @json, 'Content-Encoding' => 'gzip' ] ],
    [ 'a set without keys', qr/key set not refreshed: .*usable key/, body => '{"keys":[]}' ],
);
my @usual = (status => 200, headers => \@json, body => $good,
    map { $_ => undef } qw(hangup raw truncate));
for my $case (@bad) {
    my ($name, $why, %state) = @$case;
    my $before = keys_failures($t);
    $issuer->set(@usual, %state);
    keys_refetch($t, $issuer);
    ok eventually(sub { keys_failures($t) > $before }), "$name: logged";
    my @new = keys_failures($t);
    splice @new, 0, $before;
    is scalar @new, 1, "$name: in one line";
    like $new[0], qr/$why.* and kept/, "$name: why, and what of it";
    is keys_get($t, $key)->status, 200, "$name: the old set serves";
}
is keys_get($t, $planted, iat => past())->status, 401, 'no other location gave the key set';
is_deeply [ grep { $_->{uri} =~ /guard/ } $other->requests ], [],
    'and a guarded one was not entered';

# Single bad entries spoil nothing; neither does a document that just fits.

my $unknown = jwt_key('c')->as('unknown');
my $fits = jwks({ kty => 'EC', crv => 'P-256', kid => 'e', x => 'AA', y => 'AA' },
    jwt_key('weak', bits => 1024)->jwk, { kty => 'oct', k => 'AA' }, {},
    jwt_key('b')->jwk(kid => 'a', use => 'enc'),
    $key, jwt_key('b')->jwk(kid => 'a'), $unknown->jwk(d => 'AQAB'));
$fits .= ' ' x (65536 - length $fits);
$issuer->set(@usual, body => $fits);
my $before = keys_failures($t);
keys_until($t, 'a set of 64 KiB brings the new key', 200, $unknown);
is keys_get($t, $key)->status, 200, 'and the first of two with one id is what counts';
is scalar(keys_failures($t)), $before, 'nothing is said to be wrong';

# What the key location itself says: within it, and away from it.

for my $within ('rewrite ^ /within break;',
    $t->expand('if ($request_method = GET) { %%TO_issuer%% }')) {
    keys_begin($t, @server, location => $within);
    keys_until($t, "the key location's own answer: $within", 200, $key);
}
keys_begin($t, @server, location => 'rewrite ^ /guarded last;');
ok $t->nginx->wait_log(qr/not fetched: another location answered/), 'a rewrite to another location';
is keys_get($t, $planted)->status, 503, 'which gives no keys';

$t->done;

# What the identity face tells everybody: health, readiness, information and the
# key set, with its validators (all of which: check_http).

use Platform::Test;

my $t = Platform::Test->new;
my ($key, $old, $new) = map { jwt_key($_) } qw(identity old new);

# Writes the file of keys: the one that signs, and another.
sub write_keys ($signing, $other) {
    my %env = $signing->env($other);
    return $t->write_file('keys.env', join '', map {"$_=$env{$_}\n"} keys %env);
}

my %no_keys = map { ("PLATFORM_JWT_$_" => undef) } qw(KEY_ID PRIVATE_KEY_BASE64 PUBLIC_KEY_BASE64);
my $identity = $t->identity_face(%no_keys, args => [ '--env-file', write_keys($key, $old) ]);
my $port = $t->port('identity');

# -- health

my @ready = qw(/readyz /internal/readyz /actuator/health /actuator/health/readiness);
my @alive = qw(/healthz /actuator/health/liveness);
for my $path (@alive, @ready) {
    my $res = http_get($port, $path);
    is_deeply [ $res->status, $res->json, map { $res->header($_) } qw(Content-Type Cache-Control) ],
        [ 200, { status => 'UP', service => 'identity-service' }, 'application/json', 'no-store' ],
        "$path: UP, not cached";
    ok $res->header('X-Request-Id'), "$path: has an id";
    my $head = http($port, HEAD => $path);
    is_deeply [ $head->status, $head->body ], [ 200, '' ], "$path: HEAD";
}
my $post = http_post($port, '/healthz', json => {});
is_problem($post, 405, 'METHOD_NOT_ALLOWED', 'POST');
is $post->header('Allow'), 'GET, HEAD', 'which says what is';
is_problem(http_get($port, $_), 404, 'RESOURCE_NOT_FOUND', $_) for '/nothing', '/healthz/';

# The database leaves: alive, but not ready, and it says why.

$t->postgres->stop('INT');
is http_get($port, $_)->status, 200, "no database: $_ is alive" for @alive;
for my $path (@ready) {
    my $res = http_get($port, $path);
    is_problem($res, 503, 'DATABASE_UNAVAILABLE', "no database: $path");
    like $res->header('Retry-After') . $res->json->{detail}, qr/^1.*database/, "$path says so";
}
$t->postgres->start;
ok eventually(sub { http_get($port, '/readyz')->status == 200 }), 'it is back: ready';

# No signing key where APP_ENV is local, and a schema older than the program:
# serves, is not ready.  A newer one is at least what the program needs.

sub ask ($which, @request) {
    return @{ $t->fcgi($which->address)->request(@request) }{qw(status body)};
}

my $keyless = $t->identity(name => 'keyless', %no_keys);
$t->postgres->sql('create database empty owner platform', user => 'postgres');
my $behind = $t->identity(name => 'old', PLATFORM_DB_NAME => 'empty',
    PLATFORM_DB_MIGRATE_ON_START => 'false', PLATFORM_DB_SEED_ON_START => undef);
for my $case ([ $keyless, qr/signing key/ ], [ $behind, qr/migrations/ ]) {
    my ($which, $why) = @$case;
    like join(' ', ask($which, GET => '/readyz')), qr/^503 .*$why/s, "$why: not ready, and says so";
    is +(ask($which, GET => '/healthz'))[0], 200, 'alive';
}
is +(ask($keyless, GET => '/.well-known/jwks.json'))[1], '{"keys":[]}', 'an empty key set';
is +(ask($keyless, POST => '/api/auth/login', body =>
    '{"account":"one@demo.test","credential":"Demo-passw0rd!"}'))[0], 500, 'no key: no login';
$t->postgres->sql("insert into schema_migrations
    values (9999, '9999_future.sql', repeat('a', 64))");
is http_get($port, '/readyz')->status, 200, 'a newer schema: ready';

# -- the key set

my $path = '/.well-known/jwks.json';
my $res = http_get($port, $path);
is_deeply [ $res->status, $res->header('Cache-Control') ], [ 200, 'public, max-age=300' ],
    'served, to be kept';
like $res->header('Content-Type'), qr{^application/(?:jwk-set\+)?json$}, 'Content-Type';
my $etag = $res->header('ETag');
like $etag, qr/^"[^"]+"$/, 'a strong ETag';
is_deeply $res->json->{keys}, [ map { $_->jwk } $key, $old ],
    'the signing key first, then the additional one, and nothing else of them';

# If-None-Match is compared weakly, If-Match strongly and before the other one.
my $none = 'If-None-Match';
for my $case ([ 304, $none => "W/$etag" ], [ 200, $none => '"x"' ], [ 200, 'If-Match' => $etag ],
    [ 304, $none => $etag, 'If-Match' => $etag ], [ 412, 'If-Match' => "W/$etag" ],
    [ 412, $none => $etag, 'If-Match' => '"x"' ])
{
    my ($status, @headers) = @$case;
    my $again = http_get($port, $path, headers => \@headers);
    is_problem($again, 412, 'PRECONDITION_FAILED', "@headers") if $status == 412;
    is_deeply [ $again->status, (map { $again->header($_) } qw(ETag Cache-Control)), $again->body ],
        [ $status, $etag, 'public, max-age=300', $status == 200 ? $res->body : '' ], "@headers"
        if $status != 412;
}
my $head = http($port, HEAD => $path);
is_deeply [ $head->status, $head->header('ETag') ], [ 200, $etag ], 'HEAD';

# SIGHUP reads the file again; what is bad leaves the old keys: id_key_rotation.t.

write_keys($new, $key);
kill HUP => $identity->pid;
ok eventually(sub { http_get($port, $path)->json->{keys}[0]{kid} eq $new->kid }),
    'after SIGHUP: the new key';
$res = http_get($port, $path, headers => [ 'If-None-Match' => $etag ]);
is_deeply [ $res->status, map { $_->{kid} } @{ $res->json->{keys} } ],
    [ 200, $new->kid, $key->kid ], 'the new set, which the old ETag does not match';
isnt $res->header('ETag'), $etag, 'another ETag';

$t->done;

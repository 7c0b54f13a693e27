# The key set of the identity face: contents, validators, rotation by SIGHUP.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;

my $t = Platform::Test->new;
my $key = jwt_key('identity');
my $old = jwt_key('old');

my %keys = (
    PLATFORM_JWT_KEY_ID             => $key->kid,
    PLATFORM_JWT_PRIVATE_KEY_BASE64 => $key->private_base64,
    PLATFORM_JWT_PUBLIC_KEY_BASE64  => $key->public_base64,
    PLATFORM_JWT_ADDITIONAL_PUBLIC_KEYS => $old->kid . '='
        . $old->public_base64,
);

sub write_keys {
    my (%env) = @_;

    $t->write_file('keys.env', join '', map {"$_=\"$env{$_}\"\n"}
        sort keys %env);
    return;
}

write_keys(%keys);
$t->postgres;
my $identity = $t->track(Platform::Test::Identity->new(
    dir  => $t->dir,
    name => 'identity',
    args => [ '--env-file', $t->dir . '/keys.env' ],
    env  => $t->identity_env(map { $_ => undef } keys %keys),
));

# The face in front of this process.
my $port = $t->start_face($identity->nginx_address);
my $path = '/.well-known/jwks.json';

my $res = http_get($port, $path);
is $res->status, 200, 'served';
is $res->header('Cache-Control'), 'public, max-age=300', 'Cache-Control';
like $res->header('Content-Type'), qr{^application/(?:jwk-set\+)?json$},
    'Content-Type';
my $etag = $res->header('ETag');
like $etag, qr/^"[^"]+"$/, 'a strong ETag';

my @set = @{ $res->json->{keys} };
is scalar @set, 2, 'two keys';
is $set[0]{kid}, $key->kid, 'the signing key first';
is $set[1]{kid}, $old->kid, 'then the additional one';
for my $jwk (@set) {
    is_deeply [ sort keys %$jwk ], [qw(alg e kid kty n use)],
        "$jwk->{kid}: these members and no others";
    is_deeply [ @$jwk{qw(kty use alg)} ], [qw(RSA sig RS256)],
        "$jwk->{kid}: RSA, sig, RS256";
}
is $set[0]{n}, $key->jwk->{n}, 'the modulus is the key\'s';
is $set[0]{e}, $key->jwk->{e}, 'so is the exponent';

# Validators.

my %match = (
    $etag               => 304,
    "W/$etag"           => 304,
    "\"x\", $etag"      => 304,
    "\"x\",W/$etag,\"y\"" => 304,
    '*'                 => 304,
    '"x"'               => 200,
    $etag =~ tr/"//dr   => 200,
);
for my $value (sort keys %match) {
    my $again = http_get($port, $path, headers => [ 'If-None-Match' => $value ]);
    is $again->status, $match{$value}, "If-None-Match: $value";
    is $again->header('ETag'), $etag, "If-None-Match: $value: ETag";
    is $again->header('Cache-Control'), 'public, max-age=300',
        "If-None-Match: $value: Cache-Control";
    is length($again->body) > 0 ? 1 : 0, $match{$value} == 200 ? 1 : 0,
        "If-None-Match: $value: body";
}

# If-Match: compared strongly, and before the other one.

%match = (
    $etag             => 200,
    "\"x\", $etag"    => 200,
    '*'               => 200,
    "W/$etag"         => 412,
    '"x"'             => 412,
    "\"x\",W/$etag"   => 412,
    $etag =~ tr/"//dr => 412,
);
for my $value (sort keys %match) {
    my $again = http_get($port, $path, headers => [ 'If-Match' => $value ]);
    if ($match{$value} == 200) {
        is $again->status, 200, "If-Match: $value";
        is $again->body, $res->body, "If-Match: $value: the key set";
        next;
    }
    is_problem($again, 412, 'PRECONDITION_FAILED', "If-Match: $value");
    is $again->header('Cache-Control'), 'no-store',
        "If-Match: $value: not to be stored";
}
is http_get($port, $path, headers => [ 'If-Match' => $etag,
    'If-None-Match' => $etag ])->status, 304, 'both: unchanged';
is_problem(http_get($port, $path, headers => [ 'If-Match' => '"x"',
    'If-None-Match' => $etag ]), 412, 'PRECONDITION_FAILED', 'both: another');

my $head = http($port, HEAD => $path);
is $head->status, 200, 'HEAD';
is $head->header('ETag'), $etag, 'HEAD: ETag';
is_problem(http_post($port, $path, json => {}), 405, 'METHOD_NOT_ALLOWED',
    'POST');

# SIGHUP reads the file again.

my $new = jwt_key('new');
write_keys(
    PLATFORM_JWT_KEY_ID             => $new->kid,
    PLATFORM_JWT_PRIVATE_KEY_BASE64 => $new->private_base64,
    PLATFORM_JWT_PUBLIC_KEY_BASE64  => $new->public_base64,
    PLATFORM_JWT_ADDITIONAL_PUBLIC_KEYS => $key->kid . '='
        . $key->public_base64,
);
kill HUP => $identity->pid;
ok eventually(sub { http_get($port, $path)->json->{keys}[0]{kid} eq $new->kid }),
    'after SIGHUP: the new key';
$res = http_get($port, $path);
is_deeply [ map { $_->{kid} } @{ $res->json->{keys} } ],
    [ $new->kid, $key->kid ], 'after SIGHUP: the new set';
isnt $res->header('ETag'), $etag, 'after SIGHUP: another ETag';
is http_get($port, $path, headers => [ 'If-None-Match' => $etag ])->status,
    200, 'after SIGHUP: the old ETag matches no more';

# Bad new keys leave the old ones.

$etag = $res->header('ETag');
for my $bad (
    [ 'a pair that does not match', PLATFORM_JWT_KEY_ID => 'x',
        PLATFORM_JWT_PRIVATE_KEY_BASE64 => $new->private_base64,
        PLATFORM_JWT_PUBLIC_KEY_BASE64  => $key->public_base64 ],
    [ 'garbage', PLATFORM_JWT_KEY_ID => 'x',
        PLATFORM_JWT_PRIVATE_KEY_BASE64 => 'AAAA',
        PLATFORM_JWT_PUBLIC_KEY_BASE64  => 'AAAA' ],
) {
    my ($name, %env) = @$bad;
    my $before = () = $identity->log_text =~ /keys\.reload_failed/g;
    write_keys(%env);
    kill HUP => $identity->pid;
    ok eventually(sub {
        my $now = () = $identity->log_text =~ /keys\.reload_failed/g;
        return $now > $before;
    }), "$name: logged";
    is http_get($port, $path)->header('ETag'), $etag, "$name: the old set stays";
}
unlink $t->dir . '/keys.env';
kill HUP => $identity->pid;
ok eventually(sub { $identity->log_text =~ /keys\.env: cannot open/ }),
    'no file: logged';
is http_get($port, $path)->header('ETag'), $etag, 'no file: the old set stays';
unlike $identity->log_text, qr/AAAA|@{[ substr $new->private_base64, 0, 40 ]}/,
    'no key in the log';

$t->done;

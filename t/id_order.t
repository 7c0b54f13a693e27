# Where several refusals apply, the first of 404, 405, 413, 415, 400, 403, 429,
# 503, then what tokens and state say.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;

my $t = Platform::Test->new;
$t->identity_face(PLATFORM_AUTH_MAX_FAILURES => 1);
my $pg = $t->postgres;
my $port = $t->port('identity');

my $COOKIE = 'platform_refresh_token';
my $large = 'x' x 20_000;
my @text = (headers => [ 'Content-Type' => 'text/plain' ]);
my @evil = (Origin => 'https://evil.test');

sub is_refused {
    my ($method, $path, $status, $code, $name, %o) = @_;

    return is_problem(http($port, $method => $path, %o), $status, $code,
        $name);
}

# One step at a time, what is mended falls away.

is_refused(PUT => '/api/auth/nowhere', 404, 'RESOURCE_NOT_FOUND',
    'no such path, nor method', body => $large, @text);
is_refused(PUT => '/api/auth/login', 405, 'METHOD_NOT_ALLOWED',
    'the path is right', body => $large, @text);
is http($port, PUT => '/api/auth/login')->header('Allow'), 'POST',
    'which says what is';
for my $path (qw(login refresh select-branch logout)) {
    my @all = (body => $large, headers => [ 'Content-Type' => 'text/plain',
            @evil ], cookie => "$COOKIE=a; $COOKIE=b");
    is_refused(POST => "/api/auth/$path", 413, 'REQUEST_TOO_LARGE',
        "$path: so is the method", @all);
}
for my $path (qw(login refresh logout)) {
    is_refused(POST => "/api/auth/$path", 415, 'MEDIA_TYPE_UNSUPPORTED',
        "$path: and the size", body => '{', cookie => "$COOKIE=a",
        headers => [ 'Content-Type' => 'text/plain', @evil ]);
    is_refused(POST => "/api/auth/$path", 400, 'REQUEST_INVALID',
        "$path: and the type", body => '{', cookie => "$COOKIE=a",
        headers => [ 'Content-Type' => 'application/json', @evil ]);
}
is_refused(POST => '/api/auth/refresh', 403, 'AUTH_ORIGIN_NOT_ALLOWED',
    'refresh: and the body', json => { refreshToken => 'b' },
    cookie => "$COOKIE=a", headers => [@evil]);
is_refused(POST => '/api/auth/refresh', 400, 'AUTH_REFRESH_TOKEN_CONFLICT',
    'refresh: and the origin', json => { refreshToken => 'b' },
    cookie => "$COOKIE=a");
is_refused(POST => '/api/auth/refresh', 401, 'AUTH_REFRESH_TOKEN_INVALID',
    'refresh: and both are one', json => { refreshToken => 'a' },
    cookie => "$COOKIE=a; $COOKIE=a");

# Select-branch: who may not ask is told nothing of the body.

is_refused(POST => '/api/auth/select-branch', 401,
    'AUTH_ACCOUNT_TOKEN_REQUIRED', 'select-branch: the token comes first',
    body => '{', @text);

# Login: over the limit only what is well-formed.

my %login = (account => 'one@demo.test', credential => 'wrong');
is_refused(POST => '/api/auth/login', 401, 'AUTH_INVALID_CREDENTIALS',
    'login: one failure', json => \%login);
is_refused(POST => '/api/auth/login', 400, 'REQUEST_INVALID',
    'login: no credential comes before the limit',
    json => { account => $login{account} });
is_refused(POST => '/api/auth/login', 429, 'AUTH_TOO_MANY_ATTEMPTS',
    'login: over the limit', json => \%login);

# Names: A-Z are folded, other letters are not.

$pg->sql("insert into accounts (account_name, credential_hash)
    select U&'jos\\00e9\@demo.test', credential_hash from accounts
    where account_name = 'one\@demo.test'");
my %status = map {
    my $name = $_;
    $name => http_post($port, '/api/auth/login', json => {
        account => $name, credential => 'Demo-passw0rd!' })->status
} "JOS\x{e9}\@Demo.Test", "jos\x{c9}\@demo.test", "jose\x{301}\@demo.test";
is_deeply \%status, { "JOS\x{e9}\@Demo.Test" => 200,
    "jos\x{c9}\@demo.test" => 401, "jose\x{301}\@demo.test" => 401 },
    'other bytes are compared exactly';

# Without a database: what needs none is told before, and 503 before what the
# token's state would be.

my %token = map { $_ => http_post($port, '/api/auth/login', json => {
    account => "$_\@demo.test", credential => 'Demo-passw0rd!' })->json }
    qw(several two-hundred);
http_post($port, '/api/auth/logout',
    json => { refreshToken => $token{several}{refreshToken} });
$pg->stop('INT');
is_refused(PUT => '/api/auth/nowhere', 404, 'RESOURCE_NOT_FOUND',
    'no database: no such path');
is_refused(GET => "/api/auth/$_", 405, 'METHOD_NOT_ALLOWED',
    "no database: $_: method") for qw(login refresh select-branch logout);
for my $path (qw(login refresh logout)) {
    is_refused(POST => "/api/auth/$path", 413, 'REQUEST_TOO_LARGE',
        "no database: $path: size", body => $large, @text);
    is_refused(POST => "/api/auth/$path", 415, 'MEDIA_TYPE_UNSUPPORTED',
        "no database: $path: type", body => '{', @text);
    is_refused(POST => "/api/auth/$path", 400, 'REQUEST_INVALID',
        "no database: $path: body", json => []);
}
is_refused(POST => '/api/auth/refresh', 403, 'AUTH_ORIGIN_NOT_ALLOWED',
    'no database: refresh: origin', body => '',
    cookie => "$COOKIE=$token{several}{refreshToken}", headers => [@evil]);
is_refused(POST => '/api/auth/refresh', 503, 'DATABASE_UNAVAILABLE',
    'no database: refresh: before the revoked session',
    json => { refreshToken => $token{several}{refreshToken} });
is_refused(POST => '/api/auth/select-branch', 401,
    'AUTH_ACCOUNT_TOKEN_REQUIRED', 'no database: select-branch: token',
    json => {});
my $account = $token{several}{accountAccessToken};
is_refused(POST => '/api/auth/select-branch', 400, 'REQUEST_INVALID',
    'no database: select-branch: body', json => {}, token => $account);
is_refused(POST => '/api/auth/select-branch', 503, 'DATABASE_UNAVAILABLE',
    'no database: select-branch: before the revoked session',
    json => { branchId => 'x' }, token => $account);
is_refused(POST => '/api/auth/login', 503, 'DATABASE_UNAVAILABLE',
    'no database: login: before the credential', json => \%login);
$pg->start;
ok eventually(sub { http_get($port, '/readyz')->status == 200 }),
    'with a database again';
is_refused(POST => '/api/auth/refresh', 401, 'AUTH_SESSION_NOT_ACTIVE',
    'the revoked session', json => {
        refreshToken => $token{several}{refreshToken} });
is_refused(POST => '/api/auth/select-branch', 401, 'AUTH_SESSION_NOT_ACTIVE',
    'at select-branch too', json => { branchId => 'x' }, token => $account);
is http_post($port, '/api/auth/refresh', json => {
    refreshToken => $token{'two-hundred'}{refreshToken} })->status, 200,
    'one that lives is refreshed';

$t->done;

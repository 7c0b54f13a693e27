# Health, readiness and information on the identity face.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;

my $t = Platform::Test->new;
my $identity = $t->identity_face;
my $port = $t->port('identity');
my $up = { status => 'UP', service => 'identity-service' };

my @ready = qw(/readyz /internal/readyz /actuator/health
    /actuator/health/readiness);
my @alive = qw(/healthz /actuator/health/liveness);

for my $path (@alive, @ready) {
    my $res = http_get($port, $path);
    is $res->status, 200, "$path: 200";
    is_deeply $res->json, $up, "$path: UP";
    is $res->header('Content-Type'), 'application/json', "$path: JSON";
    is $res->header('Cache-Control'), 'no-store', "$path: not cached";
    ok $res->header('X-Request-Id'), "$path: has an id";

    my $head = http($port, HEAD => $path);
    is $head->status, 200, "$path: HEAD";
    is $head->body, '', "$path: HEAD has no body";

    my $post = http_post($port, $path, json => {});
    is_problem($post, 405, 'METHOD_NOT_ALLOWED', "$path: POST");
    is $post->header('Allow'), 'GET, HEAD', "$path: Allow";
}

my $info = http_get($port, '/actuator/info')->json;
is $info->{app}{name}, 'identity-service', 'info: name';
is $info->{app}{environment}, 'local', 'info: environment';
like $info->{app}{version}, qr/^\d+\.\d+/, 'info: version';

is_problem(http_get($port, '/nothing'), 404, 'RESOURCE_NOT_FOUND',
    'another path');
is_problem(http_get($port, '/healthz/'), 404, 'RESOURCE_NOT_FOUND',
    'a slash more');

# The database leaves: alive, but not ready, and it says why.

$t->postgres->stop('INT');
is http_get($port, $_)->status, 200, "no database: $_ is alive" for @alive;
for my $path (@ready) {
    my $res = http_get($port, $path);
    is_problem($res, 503, 'DATABASE_UNAVAILABLE', "no database: $path");
    like $res->json->{detail}, qr/database/, "no database: $path says so";
    is $res->header('Retry-After'), 1, "no database: $path: Retry-After";
}
$t->postgres->start;
ok eventually(sub { http_get($port, '/readyz')->status == 200 }),
    'the database is back: ready';

# No signing key where APP_ENV is local: serves, is not ready.

my $keyless = $t->identity(
    name => 'keyless',
    map { ("PLATFORM_JWT_$_" => undef) }
        qw(KEY_ID PRIVATE_KEY_BASE64 PUBLIC_KEY_BASE64),
);
my $got = $t->fcgi($keyless->address)->request(GET => '/readyz');
is $got->{status}, 503, 'no key: not ready';
like $got->{body}, qr/signing key/, 'no key: says so';
$got = $t->fcgi($keyless->address)->request(GET => '/healthz');
is $got->{status}, 200, 'no key: alive';
$got = $t->fcgi($keyless->address)->request(GET => '/.well-known/jwks.json');
is $got->{body}, '{"keys":[]}', 'no key: an empty key set';

# A schema older than the program.

$t->postgres->sql('create database empty owner platform', user => 'postgres');
my $old = $t->identity(
    name => 'old',
    PLATFORM_DB_NAME => 'empty',
    PLATFORM_DB_MIGRATE_ON_START => 'false',
    PLATFORM_DB_SEED_ON_START => undef,
);
$got = $t->fcgi($old->address)->request(GET => '/readyz');
is $got->{status}, 503, 'no migrations: not ready';
like $got->{body}, qr/migrations/, 'no migrations: says so';

# A newer one is at least what the program needs.

$t->postgres->sql("insert into schema_migrations
    values (9999, '9999_future.sql', repeat('a', 64))");
is $t->fcgi($identity->address)->request(GET => '/readyz')->{status}, 200,
    'a newer schema: ready';

$t->done;

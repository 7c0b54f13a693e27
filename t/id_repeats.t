# Idempotency keys of programs: a repeat gets the first answer and makes nothing; what
# is not that call, and what another client sends, has nothing to do with it.

use Platform::Test;
use Platform::Test::Client;
use Platform::Test::Commands;

my $t = Platform::Test->new;
my $pg = $t->postgres;
my $c = Platform::Test::Commands->new(test => $t, env => { PLATFORM_LOG_LEVEL => 'error' });
my $identity = $t->identity_face(PLATFORM_DB_LOCK_TIMEOUT => '1s');
my $port = client_of($t);

my %token;
for my $name (qw(one other)) {
    my $id = $c->done(qw(client add), $name, qw(--allow places:write))->{accountId};
    my $secret = $c->done(qw(client secret add), $name)->{secret};
    $token{$name} = http($port, POST => '/api/auth/token', headers => [ 'Content-Type' => 'application/x-www-form-urlencoded' ],
        body => "grant_type=client_credentials&client_id=$id&client_secret=$secret")->json->{access_token};
}

# A workspace by a client, with a key unless that is ''.
sub make ($name, $key, %o) {
    return http_post($port, '/api/system/' . ($o{path} // 'workspaces'), token => $token{ $o{by} // 'one' },
        json => $o{json} // { workspaceName => $name, newTenant => $name },
        headers => [ $key ne '' ? ('Idempotency-Key' => $key) : () ]);
}
sub is_made ($res, $name) { is $res->status, 201, $name or diag $res->body; return $res->json }
sub is_repeat ($res, $first, $name) {
    is_deeply [ $res->status, $res->header('Idempotent-Replayed'), $res->json ], [ 201, 'true', $first ], $name
        or diag $res->body;
}
sub count ($name) { return $pg->sql("select count(*) from workspaces where workspace_name = '$name'") }

my $first = is_made(make('First', 'k'), 'a call');
is make('First', 'k')->header('Idempotent-Replayed'), 'true', 'the same call again';
is_repeat(make('First', 'k'), $first, 'gets the first answer') for 1 .. 2;
is count('First'), 1, 'and makes nothing';

# What is another call.
my @mismatch = (422, 'REQUEST_IDEMPOTENCY_MISMATCH');
is_problem(make('Second', 'k'), @mismatch, 'another body');
is_problem(make('', 'k', path => "workspaces/$first->{workspaceId}/branches", json => { branchName => 'First' }),
    @mismatch, 'another path');
is count('Second'), 0, 'neither is carried out';
my $second = is_made(make('Second', 'K'), 'the key in capitals is another one');

# Another client's.
my $theirs = is_made(make('Theirs', 'k', by => 'other'), "another client's call with this key");
isnt $theirs->{workspaceId}, $first->{workspaceId}, 'it is told nothing of the first one';
is_problem(make('First', 'k', by => 'other'), @mismatch, 'though the call be the same');
is_repeat(make('Theirs', 'k', by => 'other'), $theirs, 'and each client has its own');
is_repeat(make('First', 'k'), $first, 'of its own');

# A day later it is a call like any other.
$pg->sql("update client_calls set called_at = now() - interval '25 hours'");
is_made(make('Third', 'k'), 'after 24 hours');

# A call that waits for a lock is told to come again, and has not been carried out: where
# its key is looked up, and where its answer is kept.
for my $mode ('access exclusive', 'share') {
    my $held = $pg->begin("lock table client_calls in $mode mode");
    is_problem(make('Busy', $mode =~ tr/ /-/r), 503, 'AUTH_BUSY', "client_calls is locked, $mode");
    $pg->end($held, 'rollback');
    is count('Busy'), 0, 'nothing was made';
    my $made = is_made(make('Busy', $mode =~ tr/ /-/r), 'then it is');
    is_repeat(make('Busy', $mode =~ tr/ /-/r), $made, 'once');
    $pg->sql("delete from workspaces where workspace_name = 'Busy'; delete from tenants where tenant_name = 'Busy'");
}

is_problem(make('Fourth', $_), 400, 'REQUEST_INVALID', 'no key: ' . length) for 'k' x 256, 'k k', "k\x{e9}";
is_made(make('Fifth', '~' x 255), 'the longest one');
$t->done;

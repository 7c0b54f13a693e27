# Logout that works, through the templates: what ends a session at identity is
# refused by the gateway within a second, and nothing else is.

use Platform::Test;
use Platform::Test::Commands;
use Platform::Test::Metrics;
use Time::HiRes qw(time);

my $t = Platform::Test->new;
my @process = map { $t->identity(name => "identity$_",
    PLATFORM_JWT_ISSUER => 'http://127.0.0.1:' . $t->port('identity')) } 1, 2;
my $stack = $t->full_stack(identity => \@process);
my $c = Platform::Test::Commands->new(test => $t, env => {
    IDENTITY_LISTEN => undef, %{ $stack->{env} } });

sub login ($account = undef) {
    my $res = $stack->login($account // 'one');
    return $res->status == 200 ? $res->json : die 'login: ' . $res->body . "\n";
}

sub status { return $stack->current_context($_[0])->status }

sub everywhere ($token) {
    my %seen = map { status($token) => 1 } 1 .. 8;
    return join ' ', sort keys %seen;
}

# One test: all of these are refused, a second after that.
sub ends ($name, $end, @tokens) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is everywhere($_), '200', "$name: let in before" for @tokens;
    $end->();
    my $since = time;
    ok eventually(sub { !grep { everywhere($_) ne '401' } @tokens }, 10), "$name: refused";
    note sprintf '%s: after %.3f s', $name, time - $since;
}

sub failed {
    return metrics_scrape($t->port('metrics'), '/internal/metrics')
        ->{'platform_gateway_revocation_fetches_total{outcome="failed"}'};
}

# Of a hundred refreshes of one token at once, by two processes, one succeeds.

for my $account ('one', 'several') {
    my $n = $t->scale > 1 ? 12 : 100;
    my $bytes = http_request_bytes(POST => '/api/auth/refresh',
        json => { refreshToken => login($account)->{refreshToken} });
    my %got;
    push @{ $got{ $_ ? $_->status . ' ' . $_->code : 'none' } }, $_
        for http_parallel([ map { [ $stack->gateway, $bytes ] } 1 .. $n ]);
    is_deeply { map { $_ => scalar @{ $got{$_} } } keys %got },
        { '200 AUTH_REFRESH_SUCCESS' => 1, '401 AUTH_REFRESH_TOKEN_STALE' => $n - 1 },
        "$account: one of $n succeeds, the rest are stale";
    is scalar(grep { $_->header_all('Set-Cookie') }
        @{ $got{'401 AUTH_REFRESH_TOKEN_STALE'} }), 0, "$account: no cookie is touched";
    my $won = $got{'200 AUTH_REFRESH_SUCCESS'}[0]->json->{refreshToken};
    is_deeply [ map { $stack->refresh($won)->status } 1, 2 ], [ 200, 401 ],
        "$account: the session goes on, once";
}

# A logout.

my ($one, $again) = map { login('one') } 1, 2;
ends('logout', sub {
    is $stack->post('/api/auth/logout', { refreshToken =>
        $one->{refreshToken} })->status, 200, 'a logout';
}, $one->{accessToken});
my $res = $stack->current_context($one->{accessToken});
is_problem($res, 401, 'GATEWAY_TOKEN_INVALID', 'which');
is $t->logged($res, $stack->nginx)->{reason}, 'session_revoked', 'logged';
is everywhere($again->{accessToken}), '200', 'another session of the account is not';

# All tokens of a session with branches.

my $several = login('several');
my @branch = map { $stack->select_branch($several, $_)->json->{accessToken} } 0 .. 2;
my $kept = $stack->select_branch(login('several'))->json->{accessToken};
ends('a session with branches', sub {
    $stack->post('/api/auth/logout', undef, token => $branch[0]);
}, @branch);
is $stack->select_branch($several)->status, 401, 'its account token, too';
is everywhere($kept), '200', 'another session of the account is not';

# What operators do.

my $third = login('one');
my @session = map { (jwt_decode($_->{accessToken}))[1]{session_id} } $third, $again;
ends('revoke-sessions --session', sub {
    my ($code, undef, $err) = $c->run(qw(account revoke-sessions one@demo.test
        --session), $session[0]);
    is $code, 0, "revoke-sessions $err";
}, $third->{accessToken});
is everywhere($again->{accessToken}), '200', 'that one alone';

for my $how ([ disable => [qw(account disable)], [qw(account enable)] ],
    [ 'set-credential' => [qw(account set-credential)] ],
    [ 'revoke-sessions' => [qw(account revoke-sessions)] ])
{
    my ($name, $command, $back) = @$how;
    my @login = map { login('one') } 1 .. 3;
    ends($name, sub {
        my ($code, undef, $err) = $c->run({ stdin =>
            "$Platform::Test::Stack::CREDENTIAL\n" }, @$command,
            'one@demo.test');
        is $code, 0, "$name $err";
    }, map { $_->{accessToken} } @login);
    is everywhere($kept), '200', "$name: another account is not";
    is +($c->run(@$back, 'one@demo.test'))[0], 0, "$name: and back" if $back;
    my $new = login('one');
    is everywhere($new->{accessToken}), '200', "$name: a login right after it is let in";
    sleep 1.2;
    is everywhere($new->{accessToken}), '200', "$name: and stays so";
}

# Identity goes and comes: nothing is forgotten, nothing is missed.

my $before = login('one');
$_->stop('KILL') for @process;
is everywhere($one->{accessToken}), '401', 'identity down: what ended stays so';
is everywhere($before->{accessToken}), '200', 'and what did not';
$stack->postgres->sql("UPDATE auth_sessions SET status = 'REVOKED',"
    . " revoked_at = now() WHERE session_id = '"
    . (jwt_decode($before->{accessToken}))[1]{session_id} . "'");
my $failed = failed();
ok eventually(sub { failed() >= $failed + 4 }), 'which the gateway has noticed';
$_->start for @process;
is $stack->login('one')->status, 200, 'a login does not wait for its next look';
ok eventually(sub { everywhere($before->{accessToken}) eq '401' }, 10),
    'what was ended by hand meanwhile is refused';
my $after = login('one');
is everywhere($after->{accessToken}), '200', 'control: a new one';

# nginx starts with nothing, and is not ready before it has all.

my $nginx = $stack->nginx;
$nginx->stop;
$nginx->start;
ok eventually(sub { $stack->get('/readyz')->status == 200 }, 10), 'a restart';
is everywhere($_->{accessToken}), '401', 'what ended stays so' for $one, $third, $before;
is everywhere($after->{accessToken}), '200', 'and what did not';
$nginx->reload;
is everywhere($one->{accessToken}), '401', 'after a reload';
my $sample = metrics_scrape($t->port('metrics'), '/internal/metrics');
is $sample->{'platform_gateway_revocation_unchecked_total'}, 0,
    'none was let in unchecked since';
cmp_ok $sample->{'platform_gateway_revocation_entries'}, '>=', 5, 'entries';
is $stack->get('/_platform/revocations')->status, 404, 'clients see no feed';
is $stack->get('/internal/revocations')->status, 404, 'nor by its own name';

$t->done;

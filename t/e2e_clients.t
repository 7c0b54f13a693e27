# Programs: OAuth libraries find the token endpoint behind the gateway, get a token by
# secret and by assertion, also one that is bound to a key, and call the API and a route of level system with it; what the
# gateway refuses, and that a lockout ends such a token there.

use Platform::Test;
use Platform::Test::Commands;
use Platform::Test::Env;
use Platform::Test::Metrics;
use Platform::Test::Page qw(steps);

my $node = Platform::Test::Env::node();
Platform::Test::Env::needs('the libraries of Debian that t/DEPENDENCIES lists')
    if system(q{/usr/bin/python3 -c 'import authlib.jose, requests' 2>/dev/null}) != 0;

my $t = Platform::Test->new(timeout => 300);
my $issuer = 'http://127.0.0.1:' . $t->port('gateway');
my %env = (PLATFORM_JWT_ISSUER => $issuer, PLATFORM_JWT_AUDIENCE => 'https://api.example.test',
    PLATFORM_SYSTEM_API => 'gateway', PLATFORM_PUBLIC_ORIGINS => $issuer,
    PLATFORM_LOGIN_RATE_LIMIT => 'off',
    PLATFORM_AUTH_MAX_FAILURES => 50);
my $page = $t->read_file($t->root . '/docs/programs.md');
my ($route) = $page =~ /^```nginx\n(.*?)^```/ms;
$route =~ s/:9001/':' . $t->port('upstream')/e;
$t->write_file('routes.d/reports.conf', $route);
my $s = $t->full_stack(echo => 1, identity => $t->identity(%env),
    env => { %env, ROUTES_DIR => $t->dir . '/routes.d' }, key_age => '1s');
my ($dir, $root) = ($t->dir, $t->root);
my $c = Platform::Test::Commands->new(test => $t, env => { %env, PLATFORM_LOG_LEVEL => 'error' });

# The commands of the page, in their order; the key that it names is ours.
my $key = jwt_key('clients', alg => 'ES256');
$t->write_file('key.pem', $key->private_pem);
my (@done, $spare);
for my $line ($page =~ /^identity (client .*)$/mg) {
    my ($words, $file) = split / < /, $line;
    $words =~ s/--id \K\S+/$spare/ if $words =~ /remove/;
    my $result = $c->done($file ? { stdin => $key->public_pem } : (), split / /, $words);
    push @done, $result;
    $spare = $result->{secretId} // $spare;
}
my ($client, $first) = @done;
my $secret = $first->{secret};
is scalar @done, 6, 'the commands of the page';
$c->done(qw(client allow billing --scope audit:read));

sub curl ($id, $with) {
    my ($command) = $page =~ /^(curl .*?)\n```/ms;
    $command =~ s/:8080/':' . $t->port('gateway')/e;
    local @ENV{qw(CLIENT_ID CLIENT_SECRET)} = ($id, $with);
    return scalar qx{$command -sS 2>&1};
}
like curl($client->{accountId}, $secret), qr/\A\{"access_token":"eyJ[^"]+","token_type":"Bearer",
    "expires_in":300,"scope":"audit:read\ people:read"\}\z/x, 'and its call, answered as it says';

# A program prints a line for each case, and as the last one that it is done.
sub asked ($what, $count, $program) {
    my @lines = split /^/, qx{$program $issuer $client->{accountId} $secret $dir/key.pem \\
        /reports/x '/api/system/accounts?limit=1' 2>&1};
    my @told = map { /^((?:not )?ok) (.*)/ ? [ $1, $2 ] : () } @lines;
    is($_->[0], 'ok', $_->[1]) or diag @lines for @told;
    is_deeply [ scalar @told, $lines[-1] ], [ $count, "done\n" ], "$what: all" or diag @lines;
}
asked(node => 16, "$node $root/t/node/clients.mjs");
asked(python => 3, "/usr/bin/python3 $root/t/consumers/clients.py");

# The program of docs/bound-tokens.md, by a person.
my $tells = "$root/docs/bound-tokens.md";
my ($program) = $t->read_file($tells) =~ /^```js\n(.*?)^```/ms;
$t->write_file('bound.mjs', $program =~ s{http://localhost:8080}{$issuer}r);
my ($command, $said) = @{ (steps($tells, 'Try it'))[0] };
is scalar qx{cd $dir && ${\ $command =~ s/^node/$node/r } 2>&1}, $said, 'a bound token, as the page says';

# -- at the gateway

sub token (%p) {
    my $body = join '&', 'grant_type=client_credentials', map {"$_=$p{$_}"} sort keys %p;
    return http_post($s->gateway, '/api/auth/token', body => $body,
        headers => [ 'Content-Type' => 'application/x-www-form-urlencoded' ]);
}
my %post = (client_id => $client->{accountId}, client_secret => $secret);
my $token = token(%post)->json->{access_token};
is $s->get('/reports/x', token => $token)->status, 200, 'a token with the scope';
my $less = token(%post, scope => 'audit:read')->json->{access_token};
my $res = $s->get('/reports/x', token => $less);
is $res->status, 403, 'a token without it';
like $res->header('WWW-Authenticate'), qr/error="insufficient_scope", scope="people:read"/, 'and which it lacks';
is_problem($s->get('/reports/x', token => $s->login('one')->json->{accessToken}), 403,
    'GATEWAY_CONTEXT_FORBIDDEN', 'a token of a session');
is $s->get('/api/auth/token')->status, 405, 'GET of the endpoint';
is $s->current_context($token)->status, 403, 'a program has no branch';

# The first reading of the feed after a change tells the gateway; one that had begun
# before may not.  By default they are half a second apart.
sub readings {
    return metrics_scrape($t->port('metrics'), '/internal/metrics')
        ->{'platform_gateway_revocation_fetches_total{outcome="read"}'};
}
sub refused_soon ($token, $name) {
    my $before = readings();
    ok eventually(sub { readings() >= $before + 2 }), "$name: the feed is read twice";
    is $s->get('/reports/x', token => $token)->status, 401, "$name: the gateway refuses its token";
}
unlike $t->read_file('rendered/platform-http.conf'), qr/^platform_gateway_revocations .*interval/m,
    'the feed is read as often as by default';
$c->done(qw(client disallow billing --scope audit:read));
refused_soon($token, 'a scope that is taken away');
is $s->get('/reports/x', token => token(%post)->json->{access_token})->status, 200, 'but a new one passes';

my $last = token(%post)->json->{access_token};
is $s->get('/api/system/accounts', token => $last)->status, 200, 'the API of the service, too';
$c->done(qw(account disable billing));
refused_soon($last, 'a disabled client');
is_problem($s->get('/api/system/accounts', token => $last), 401, 'GATEWAY_TOKEN_INVALID', 'everywhere');
is token(%post)->status, 401, 'and it gets no other';
$t->done;

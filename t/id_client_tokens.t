# Tokens for programs: POST /api/auth/token by secret (two ways) and by assertion, what
# it refuses, scopes, limits; the commands of clients; what ends the tokens.

use Platform::Test;
use Platform::Test::Commands;
use JSON::PP qw(encode_json);
use MIME::Base64 qw(encode_base64);

my $t = Platform::Test->new;
my $pg = $t->postgres;
my %env = (PLATFORM_AUTH_MAX_FAILURES => 3);
my $c = Platform::Test::Commands->new(test => $t, env => { PLATFORM_LOG_LEVEL => 'error' });
my $identity = $t->identity_face(%env);
my $port = $t->port('identity');

sub form (%p) { return join '&', map { _escape($_) . '=' . _escape($p{$_}) } sort keys %p }
sub _escape ($text) { return $text =~ s/([^A-Za-z0-9._-])/sprintf '%%%02X', ord $1/ger }
my $FORM = 'application/x-www-form-urlencoded';

# A request with these parameters; headers and so on in a leading hash.
sub ask (@p) {
    my %o = ref $p[0] ? %{ shift @p } : ();
    my $body = delete $o{raw} // form(grant_type => 'client_credentials', @p);
    my @headers = ('Content-Type' => delete $o{type} // $FORM, @{ delete $o{headers} // [] });
    return http($port, POST => '/api/auth/token', body => $body, headers => \@headers, %o);
}
sub basic ($id, $secret) {
    return { headers => [ Authorization => 'Basic ' . encode_base64(
        _escape($id) . ':' . _escape($secret), '') ] };
}
sub is_error ($res, $status, $error, $code, $name) {
    my $json = eval { $res->json } // {};
    is_deeply [ $res->status, @$json{qw(error code)} ], [ $status, $error, $code ], $name
        or diag $res->body;
    ok $json->{error_description} && $json->{requestId}
        && $res->header('Content-Type') eq 'application/json'
        && $res->header('Cache-Control') eq 'no-store', "$name: as RFC 6749 section 5.2";
}

# -- a client

my $client = $c->audited(['client.added'], qw(client add Billing --allow people:read),
    qw(--allow audit:read));
is_deeply [ @$client{qw(account status)}, @{ $client->{scopes} } ],
    [ 'billing', 'ACTIVE', 'audit:read', 'people:read' ], 'client add';
my $id = $client->{accountId};
my $made = $c->audited(['client.secret_added'], qw(client secret add billing));
my $secret = $made->{secret};
like $secret, qr/\Apgs_[A-Za-z0-9_-]{43}\z/, 'a secret';
is $pg->sql("select count(*) from client_secrets where client_secrets::text like '%$secret%'"), 0,
    'is not kept';
my (undef, $line) = $c->run(qw(client secret add billing));
like $line, qr/\Apgs_\S{43}\n\z/, 'for people: the secret alone';
$c->refused(1, qr/at most 2 live secrets; remove one first/, qw(client secret add billing));

# -- by secret

my %post = (client_id => $id, client_secret => $secret);
my $res = ask(%post);
is $res->status, 200, 'client_secret_post' or diag $res->body;
my $answer = $res->json;
my $token = delete $answer->{access_token};
is_deeply $answer, { token_type => 'Bearer', expires_in => 300, scope => 'audit:read people:read' },
    'the answer: all that it may';
is $res->header('Cache-Control'), 'no-store', 'is not kept';
my $claims = (jwt_decode($token))[1];
is_deeply [ @$claims{qw(sub account_id account_type token_type token_scope client_id scope)} ],
    [ $id, $id, 'SYSTEM', 'system', 'SYSTEM', $id, 'audit:read people:read' ], 'the token';
is $claims->{exp} - $claims->{iat}, 300, 'its life';
is ask(basic($id, $secret))->status, 200, 'client_secret_basic';
is ask({ %{ basic($id, $secret) }, type => "$FORM; charset=UTF-8" }, client_id => $id)->status, 200,
    'with client_id beside, and a charset';
is ask(%post, scope => 'people:read people:read')->json->{scope}, 'people:read', 'a scope, once';
is ask(%post, scope => '', resource => 'https://api.test')->json->{scope}, 'audit:read people:read',
    'an empty parameter is none, an unknown one is ignored';

# -- by assertion

my $issuer = $claims->{iss};
my $JWT = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer';
my %key = map { ($_ => jwt_key("client-$_", alg => $_)) } qw(RS256 ES256 EdDSA);

sub assertion ($key, %o) {
    my $now = time;
    my %claims = (iss => $id, sub => $id, aud => $issuer, iat => $now, exp => $now + 60,
        jti => uuid(), %{ $o{claims} // {} });
    delete $claims{$_} for grep { !defined $claims{$_} } keys %claims;
    return (client_assertion_type => $JWT, client_assertion => jwt_sign(key => $key,
        header => { typ => undef, %{ $o{header} // {} } }, payload => \%claims));
}
my $added = $c->audited(['client.key_added'], { stdin => encode_json($key{ES256}->jwk) },
    qw(client key add billing));
is $added->{kid}, $key{ES256}->kid, 'client key add: a JWK keeps its kid';
$c->done({ stdin => $key{$_}->public_pem }, qw(client key add billing)) for qw(RS256 EdDSA);
$c->refused(1, qr/has a key of this id already/, { stdin => $key{RS256}->public_pem },
    qw(client key add billing));
$c->refused(1, qr/not one public key in PEM or JWK/, { stdin => 'no key' }, qw(client key add billing));
$c->refused(1, qr/not one public key/, { stdin => $key{RS256}->private_pem }, qw(client key add billing));
is ask(assertion($key{$_}, $_ eq 'ES256' ? () : (header => { kid => undef })))->status, 200,
    "private_key_jwt: $_" for sort keys %key;
is ask(client_id => $id, assertion($key{ES256}, claims => { aud => ["$issuer/api/auth/token"] }))->status,
    200, 'with client_id, for the address of the endpoint';
is ask(assertion($key{ES256}, claims => { exp => time + 300 }))->status, 200, 'for five minutes';

# -- what is refused; each of these is one answer

my @invalid = (401, 'invalid_client', 'AUTH_CLIENT_INVALID');
sub forget { $pg->sql('delete from login_attempts') }
my %used = assertion($key{ES256});
is ask(%used)->status, 200, 'an assertion';
for my $case (
    [ 'the same again', %used ],
    [ 'no secret', client_id => $id ],
    [ 'a wrong secret', client_id => $id, client_secret => $secret =~ s/.\z/_/r ],
    [ 'an unknown client', client_id => uuid(7), client_secret => $secret ],
    [ 'an account that is no client', client_id => $pg->sql(
        "select account_id from accounts where account_name = 'one\@demo.test'"),
        client_secret => 'Demo-passw0rd!' ],
    [ 'a name', client_id => 'billing', client_secret => $secret ],
    [ 'wrong Basic', basic($id, "$secret.") ],
    [ 'for another audience', assertion($key{ES256}, claims => { aud => 'https://other.test' }) ],
    [ 'without an audience', assertion($key{ES256}, claims => { aud => undef }) ],
    [ 'of another issuer', assertion($key{ES256}, claims => { iss => uuid(7) }) ],
    [ 'for another client', assertion($key{ES256}, claims => { sub => uuid(7) }) ],
    [ 'for another client, with its own id', client_id => $id,
        assertion($key{ES256}, claims => { sub => uuid(7) }) ],
    [ 'with the id of another', client_id => uuid(7), assertion($key{ES256}) ],
    [ 'without jti', assertion($key{ES256}, claims => { jti => undef }) ],
    [ 'with a long jti', assertion($key{ES256}, claims => { jti => 'x' x 256 }) ],
    [ 'expired', assertion($key{ES256}, claims => { exp => time - 31 }) ],
    [ 'for more than five minutes', assertion($key{ES256}, claims => { exp => time + 340 }) ],
    [ 'from the future', assertion($key{ES256}, claims => { iat => time + 60 }) ],
    [ 'by another key', assertion(jwt_key('another', alg => 'ES256')->as($key{ES256}->kid)) ],
    [ 'by the key of the service', assertion(jwt_key('identity')) ],
    [ 'with a secret', client_assertion_type => $JWT, client_assertion => jwt_sign(
        secret => $secret, payload => { iss => $id, sub => $id, aud => $issuer, exp => time + 60,
            jti => uuid() }) ],
    [ 'garbage', client_assertion_type => $JWT, client_assertion => 'a.b.c' ],
) {
    my ($name, @p) = @$case;
    forget();
    is_error(my $answer = ask(@p), @invalid, $name);
    is $answer->header('WWW-Authenticate'), ref $p[0] ? 'Basic realm="platform", charset="UTF-8"'
        : 'Login realm="platform"', "$name: the challenge";
}
# The next account by id is read for an unknown one, and is not taken for it.
is_error(ask(%post, client_id => $id =~ s/.{12}\z/0 x 12/er), @invalid, 'an id below that of a client');
my ($logged) = reverse grep { $_->{event} eq 'auth.token.failed' } $identity->log_lines;
is $logged->{accountId}, undef, 'is nobody in the log';
forget();
my $keyless = $c->done(qw(client add keyless --allow audit:read))->{accountId};
my @twins = map { jwt_key("twin-$_", alg => 'ES256') } 1, 2;
my $twins = $c->done(qw(client add twins --allow audit:read))->{accountId};
my %twins = (claims => { iss => $twins, sub => $twins });
for my $key (@twins) {
    $c->done({ stdin => encode_json($key->jwk) }, qw(client key add twins));
    is ask(assertion($key, %twins))->status, 200, 'one of two keys, by its kid';
}
for my $key (@twins) {
    is_error(ask(assertion($key, %twins, header => { kid => undef })), @invalid, 'without it');
    is_error(ask(assertion($key->as('other'), %twins)), @invalid, 'by another kid');
    forget();
}
is_error(ask(assertion(jwt_key('identity'), claims => { iss => $keyless, sub => $keyless })), @invalid,
    'by the key of the service, of a client without keys');
forget();
for my $case (
    [ 'two ways', { %{ basic($id, $secret) } }, client_secret => $secret ],
    [ 'two ways', client_secret => $secret, assertion($key{ES256}) ],
    [ 'a parameter twice', { raw => form(grant_type => 'client_credentials', %post) . '&scope=a&scope=b' } ],
    [ 'another client in Basic', basic($id, $secret), client_id => uuid(7) ],
    [ 'broken Basic', { headers => [ Authorization => 'Basic !' ] } ],
    [ 'an assertion of another type', %{ { assertion($key{ES256}), client_assertion_type => 'x' } } ],
    [ 'JSON', { raw => encode_json(\%post), type => 'application/json' } ],
    [ 'no grant_type', { raw => form(%post) } ],
    [ 'a broken escape', { raw => 'grant_type=client_credentials&a=%zz' } ],
    [ 'NUL', { raw => 'grant_type=client_credentials&a=%00' } ],
    [ 'no UTF-8', { raw => 'grant_type=client_credentials&a=%ff' } ],
    [ 'many parameters', { raw => join '&', 'grant_type=client_credentials', map {"p$_=1"} 1 .. 40 } ],
) {
    my ($name, @p) = @$case;
    is_error(ask(@p), 400, 'invalid_request', 'REQUEST_INVALID', $name);
}
is_error(ask({ raw => form(%post, grant_type => 'password') }), 400, 'unsupported_grant_type',
    'AUTH_GRANT_TYPE_UNSUPPORTED', 'another grant');
is_error(ask(%post, scope => $_), 400, 'invalid_scope', 'AUTH_SCOPE_INVALID', "scope $_")
    for 'people:write', 'people:read people:write', 'people', 'people:rea', 'ople:read';
is http($port, GET => '/api/auth/token')->status, 405, 'GET';

# A sweep keeps the assertion for longer than any process can accept it, whatever its clock.
%used = assertion($key{ES256});
is ask(%used)->status, 200, 'an assertion';
$pg->sql("update client_assertions set dies_at = now() - interval '59 minutes'");
$c->done('sweep');
is_error(ask(%used), @invalid, 'the same again, where the clock is behind that of the database');
$pg->sql("update client_assertions set dies_at = now() - interval '61 minutes'");
$c->done('sweep');
is $pg->sql('select count(*) from client_assertions'), 0, 'then it goes';
forget();

# -- too many failures: of this client from this address

is_error(ask(%post, client_secret => 'x'), @invalid, "failure $_") for 1 .. 3;
my $limited = ask(%post);
is_error($limited, 429, 'temporarily_unavailable', 'AUTH_TOO_MANY_ATTEMPTS', 'one more, though right');
like $limited->header('Retry-After'), qr/\A[1-9]\d*\z/, 'and when to try again';
is ask(%post, client_id => uc $id)->status, 429, 'in capital letters too';
my %counted = (env => { jwt_key('identity')->env });
is $c->done(\%counted, qw(account unlock billing))->{clearedAddresses}, 1, 'account unlock forgets them';
is ask(%post)->status, 200, 'and the client gets its token';
is_error(ask(%post, client_secret => 'x'), @invalid, "again $_") for 1 .. 3;
is ask(%post)->status, 429, 'too many again';
my $second = $c->done(qw(client add Second --allow audit:read));
my $other = $c->done(qw(client secret add second))->{secret};
is ask(client_id => $second->{accountId}, client_secret => $other)->status, 200, 'another client is not concerned';
$pg->sql("update login_attempts set address = '10.9.9.9' where account_hmac <> ''");
is ask(%post)->status, 200, 'nor is the client from another host';
forget();
is_error(ask(@$_), @invalid, 'the secret of the other client')
    for map { [ client_id => $_->[0], client_secret => $_->[1] ], [ basic(@$_) ] }
    [ $id, $other ], [ $second->{accountId}, $secret ];
forget();

# -- a secret that ends

$c->done(qw(client secret remove second --id), $pg->sql("select secret_id from client_secrets
    where account_id = '$second->{accountId}'"));
is_error(ask(client_id => $second->{accountId}, client_secret => $other), @invalid, 'a removed secret');
my $brief = $c->done(qw(client secret add second --expires-in 1h));
is ask(client_id => $second->{accountId}, client_secret => $brief->{secret})->status, 200, 'before its end';
$pg->sql("update client_secrets set expires_at = now() - interval '1 second'
    where secret_id = '$brief->{secretId}'");
is_error(ask(client_id => $second->{accountId}, client_secret => $brief->{secret}), @invalid, 'after it');

# -- what ends tokens: a lockout, so that gateways refuse them

my $locked_out = 0;
sub ends ($what, @args) {
    my $count = "select count(*) from session_revocations where account_id = '$id'";
    my $before = $pg->sql($count);
    $c->done(@args);
    cmp_ok $pg->sql($count), '>', $before, "$what ends the tokens";
    my $iat = (jwt_decode(ask(%post)->json->{access_token} // return))[1]{iat};
    cmp_ok $iat, '>=', $pg->sql("select max(issued_before) from session_revocations
        where account_id = '$id'"), 'a new token is later';
}
my ($spare) = split /\n/, $pg->sql("select secret_id from client_secrets where account_id = '$id'
    and secret_sha256 <> sha256('$secret')");
ends('removing a secret', qw(client secret remove billing --id), $spare);
ends('removing a key', qw(client key remove billing --kid), $key{ES256}->kid);
is_error(ask(assertion($key{ES256})), @invalid, 'whose assertions are refused');
forget();
ends('taking a scope away', qw(client disallow billing --scope audit:read));
is_error(ask(%post, scope => 'audit:read'), 400, 'invalid_scope', 'AUTH_SCOPE_INVALID', 'which is not given');
$c->audited(['client.allowed'], qw(client allow billing --scope audit:read --scope people:read));
is ask(%post)->json->{scope}, 'audit:read people:read', 'until it is allowed again';
ends('account disable', qw(account disable billing));
is_error(ask(%post), @invalid, 'a disabled client');
$c->done(qw(account enable billing));
forget();
is ask(%post)->status, 200, 'an enabled one';

# A token that is issued while its client is locked out ends too: between two lockouts
# of one second, and before the commit of one that began in the second before.
sub late { return $pg->sql("select max(issued_before) from session_revocations where account_id = '$id'") }
sub iat { return (jwt_decode(ask(%post)->json->{access_token}))[1]{iat} }
sub second_begins { select undef, undef, undef, 1.02 - $pg->sql('select extract(second from clock_timestamp())') =~ s/\A\d+//r }
my $lock_out = "update accounts set sessions_valid_after = clock_timestamp() where account_id = '$id'";
second_begins();
$pg->sql($lock_out);
my $between = iat();
$pg->sql($lock_out);
cmp_ok $between, '<', late(), 'a token between two lockouts ends with the second';
cmp_ok iat(), '>=', late(), 'and a new one is good';
my $slow = $pg->begin($lock_out);
second_begins();
$between = iat();
$pg->end($slow, "commit");
cmp_ok $between, '<', late(), 'so does one from before the commit';
cmp_ok iat(), '>=', late(), 'and a new one is good';
$pg->sql("update accounts set account_type = 'CUSTOMER' where account_id = '$id'");
is_error(ask(%post), @invalid, 'an account that is no client any more');
$pg->sql("update accounts set account_type = 'SYSTEM' where account_id = '$id'");
forget();

# -- commands

my ($row) = grep { $_->{account} eq 'billing' } @{ $c->done(qw(client list)) };
is_deeply [ @$row{qw(accountId secrets keys)}, @{ $row->{scopes} } ],
    [ $id, 1, 2, 'audit:read', 'people:read' ], 'client list';
my $show = $c->done(qw(client show), $id);
is_deeply [ scalar @{ $show->{secrets} }, sort map { $_->{kid} } @{ $show->{keys} } ],
    [ 1, sort split /\n/, $pg->sql("select kid from client_keys where account_id = '$id'") ],
    'client show';
$c->refused(1, qr/"one\@demo.test" is not a client: its type is CUSTOMER/,
    qw(client secret add one@demo.test));
$c->refused(1, qr/has no secret with this id/, qw(client secret remove billing --id), uuid(9));
$c->refused(2, qr/--scope is one of people:read/, qw(client allow billing --scope people));
$c->refused(2, qr/client: which of add, allow/, qw(client secret));
$c->done({ stdin => jwt_key("more-$_")->public_pem }, qw(client key add billing)) for 1 .. 2;
$c->refused(1, qr/at most 4 keys; remove one first/, { stdin => jwt_key('more-3')->public_pem },
    qw(client key add billing));
$c->done(qw(account delete billing));
is $pg->sql("select (select count(*) from client_secrets where account_id = '$id')
    + (select count(*) from client_keys where account_id = '$id')"), 0, 'a deleted client has nothing';
is_error(ask(%post), @invalid, 'and gets nothing');

# -- where it is served

$identity->stop;
$identity = $t->identity(%env, PLATFORM_SYSTEM_API => 'off', name => 'off');
is $t->fcgi($identity->address)->request(POST => '/api/auth/token', CONTENT_TYPE => $FORM)->{stdout}
    =~ /\AStatus: 404/, 1, 'PLATFORM_SYSTEM_API=off: not at all';
$t->done;

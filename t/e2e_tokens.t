# Tokens and context headers through the templates: what identity signs passes,
# what is forged is refused, and downstream learns who asks from the token alone.

use Platform::Test;

my $t = Platform::Test->new;
my $s = $t->full_stack(echo => 1);
my $path = '/api/workspaces/current-context';
my $key = jwt_key('identity');
my $good = $s->login('one')->json->{accessToken};
my $several = $s->login('several')->json;
my ($header, $claims) = jwt_decode($good);

# Claims as identity issued them, changed.
sub forged ($head, $change, %o) {
    my %payload = (%$claims, %$change);
    delete $payload{$_} for grep { !defined $payload{$_} } keys %payload;
    return jwt_sign(header => { %$header, %$head }, payload => \%payload,
        (%o ? %o : (key => $key)));
}

# -- tokens that are not what they seem

my ($h, $p, $sig) = split /\./, $good;
my @bad = (
    [ 'a flipped signature bit', jwt_tamper($good, 2, 100) ],
    [ 'the last signature bit flipped', jwt_tamper($good, 2, -1) ],
    [ 'a flipped payload bit', jwt_tamper($good, 1, 100) ],
    [ 'an issuer with a slash more', forged({}, { iss => "$claims->{iss}/" }) ],
    [ 'no expiry', forged({}, { exp => undef }) ],
    [ 'issued in the future', forged({}, { iat => time + 600, exp => time + 1200 }) ],
    [ 'alg none, the old signature',
        join '.', b64url('{"alg":"none","typ":"JWT"}'), $p, $sig ],
    [ 'HS256 keyed with our public key in PEM',
        forged({ alg => 'HS256' }, {}, secret => $key->public_pem) ],
    [ 'HS256 keyed with our public key in DER', forged({ alg => 'HS256' }, {},
        secret => $key->rsa->export_key_der('public_x509')) ],
    [ 'HS256 keyed with our modulus',
        forged({ alg => 'HS256' }, {}, secret => $key->jwk->{n}) ],
    [ 'HS256 keyed with nothing', forged({ alg => 'HS256' }, {}, secret => '') ],
    [ 'another key under our kid', forged({}, {}, key => jwt_key('other')) ],
    [ 'another key that brings itself along',
        forged({ jwk => jwt_key('other')->jwk }, {}, key => jwt_key('other')) ],
    [ 'a refresh token', $several->{refreshToken} ],
    [ 'an account token that says BRANCH', forged({}, { token_type => 'account' }) ],
    [ 'over 16 KiB', 'a' x 17000 ],
);
for my $case ([ 'control', $good, 200 ], @bad,
    [ 'an account token', $several->{accountAccessToken}, 403 ],
    [ 'control: as it was', $good, 200 ])
{
    my ($name, $token, $status) = @$case;
    my $res = $s->current_context($token);
    is $res->status, $status // 401, $name;
    next if ($status // 0) == 200;
    is $res->code, $status ? 'GATEWAY_CONTEXT_FORBIDDEN' : 'GATEWAY_TOKEN_INVALID',
        "$name: code";
    like $res->header('WWW-Authenticate') // '',
        qr/^Bearer realm="platform", error="/, "$name: challenge";
}
is scalar(my @asked = $s->upstream->requests), 2, 'downstream saw the good ones alone';

is http_get($s->gateway, "$path?access_token=$good")->status, 401, 'one in the query';
is http_get($s->gateway, $path, cookie => "access_token=$good")->status, 401,
    'or in a cookie is not seen';

# What identity itself refuses comes through with its own challenge, for which
# no browser asks its user.

for my $port ($s->face, $s->gateway) {
    for my $case ([ login => json => { account => 'one@demo.test', credential => 'x' } ],
        [ refresh => body => '' ])
    {
        my ($name, @body) = @$case;
        my $res = http_post($port, "/api/auth/$name", @body);
        is_deeply [ $res->status, $res->header_all('WWW-Authenticate') ],
            [ 401, 'Login realm="platform"' ], "$name: its challenge";
    }
}

# -- context headers: the client's never arrive, the verified ones do, once

my @SPOOF = map { ($_ => 'spoofed') } qw(
    X-Account-Id X-ACCOUNT-ID x_account_id X.Account.Id X_Account-Id
    X~Account~Id X.Roles x_roles X-Session-Id X-Account-Type X-Token-Type
    X-Token-Scope X-Workspace-Id X-Tenant-Id X-Member-Id X-Active-Branch-Id
    X-Branch-Ids x.branch_ids);
my %verified = (
    'X-Token-Type' => 'workspace',
    (map { my $claim = $_; 'X-' . join('-', map {ucfirst} split /_/)
        => $claims->{$claim} } qw(account_id account_type session_id token_scope
        workspace_id tenant_id member_id active_branch_id)),
    'X-Branch-Ids' => join(',', @{ $claims->{branch_ids} }),
    'X-Roles' => join(',', @{ $claims->{roles} }),
);
for my $spoof ([], \@SPOOF) {
    my $res = $s->current_context($good, headers => [ @$spoof,
        'X-Other' => 'x', 'X-Request-Id' => 'mine-1', 'X_Request_Id' => 'other',
        'X.Correlation.Id' => 'other' ],
        connection => 'close, X-Account-Id, X-Roles');
    my $name = @$spoof ? 'spoofed headers' : 'control: none';
    is $res->status, 200, $name;
    my @seen = Platform::Test::Stack::context($res->json);
    is scalar @seen, 11, "$name: each context header once";
    is_deeply { map {@$_} @seen }, \%verified, "$name: as verified";
    unlike $res->body, qr/spoofed/, "$name: nothing of the client's";
    is_deeply { map { $_ => [ header_values($res->json, $_) ] } qw(X-Other
        X-Request-Id X-Correlation-Id Authorization) },
        { 'X-Other' => ['x'], 'X-Request-Id' => ['mine-1'],
            'X-Correlation-Id' => ['mine-1'], Authorization => [] },
        "$name: another header passes, ids once, and no token";
    is_deeply [ $res->header_all('X-Request-Id') ], ['mine-1'],
        "$name: the response has the id";
}
is http_post($_, '/api/auth/login', headers => \@SPOOF, json => {
    account => 'one@demo.test', credential => $Platform::Test::Stack::CREDENTIAL,
})->status, 200, 'a login with spoofed headers is a login' for $s->gateway, $s->face;

# -- a member with as many branches as there may be

my $login = $s->login('two-hundred')->json;
my @ids = map { $_->{branchId} } @{ $login->{branches} };
my @names = map { $_->{branchName} } @{ $login->{branches} };
is scalar @ids, 200, '200 branches';
is_deeply \@names, [ sort @names ], 'sorted by name';
my $token = $s->post('/api/auth/select-branch', { branchId => $ids[199] },
    token => $login->{accountAccessToken})->json->{accessToken};
cmp_ok length $token, '<', 16384, 'the token is under 16 KiB: ' . length $token;
my $res = $s->current_context($token,
    cookie => "platform_refresh_token=$login->{refreshToken}");
is $res->status, 200, 'the gateway lets it through, and a cookie beside it';
is_deeply [ sort map { split /,/ } header_values($res->json, 'X-Branch-Ids') ],
    [ sort @ids ], 'downstream gets every id';
is_deeply [ header_values($res->json, 'X-Active-Branch-Id') ], [ $ids[199] ],
    'and the active one';
$res = $s->refresh($login->{refreshToken})->json;
is scalar @{ (jwt_decode($res->{accessToken}))[1]{branch_ids} }, 200,
    'a refresh has all of them';
ok !eval {
    $s->postgres->sql(<<'SQL'); 1 }, 'a 201st grant is refused by the database';
insert into branches (branch_id, workspace_id, branch_name)
values ('00000000-0000-4000-8000-0005000f0001',
        '00000000-0000-4000-8000-000200000002', 'Store 201');
insert into branch_grants (member_id, branch_id, workspace_id)
select member_id, '00000000-0000-4000-8000-0005000f0001', workspace_id
  from members
 where account_id = '00000000-0000-4000-8000-000300000002';
SQL
like $@, qr/at most 200/, 'which says why';

$t->done;

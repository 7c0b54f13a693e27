# A session that is bound to a key, through both halves and the templates: the gateway
# checks the proof, identity checks it again, the service gets neither.

use Platform::Test;

my $t = Platform::Test->new;
my $origin = 'http://127.0.0.1:' . $t->port('gateway');
my $s = $t->full_stack(echo => 1, env => { PLATFORM_PUBLIC_ORIGINS => $origin });
my $port = $s->gateway;
my ($key, $thief) = map { jwt_key($_, alg => 'ES256') } qw(own thief);

# A call with a proof of that key, and a token if there is one.
sub call ($method, $path, $token, %o) {
    my $proof = delete $o{proof} // dpop_proof(delete $o{by} // $key, $method, $origin . $path, token => $token);
    return http($port, $method, $path, %o, headers => [ DPoP => $proof,
        defined $token ? (Authorization => ($o{scheme} // 'DPoP') . " $token") : () ]);
}

sub code ($res) { return join ' ', $res->status, $res->code // () }

my $res;
ok eventually(sub { $res = call(POST => '/api/auth/login', undef, json => { account => 'several@demo.test',
    credential => 'Demo-passw0rd!' }); $res->status == 200 }), 'a login with a proof';
is $res->json->{tokenType}, 'DPoP', 'its tokens are bound';
my ($account, $refresh) = @{ $res->json }{qw(accountAccessToken refreshToken)};
my $branch = { branchId => $res->json->{branches}[0]{branchId} };

my $select = '/api/auth/select-branch';
is code(call(POST => $select, $account, json => $branch, by => $thief)), '401 GATEWAY_PROOF_INVALID',
    'a branch by another key';
is code(call(POST => $select, $account, json => $branch, scheme => 'Bearer')), '401 GATEWAY_TOKEN_INVALID', 'as Bearer';
# The zone is as old as nginx: its first second may not be over.
ok eventually(sub { $res = call(POST => $select, $account, json => $branch); $res->status == 200 }),
    'a branch, with a proof';
is $res->json->{tokenType}, 'DPoP', 'its token is bound';
my $token = $res->json->{accessToken};

my $path = '/api/workspaces/w';
my $proof = dpop_proof($key, GET => $origin . $path, token => $token);
$res = call(GET => "$path?q=1", $token, proof => $proof);
is $res->status, 200, 'a service';
is_deeply [ map { scalar @{ [ header_values($res->json, $_) ] } } qw(X-Account-Id Authorization DPoP) ], [ 1, 0, 0 ],
    'it is told who, without token and proof';
is code(call(GET => $path, $token, proof => $proof)), '401 GATEWAY_PROOF_INVALID', 'not twice';
is code(call(GET => $path, $token, by => $thief)), '401 GATEWAY_PROOF_INVALID', 'by another key';
is code(http_get($port, $path, token => $token)), '401 GATEWAY_TOKEN_INVALID', 'as Bearer';
is code(call(GET => '/api/auth/me', $token)), '200 AUTH_ME_SUCCESS', 'who am I';
is code(call(POST => '/api/auth/refresh', undef, json => { refreshToken => $refresh }, by => $thief)),
    '401 AUTH_PROOF_INVALID', 'a refresh by another key';
$res = call(POST => '/api/auth/refresh', undef, json => { refreshToken => $refresh });
is $res->status, 200, 'a refresh';
is call(GET => $path, $res->json->{accessToken})->status, 200, 'the service, with its token';

$t->done;

# The gateway comes first whatever the order of load_module: a module loaded
# after it sees no header that was stripped, answers no OPTIONS and no wrong
# method, and its filter sees problems as they are sent.

use Platform::Test;

for my $order (qw(after before)) {
    my $t = Platform::Test->new(module => 0);
    my $key = jwt_key('a');
    $t->issuer(body => jwks($key));
    $t->echo_upstream;
    my $late = Platform::Test::Env::build() . '/test/ngx_http_test_late_module.so';
    -e $late or die "$late is missing: make t\n";
    my @load = ($t->expand('%%MODULE%%'), $late);
    @load = reverse @load if $order eq 'before';
    $t->set(LOAD => join "\n", map {"load_module $_;"} @load);

    $t->gateway_conf(<<'SERVER', main => '%%LOAD%%');
platform_gateway_access branch;
platform_gateway_cors_origins https://app.test;
location /answers { test_late_answers on; platform_gateway_methods GET; %%TO_upstream%% }
location /passes { set $who $platform_account_id; %%TO_upstream%% }
location /from { error_page 401 403 = /public; %%TO_upstream%% }
location /to-public { try_files /nothing /public; }
location /public { platform_gateway_access public; %%TO_upstream%% }
SERVER
    my $port = $t->start_gateway;
    my $token = jwt_token(branch => $key);
    my @spoof = (headers => [ 'X-Roles' => 'spoofed' ]);

    is http_get($port, '/answers')->status, 409,
        "loaded $order: the module answers what is its own (control)";
    is http($port, OPTIONS => '/answers')->status, 204, "loaded $order: but not OPTIONS";
    is http($port, PUT => '/answers', body => '')->status, 405, "loaded $order: nor a wrong method";

    my $res = http_get($port, '/passes', @spoof);
    is_problem($res, 401, 'GATEWAY_TOKEN_MISSING', "loaded $order");
    is $res->header('X-Late-Saw'), 'application/problem+json',
        "loaded $order: its filter sees the problem";
    is http_get($port, '/public')->header('X-Late-Saw'), 'application/json',
        "loaded $order: and other answers (control)";

    $res = http_get($port, '/passes', @spoof, token => $token);
    is $res->status, 200, "loaded $order: a token";
    $res = http_get($port, '/to-public', @spoof, token => $token);
    is $res->json->{uri}, '/public', "loaded $order: redirected";

    # The token that counts is the one that stands there at last, although
    # the one that came was looked at.

    my $other = jwt_token(branch => $key, account_id => uuid(9), sub => uuid(9));
    for my $case ([ 'another', $other, uuid(9) ],
        [ 'the same', $token, uuid(1) ]) {
        my ($name, $late_token, $account) = @$case;

        $res = http_get($port, '/passes', token => $token,
            headers => [ 'X-Late-Token' => "Bearer $late_token" ]);
        is_deeply [ header_values($res->json, 'X-Account-Id') ], [$account],
            "loaded $order: a module brings $name token";
    }
    is http_get($port, '/passes', token => $token,
        headers => [ 'X-Late-Token' => $_ ])->status, 401, "loaded $order: a module brings garbage"
        for 'Bearer garbage', '-';

    my $log = $t->nginx->error_log;
    like $log, qr{late: post_read /passes, 0 roles}, "loaded $order: told";
    unlike $log, qr{late: post_read .*, [1-9]}, "loaded $order: nothing of the client's was seen";
    like $log, qr{late: access /passes, 1 roles},
        "loaded $order: injected before its access handler";
    unlike $log, qr{late: (?:rewrite|access) /public, [1-9]},
        "loaded $order: gone before the next location's handlers";

    my @problems = $t->finish;
    ok !@problems, "loaded $order: nothing bad in a log" or diag join "\n", @problems;
}

done_testing;

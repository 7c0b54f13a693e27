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
pass /answers: platform_gateway_methods GET;
pass /passes: set $who $platform_account_id;
location /to-public { try_files /nothing /public; }
pass /public: platform_gateway_access public;
SERVER
    my $port = $t->start_gateway;
    my $token = jwt_token(branch => $key);
    my @spoof = (headers => [ 'X-Roles' => 'spoofed' ]);

    is_deeply [ map { http($port, $_ => '/answers', body => '')->status } qw(GET OPTIONS PUT) ],
        [ 409, 204, 405 ],
        "loaded $order: the module answers what is its own, not OPTIONS nor a wrong method";

    my $res = http_get($port, '/passes', @spoof);
    is_problem($res, 401, 'GATEWAY_TOKEN_MISSING', "loaded $order");
    is $res->header('X-Late-Saw'), 'application/problem+json',
        "loaded $order: its filter sees the problem";
    is http_get($port, '/public')->header('X-Late-Saw'), 'application/json',
        "loaded $order: and other answers (control)";

    is http_get($port, '/passes', @spoof, token => $token)->status, 200, "loaded $order: a token";
    is http_get($port, '/to-public', @spoof, token => $token)->json->{uri}, '/public',
        "loaded $order: redirected";

    # The token that counts is the one that stands there at last, although
    # the one that came was looked at.

    my $other = jwt_token(branch => $key, account_id => uuid(9), sub => uuid(9));
    for my $case ([ 'another', "Bearer $other", 200, uuid(9) ],
        [ 'the same', "Bearer $token", 200, uuid(1) ], [ 'a bad', 'Bearer garbage', 401 ],
        [ 'no', '-', 401 ]) {
        my ($name, $late_token, @want) = @$case;
        $res = http_get($port, '/passes', token => $token,
            headers => [ 'X-Late-Token' => $late_token ]);
        is_deeply [ $res->status, header_values($res->json, 'X-Account-Id') ], \@want,
            "loaded $order: a module brings $name token";
    }

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

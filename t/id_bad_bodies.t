# Every bad body gets its exact status as problem+json, tells nothing of what
# was sent, and the next good request on the same connection works: the
# client's, and nginx's to the service.

use Platform::Test;

my $t = Platform::Test->new;
my $identity = $t->identity_face(PLATFORM_AUTH_MAX_FAILURES => 0);
my $port = $t->port('identity');

my $account = http_post($port, '/api/auth/login', json => {
    account => 'several@demo.test', credential => 'Demo-passw0rd!' })
    ->json->{accountAccessToken};

# For each endpoint a member that it reads, and a request that works.
my %endpoint = (
    login  => { member => 'account', good => 200,
        body => '{"account":"one@demo.test","credential":"Demo-passw0rd!"}' },
    refresh => { member => 'refreshToken', good => 401,
        body => '{"refreshToken":"x"}' },
    'select-branch' => { member => 'branchId', good => 200, token => $account,
        body => '{"branchId":"00000000-0000-4000-8000-000500000031"}' },
    logout => { member => 'refreshToken', good => 200,
        body => '{"refreshToken":"x"}' },
);

# Bodies that are wrong for all; %s is the member's name.
my @bad = (
    [ 'not JSON'          => 'SECRET' ],
    [ 'cut off'           => '{"%s":"SECRET"' ],
    [ 'an array'          => '["SECRET"]' ],
    [ 'a string'          => '"SECRET"' ],
    [ 'a number'          => '7' ],
    [ 'null'              => 'null' ],
    [ 'blank'             => '   ' ],
    [ 'a duplicate'       => '{"%s":"SECRET","%s":"SECRET"}' ],
    [ 'a hidden duplicate' => '{"%s":"SECRET","x":{"a":1,"a":1}}' ],
    [ 'number'            => '{"%s":7}' ],
    [ 'boolean'           => '{"%s":true}' ],
    [ 'object'            => '{"%s":{"SECRET":1}}' ],
    [ 'array member'      => '{"%s":["SECRET"]}' ],
    [ 'bad UTF-8'         => "{\"%s\":\"SECRET\xff\"}" ],
    [ 'overlong UTF-8'    => "{\"%s\":\"SECRET\xc0\xaf\"}" ],
    [ 'a surrogate in UTF-8' => "{\"%s\":\"SECRET\xed\xa0\x80\"}" ],
    [ 'a lone surrogate'  => '{"%s":"SECRET\\ud800"}' ],
    [ 'an escaped NUL'    => '{"%s":"SECRET\\u0000"}' ],
    [ 'a raw NUL'         => "{\"%s\":\"SECRET\0\"}" ],
    [ 'a raw control'     => "{\"%s\":\"SECRET\n\"}" ],
    [ 'trailing bytes'    => '{"%s":"SECRET"}x' ],
    [ 'a second value'    => '{"%s":"SECRET"} {}' ],
    [ 'a trailing comma'  => '{"%s":"SECRET",}' ],
    [ 'a comment'         => '{"%s":"SECRET"/**/}' ],
    [ 'single quotes'     => "{'%s':'SECRET'}" ],
    [ 'a byte order mark' => "\xef\xbb\xbf{\"%s\":\"SECRET\"}" ],
    [ 'depth'             => '{"%s":"SECRET","x":' . '[' x 50 . ']' x 50 . '}' ],
    [ 'UTF-16'            => join '', map {"\0$_"} split //, '{"x":"SECRET"}' ],
);

my @types = (
    undef, '', 'text/plain', 'application/x-www-form-urlencoded',
    'application/json; charset=utf-16', 'application/jsonp',
    'application/problem+json', 'json',
);

for my $name (sort keys %endpoint) {
    my $e = $endpoint{$name};
    my @token = (token => $e->{token}) x !!$e->{token};
    my $c = Platform::Test::Http->new(port => $port);
    my $send = sub ($body, $type = undef) {
        return $c->request(POST => "/api/auth/$name", body => $body, @token,
            headers => [ defined $type ? ('Content-Type' => $type) : () ]);
    };
    # Every body where a good one costs little, some where it costs a hash.
    for my $case ($name eq 'login' ? @bad[ 0, 7, 9, 13 ] : @bad) {
        my ($what, $body) = @$case;
        $body =~ s/%s/$e->{member}/g;
        my $res = $send->($body, 'application/json');
        is_problem($res, 400, 'REQUEST_INVALID', "$name: $what");
        unlike $res->raw_head . $res->body, qr/SECRET|Set-Cookie/i,
            "$name: $what: not echoed, and no cookie is touched";
        is $send->($e->{body}, 'application/json')->status, $e->{good},
            "$name: a good request after $what";
    }
    for my $type ($name eq 'refresh' ? @types : undef) {
        is_problem($send->($e->{body}, $type), 415, 'MEDIA_TYPE_UNSUPPORTED',
            "$name: type " . ($type // 'none'));
    }

    # 16 KiB, and a byte more.
    my $largest = $e->{body} =~ s/\}\z/' ' x (16384 - length $e->{body}) . '}'/er;
    is $send->($largest, 'application/json ; charset="utf-8"')->status, $e->{good},
        "$name: 16 KiB pass";
    is_problem($send->("$largest ", 'application/json'), 413, 'REQUEST_TOO_LARGE',
        "$name: a byte more");
    is_problem($send->('x' x 200_000, 'text/plain'), 413, 'REQUEST_TOO_LARGE',
        "$name: size comes before type");
    is $send->($e->{body}, 'Application/JSON;charset=UTF-8')->status, $e->{good},
        "$name: a good one after that";
}

# All of it again, in turn with good ones, where nginx has no part in it.
my $turn = sub {
    my $got = $t->fcgi($identity->address)->request(POST => '/api/auth/refresh', body => $_[0]);
    return $got ? $got->{status} : 'closed';
};
my @bodies = ('x' x 16385, 'x' x 200_000, map { $_->[1] =~ s/%s/refreshToken/gr } @bad);
is_deeply [ map { $turn->($_), $turn->('{"refreshToken":"x"}') } @bodies ],
    [ (413, 401) x 2, (400, 401) x @bad ], 'bad and good in turn over FastCGI';

# Bounds of login's members, in bytes.

my $e_acute = "\x{e9}";
for my $case (
    [ 'an account of 320 bytes', 401, 'a' x 320, 'b' ],
    [ 'blanks around it do not count', 401, ' ' x 10 . 'a' x 320 . "\t\r\n", 'b' ],
    [ 'of 160 two-byte characters', 401, $e_acute x 160, 'b' ],
    [ 'a credential of 1024 bytes', 401, 'a', 'b' x 1024 ],
    [ 'of any bytes', 401, 'a', "\t \x{7f}" ],
    [ '321 bytes', 400, 'a' x 321, 'b' ], [ '161 characters', 400, $e_acute x 161, 'b' ],
    [ 'an empty account', 400, '', 'b' ], [ 'a blank one', 400, " \t\r\n", 'b' ],
    [ 'a tab within', 400, "a\tb", 'b' ], [ 'a DEL', 400, "a\x{7f}", 'b' ],
    [ 'a C1 control', 400, "a\x{85}b", 'b' ], [ 'an empty credential', 400, 'a', '' ],
    [ '1025 bytes', 400, 'a', 'b' x 1025 ],
) {
    my ($what, $status, $account, $credential) = @$case;
    my $res = http_post($port, '/api/auth/login',
        json => { account => $account, credential => $credential });
    is_problem($res, $status, $status == 400 ? 'REQUEST_INVALID'
        : 'AUTH_INVALID_CREDENTIALS', "login: $what");
}
is http_post($port, '/api/auth/login', json => { account => 'one@demo.test',
        credential => 'Demo-passw0rd!', more => { x => [ 1, 2 ] } })->status,
    200, 'unknown members are ignored';

# Without a body.

is_problem(http_post($port, '/api/auth/login', body => ''), 415,
    'MEDIA_TYPE_UNSUPPORTED', 'login with nothing');
is_problem(http_post($port, '/api/auth/login', body => '',
    headers => [ 'Content-Type' => 'application/json' ]), 400,
    'REQUEST_INVALID', 'login with an empty body');
is http_post($port, '/api/auth/logout', body => '')->status, 200,
    'logout needs neither body nor type';
is_problem(http_post($port, '/api/auth/refresh', body => ''), 401,
    'AUTH_REFRESH_TOKEN_MISSING', 'nor does refresh');

unlike $identity->log_text, qr/SECRET|passw0rd|eyJ/, 'no secret in the log';

$t->done;

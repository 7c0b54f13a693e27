# Every bad body gets its exact status as problem+json, tells nothing of what
# was sent, and the next good request on the same connection works: the
# client's, and nginx's to the service.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;

my $t = Platform::Test->new;
my $identity = $t->identity_face(PLATFORM_AUTH_MAX_FAILURES => 0);
my $pg = $t->postgres;
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
    my $send = sub {
        my ($body, $type) = @_;
        return $c->request(POST => "/api/auth/$name", body => $body, @token,
            headers => [ defined $type ? ('Content-Type' => $type) : () ]);
    };
    my $good = sub {
        my ($what) = @_;
        is $send->($e->{body}, 'application/json')->status, $e->{good},
            "$name: a good request after $what";
    };

    for my $case (@bad) {
        my ($what, $body) = @$case;
        $body =~ s/%s/$e->{member}/g;
        my $res = $send->($body, 'application/json');
        is_problem($res, 400, 'REQUEST_INVALID', "$name: $what");
        unlike $res->body, qr/SECRET/, "$name: $what: not echoed";
        is scalar($res->header_all('Set-Cookie')), 0,
            "$name: $what: no cookie is touched";
        $good->($what);
    }

    for my $type (@types) {
        is_problem($send->($e->{body}, $type), 415, 'MEDIA_TYPE_UNSUPPORTED',
            "$name: type " . ($type // 'none'));
    }
    for my $type ('application/json', 'Application/JSON;charset=UTF-8',
        'application/json ; charset="utf-8"')
    {
        is $send->($e->{body}, $type)->status, $e->{good},
            "$name: type $type";
    }

    # 16 KiB, and a byte more.
    my $room = 16384 - length $e->{body};
    (my $largest = $e->{body}) =~ s/\}\z/' ' x $room . '}'/e;
    is length $largest, 16384, "$name: the largest body";
    is $send->($largest, 'application/json')->status, $e->{good},
        "$name: 16 KiB pass";
    is_problem($send->("$largest ", 'application/json'), 413,
        'REQUEST_TOO_LARGE', "$name: a byte more");
    $good->('that');
    is_problem($send->('x' x 200_000, 'text/plain'), 413,
        'REQUEST_TOO_LARGE', "$name: size comes before type");
    $good->('that');

    # All of it again, in turn with good ones, where nginx has no part in it.
    my %params = (($e->{token}
            ? (HTTP_AUTHORIZATION => "Bearer $e->{token}") : ()));
    my $status = sub {
        my $got = $t->fcgi($identity->address)->request(
            POST => "/api/auth/$name", body => $_[0], params => \%params);
        return $got ? $got->{status} : 'closed';
    };
    my @got = map { $status->($_->[1] =~ s/%s/$e->{member}/gr),
        $status->($e->{body}) } @bad;
    is_deeply \@got, [ (400, $e->{good}) x @bad ],
        "$name: bad and good in turn over FastCGI";
    is_deeply [ map { $status->($_) } 'x' x 16385, $e->{body}, 'x' x 200_000,
        $e->{body} ], [ (413, $e->{good}) x 2 ],
        "$name: too large and good in turn";
}

# Bounds of login's members, in bytes.

sub login {
    my ($account, $credential) = @_;

    return http_post($port, '/api/auth/login',
        json => { account => $account, credential => $credential });
}

my $e_acute = "\x{e9}";
is login('a' x 320, 'b')->status, 401, 'an account of 320 bytes';
is login(' ' x 10 . 'a' x 320 . "\t\r\n", 'b')->status, 401,
    'blanks around it do not count';
is login($e_acute x 160, 'b')->status, 401, 'of 160 two-byte characters';
is login('a', 'b' x 1024)->status, 401, 'a credential of 1024 bytes';
is login('a', "\t \x{7f}")->status, 401, 'of any bytes';
my @refused = (
    [ '321 bytes', 'a' x 321, 'b' ], [ '161 characters', $e_acute x 161, 'b' ],
    [ 'an empty account', '', 'b' ], [ 'a blank one', " \t\r\n", 'b' ],
    [ 'a tab within', "a\tb", 'b' ], [ 'a DEL', "a\x{7f}", 'b' ],
    [ 'a C1 control', "a\x{85}b", 'b' ], [ 'an empty credential', 'a', '' ],
    [ '1025 bytes', 'a', 'b' x 1025 ],
);
for my $case (@refused) {
    my ($what, @sent) = @$case;
    is_problem(login(@sent), 400, 'REQUEST_INVALID', "login: $what");
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

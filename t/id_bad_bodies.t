# Every bad body gets its exact status as problem+json, tells nothing of what
# was sent, and the next good request on the same connection works: the client's,
# and nginx's to the service.  What all is bad: check_json, check_http, check_login.

use Platform::Test;
use Platform::Test::Client;

my $t = Platform::Test->new;
my $identity = $t->identity_face(PLATFORM_AUTH_MAX_FAILURES => 0);
my $port = client_of($t);
my $account = logged_in('several')->{accountAccessToken};

# For each endpoint a member that it reads, and a request that works.
my %endpoint = (
    login => [ 'account', 200, '{"account":"one@demo.test","credential":"Demo-passw0rd!"}' ],
    refresh => [ 'refreshToken', 401, '{"refreshToken":"x"}' ],
    'select-branch' => [ 'branchId', 200, qq({"branchId":"${\branch(31)}"}), token => $account ],
    logout => [ 'refreshToken', 200, '{"refreshToken":"x"}' ],
);

# Bodies that are wrong for all; %s is the member's name.
my @bad = (
    [ 'not JSON'       => 'SECRET' ],
    [ 'a duplicate'    => '{"%s":"SECRET","%s":"SECRET"}' ],
    [ 'a number'       => '{"%s":7}' ],
    [ 'bad UTF-8'      => "{\"%s\":\"SECRET\xff\"}" ],
    [ 'cut off'        => '{"%s":"SECRET"' ],
    [ 'a raw NUL'      => "{\"%s\":\"SECRET\0\"}" ],
    [ 'trailing bytes' => '{"%s":"SECRET"}x' ],
    [ 'depth'          => '{"%s":"SECRET","x":' . '[' x 50 . ']' x 50 . '}' ],
);
my @no_types = (undef, '', 'text/plain', 'application/json; charset=utf-16', 'application/jsonp');

for my $name (sort keys %endpoint) {
    my ($member, $status, $good, @token) = @{ $endpoint{$name} };
    my $c = Platform::Test::Http->new(port => $port);
    my $send = sub ($body, $type = 'application/json') {
        return $c->request(POST => "/api/auth/$name", body => $body, @token,
            headers => [ defined $type ? ('Content-Type' => $type) : () ]);
    };
    # Every body where a good one costs little, some where it costs a hash.
    for my $case ($name eq 'login' ? @bad[ 0 .. 3 ] : @bad) {
        my ($what, $body) = @$case;
        my $res = $send->($body =~ s/%s/$member/gr);
        is_problem($res, 400, 'REQUEST_INVALID', "$name: $what");
        unlike $res->raw_head . $res->body, qr/SECRET|Set-Cookie/i,
            "$name: $what: not echoed, and no cookie is touched";
        is $send->($good)->status, $status, "$name: a good request after $what";
    }
    is_problem($send->($good, $_), 415, 'MEDIA_TYPE_UNSUPPORTED', "$name: type " . ($_ // 'none'))
        for $name eq 'refresh' ? @no_types : undef;

    # 16 KiB, and a byte more.
    my $largest = $good =~ s/\}\z/' ' x (16384 - length $good) . '}'/er;
    is $send->($largest, 'application/json ; charset="utf-8"')->status, $status,
        "$name: 16 KiB pass";
    is_problem($send->("$largest "), 413, 'REQUEST_TOO_LARGE', "$name: a byte more");
    is_problem($send->('x' x 200_000, 'text/plain'), 413, 'REQUEST_TOO_LARGE',
        "$name: size comes before type");
    is $send->($good, 'Application/JSON;charset=UTF-8')->status, $status, "$name: a good one";
}

# Some of it again, in turn with good ones, where nginx has no part in it.
sub turn ($body) {
    my $got = $t->fcgi($identity->address)->request(POST => '/api/auth/refresh', body => $body);
    return $got ? $got->{status} : 'closed';
}
is_deeply [ map { turn($_), turn('{"refreshToken":"x"}') } 'x' x 16385, 'x' x 200_000, 'x' ],
    [ (413, 401) x 2, 400, 401 ], 'bad and good in turn over FastCGI';

# The bounds of login's members are of what they are, not of how JSON writes it.

is call(login => { account => $_->[1], credential => $_->[2] })->status, $_->[0],
    join ' ', 'login:', length $_->[1], 'and', length $_->[2], 'characters' for
    [ 401, "\x{e9}" x 160, "\x{e9}" x 512 ], [ 401, ' ' x 10 . 'a' x 320 . "\t\n", 'b' ],
    [ 400, "\x{e9}" x 161, 'b' ], [ 400, 'a', "\x{e9}" x 513 ];

# Without a body.

sub without { my ($path, @o) = @_; return http_post($port, "/api/auth/$path", body => '', @o) }
is_problem(without('login'), 415, 'MEDIA_TYPE_UNSUPPORTED', 'login with nothing');
is_problem(without(login => headers => [ 'Content-Type' => 'application/json' ]), 400,
    'REQUEST_INVALID', 'login with an empty body');
is without('logout')->status, 200, 'logout needs neither body nor type';
is_problem(without('refresh'), 401, 'AUTH_REFRESH_TOKEN_MISSING', 'nor does refresh');

unlike $identity->log_text, qr/SECRET|passw0rd|eyJ/, 'no secret in the log';

$t->done;

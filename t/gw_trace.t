# traceparent and tracestate (W3C Trace Context): a client's trace goes on as it
# is, or not at all; one is begun where the server says so; the log has its id.

use Platform::Test;

my ($t, $key) = Platform::Test->gateway;
my $LOCATIONS = <<'SERVER';
pass /: platform_gateway_access public;
pass /guarded: platform_gateway_access branch;
location /handed { platform_gateway_access branch; try_files /none /guarded; }
SERVER
my %MODE = (begin => 'platform_gateway_trace begin;', off => 'platform_gateway_trace off;',
    without => '');
$t->gateway_conf($LOCATIONS, http => join '', map {<<"HTTP"} sort keys %MODE);
server {
    listen 127.0.0.1:%%PORT_$_%%;
    platform_gateway @{[ $_ eq 'without' ? 'off' : 'on' ]};
    $MODE{$_}
    @{[ $_ eq 'without' ? "pass /:\n" : $LOCATIONS ]}
}
HTTP
$t->start_gateway;
my $token = jwt_token(branch => $key);

# What the upstream sees of both, and the id that the log has.
sub seen ($mode, $headers, $path = '/') {
    my $res = http_get($t->port($mode), $path, headers => $headers, token => $token);
    my $request = $res->json;
    return { map({ $_ => [ header_values($request, $_) ] } qw(traceparent tracestate)),
        id => $mode eq 'without' ? undef : $t->logged($res)->{traceId} };
}

my ($ID, $PARENT) = ('4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7');
my $GOOD = "00-$ID-$PARENT-01";
my @STATE = (tracestate => 'a=1', tracestate => 'b=2');
my $MADE = qr/^00-([0-9a-f]{32})-([0-9a-f]{16})-00$/;

# [name, valid, traceparent ...]; check_headers has all forms.
for my $case (
    [ 'a good one', 1, $GOOD ],
    [ 'a later version, longer', 1, "cc-$ID-$PARENT-01-what will be" ],
    [ 'version 00, longer', 0, "$GOOD-x" ],
    [ 'empty', 0, '' ],
    [ 'two of them', 0, $GOOD, $GOOD ],
    [ 'a bad one before it', 0, 'x', $GOOD ],
    [ 'none, and a state', 0 ],
) {
    my ($name, $valid, @parents) = @$case;
    my @headers = (@STATE, map { (Traceparent => $_) } @parents);
    my $as_is = { traceparent => \@parents, tracestate => [ 'a=1', 'b=2' ] };
    is_deeply seen(gateway => \@headers), { $valid
        ? (%$as_is, id => substr $parents[0], 3, 32)
        : (traceparent => [], tracestate => [], id => undef) }, "pass: $name";
    my $got = seen(begin => \@headers, '/handed');
    if ($valid) {
        is_deeply $got, { %$as_is, id => substr $parents[0], 3, 32 }, "begin: $name";
    } else {
        my ($new) = @{ $got->{traceparent} };
        is_deeply $got, { traceparent => [ $new // 'one' ], tracestate => [],
            id => ($new // '') =~ $MADE ? $1 : 'of it' }, "begin: $name: a new one";
    }
    is_deeply seen(off => \@headers), { %$as_is, id => undef }, "off: $name";
}

is_deeply seen(gateway => []), { traceparent => [], tracestate => [], id => undef },
    'pass: none comes of nothing';
my %other = map { (seen(begin => [], '/guarded')->{traceparent}[0] // '') =~ $MADE
    ? ($1 => 1, $2 => 1) : () } 1, 2;
is scalar(grep { !/^0+$/ } keys %other), 4, 'begin: a new one for each request';
is_deeply seen(without => [ @STATE, traceparent => 'x' ]), { traceparent => ['x'],
    tracestate => [ 'a=1', 'b=2' ], id => undef }, 'a server without the gateway looks at nothing';

# Other headers stay where they are, and what is removed is removed once only.
my @more = map { ("X-H$_" => $_) } 1 .. 30;
my $res = http_get($t->port('gateway'), '/guarded', token => $token, headers => [ @more,
    'X-Roles' => 'spoofed', traceparent => 'x', 'X-Request-Id' => 'mine', tracestate => 'a=1' ]);
my $request = $res->json;
is_deeply [ grep { $_ } map { header_values($request, "X-H$_") } 1 .. 30 ], [ 1 .. 30 ],
    'all others stay';
is_deeply [ map { header_values($request, $_) } qw(X-Roles X-Request-Id traceparent tracestate) ],
    [ join(',', @{ (jwt_decode($token))[1]{roles} }), 'mine' ], 'ids and claims as ever';

my ($ok, $why) = $t->location_test(server => 'platform_gateway_trace on;');
like $why, qr/invalid value "on"/, 'nginx -t: another mode is refused';
($ok, $why) = $t->location_test(server => 'platform_gateway_trace begin;');
ok $ok, 'nginx -t: one of the three is not' or diag $why;

$t->done;

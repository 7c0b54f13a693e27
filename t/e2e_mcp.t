# examples/mcp: an MCP server behind the gateway, and an authorization server.  Clients of
# the SDK, of the newest revision and of an older one, find their way in; and whatever
# else asks is refused.

use JSON::PP ();

use Platform::Test;
use Platform::Test::Clock;
use Platform::Test::Page qw(prints steps);

my $node = Platform::Test::Env::node();
my ($version) = qx{$node --version} =~ /^v(\d+)/;
plan(skip_all => 'the SDK needs node 20 or later') if $version < 20;

# -- the example, on ports of ours

my $t = Platform::Test->new;
my ($root, $dir) = ($t->root, $t->dir);
my %port = (8090 => $t->port('gateway'), 9000 => $t->port('mcp'), 9100 => $t->port('issuer'),
    9101 => $t->port('client'));
my ($url, $issuer) = map {"http://127.0.0.1:$_"} @port{ 8090, 9100 };

sub ours ($file) { return $t->read_file("$root/examples/mcp/$file") =~ s/\b(8090|9[01]0[01])\b/$port{$1}/gr }

symlink "$root/t/node/node_modules", "$dir/node_modules" or die "node_modules: $!\n";
for my $name (qw(issuer server)) {
    # With a scope more, which nothing here needs.
    my $file = $t->write_file("$name.mjs", ours("$name.mjs")
        =~ s/'notes:write'\K(?=\])/, 'notes:share'/r =~ s/notes:read notes:write\K/ notes:share/gr);
    $t->process($name, ok_status => ['any'],
        cmd => [ $node, '--import', "$root/t/node/preload.mjs", $file ]);
}
for my $name (qw(issuer server)) {
    ok eventually(sub { ($t->read_file("$name.log") // '') =~ /^ready$/m }), "$name.mjs listens"
        or diag $t->read_file("$name.log");
}
my $conf = ours('nginx.conf');
$conf =~ s/^(?=events)/%%GLOBALS%%\n/m or die 'no events';
$conf =~ s{include \.\./local\.conf;}{%%GLOBALS_HTTP%%} or die 'no include';
$conf =~ s/log_format platform .*?access_log \S+ platform;/%%PLATFORM_LOG%%/s or die 'no log';
system("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    . " -keyout $dir/key.pem -out $dir/ca.pem 2>/dev/null") == 0 or die "openssl req failed\n";
$conf =~ s{/etc/ssl/certs/ca-certificates\.crt}{$dir/ca.pem} or die 'no certificates';
my $nginx = $t->nginx_conf($conf);
unlike +($nginx->test)[1], qr/\[warn\]/, 'nginx -t has no warning';
my $clock = Platform::Test::Clock->new($t, $nginx);
$t->start_nginx;

# -- clients of the SDK, of the newest revision and of an older one

# What one of them tells, [what, outcome, requests], until its stream has begun.
sub client ($package, @more) {
    my ($name) = join('-', $package, @more) =~ /([\w-]+)$/;
    my $log = "$name-client.log";
    my $process = $t->process("$name-client", ok_status => ['any'],
        cmd => [ $node, "$root/t/node/mcp.mjs", $package, "$url/mcp", $issuer, @more ])->expect_end;
    my $told = sub { map { JSON::PP::decode_json($_) } ($t->read_file($log) // '') =~ /^\[.*$/mg };
    eventually(sub { !$process->alive || grep { $_->[0] eq 'watch' } $told->() });
    return ($process, $told);
}

# The outcome of each step; of a token, its audience and scope.
my @tokens;
sub outcomes ($told) {
    return map {
        my ($what, $outcome) = @$_;
        push @tokens, $outcome if $what =~ /^(?:token|other|write)$/;
        [ $what, $what =~ /^(?:token|other|write)$/
            ? [ @{ (jwt_decode($outcome))[1] }{qw(aud scope)} ] : $outcome ]
    } @$told;
}

my @FOUND = ('GET /.well-known/oauth-protected-resource/mcp: 200',
    'GET issuer /.well-known/oauth-authorization-server: 200', 'POST issuer /reg: 201',
    'POST issuer /token: 200');
my @TOOLS = ([ tools => [qw(list_notes add_note watch_notes)] ]);
my ($process, $told) = client('@modelcontextprotocol/client');
my @new = $told->();
is_deeply [ outcomes(\@new) ], [
    [ authorize => [ 'notes:read', "$url/mcp", 'S256' ] ], [ connect => 'notes' ],
    @TOOLS, [ list => '' ], [ token => [ "$url/mcp", 'notes:read' ] ],
    [ other => [ "$url/other", 'notes:read' ] ], [ write => [ "$url/mcp", 'notes:write notes:share' ] ],
    [ add => [ 'notes:read notes:write', "$url/mcp", 'S256' ] ], [ connect => 'notes' ],
    [ add => 'added' ], [ list => 'milk' ], [ token => [ "$url/mcp", 'notes:read notes:write' ] ],
    [ watch => [qw(watching bread)] ] ], 'the SDK finds its way, and asks for more when it needs more'
    or diag $t->read_file('client-client.log');
is_deeply $new[0][2], [ 'POST /mcp server/discover: 401', @FOUND ], 'how it found its way';
is_deeply $new[7][2], [ 'POST /mcp tools/call: 403', 'POST issuer /token: 200' ], 'how it got more';
my ($read, $other, $implies, $write) = @tokens;

my ($older, $told_older) = client('@modelcontextprotocol/sdk');
my @old = $told_older->();
is_deeply [ outcomes(\@old) ], [
    [ authorize => [ 'notes:write', "$url/mcp", 'S256' ] ], [ connect => 'notes' ], @TOOLS,
    [ list => "milk\nbread" ], [ token => [ "$url/mcp", 'notes:write' ] ], [ add => 'added' ],
    [ list => "milk\nbread\nmilk" ], [ token => [ "$url/mcp", 'notes:write' ] ],
    [ watch => [qw(watching bread)] ] ], 'an older one, too: what it calls is not known'
    or diag $t->read_file('sdk-client.log');
is_deeply $old[0][2], [ 'POST /mcp: 401', @FOUND ], 'how it found its way, too';

# -- requests one by one

my $gateway = $port{8090};
my %META = ('io.modelcontextprotocol/protocolVersion' => '2026-07-28',
    'io.modelcontextprotocol/clientInfo' => { name => 'a', version => '1' },
    'io.modelcontextprotocol/clientCapabilities' => {});
sub message ($method, %params) {
    return { jsonrpc => '2.0', id => 1, method => $method, params => \%params };
}
sub calls ($name, %more) {
    return message('tools/call', name => $name, arguments => { text => 'stolen' }, %more);
}
sub says ($method, $name = undef, $version = '2026-07-28') {
    return ('MCP-Protocol-Version' => $version, 'Mcp-Method' => $method,
        $name ? ('Mcp-Name' => $name) : ());
}
sub post ($token, $body, @headers) {
    my @host = @headers && $headers[-2] eq 'host' ? splice @headers, -2 : ();
    return http_post($gateway, '/mcp', @host, token => $token, body => JSON::PP::encode_json($body),
        headers => [ 'Content-Type' => 'application/json',
            Accept => 'application/json, text/event-stream', @headers ]);
}
sub notes () { return post($read, calls('list_notes', _meta => \%META), says('tools/call', 'list_notes'))->body }

# Who answered, and how: the gateway by a code, the server by an error.
sub answer ($res) {
    my $json = ($res->header('Content-Type') // '') =~ /json/ ? $res->json : {};
    my ($scope) = ($res->header('WWW-Authenticate') // '') =~ /, scope="([^"]*)"/;
    return [ $res->status, $json->{code} // $json->{error}{code} // (), $scope // () ];
}
my ($LIST, $ADD) = map { calls($_, _meta => \%META) } qw(list_notes add_note);
my @ADDS = says('tools/call', 'add_note');
my @LISTS = says('tools/call', 'list_notes');
my @MISSING = (403, 'GATEWAY_CLAIM_REQUIRED');
my @TWICE = (400, 'GATEWAY_BAD_REQUEST');
my @FOREIGN = (403, 'GATEWAY_ORIGIN_NOT_ALLOWED');
my $before = notes();

# [name, token, message, headers; status, code, scope]
for my $case (
    [ 'a tool that reads', $read, $LIST, \@LISTS, 200 ],
    [ 'the list of tools', $read, message('tools/list', _meta => \%META), [ says('tools/list') ], 200 ],
    [ 'no token', undef, $LIST, \@LISTS, 401, 'GATEWAY_TOKEN_MISSING', 'notes:read' ],
    [ 'no token, a tool that writes', undef, $ADD, \@ADDS, 401, 'GATEWAY_TOKEN_MISSING', 'notes:write' ],
    [ 'a token that was changed', jwt_tamper($read, 1, 100), $LIST, \@LISTS, 401,
        'GATEWAY_TOKEN_INVALID', 'notes:read' ],
    [ 'a token for another server', $other, $LIST, \@LISTS, 401, 'GATEWAY_TOKEN_INVALID', 'notes:read' ],
    [ 'a scope that is missing', $read, $ADD, \@ADDS, @MISSING, 'notes:write' ],
    [ 'a tool that is not listed', $read, calls('erase', _meta => \%META), [ says('tools/call', 'erase') ],
        @MISSING, 'notes:write' ],
    [ 'a method that is not listed', $read, message('resources/list', _meta => \%META),
        [ says('resources/list') ], @MISSING, 'notes:write' ],
    [ 'a name in base64', $read, $LIST, [ says('tools/call', '=?base64?bGlzdF9ub3Rlcw==?=') ],
        @MISSING, 'notes:write' ],
    [ 'a name in base64, with the scope', $write, $LIST,
        [ says('tools/call', '=?base64?bGlzdF9ub3Rlcw==?=') ], 200 ],
    [ 'write implies read', $implies, $LIST, \@LISTS, 200 ],

    # The headers say what is cheap.
    [ 'another tool in the message', $read, $ADD, \@LISTS, 400, -32020 ],
    [ 'another method in the message', $read, $ADD, [ says('tools/list') ], 400, -32020 ],
    [ 'a name in other letters', $read, $LIST, [ says('tools/call', 'LIST_NOTES') ], 400, -32020 ],
    [ 'no version in the headers', $read, calls('add_note'), [ @LISTS[ 2 .. 5 ] ], @MISSING, 'notes:write' ],
    [ 'an older version', $read, calls('add_note'), [ says('tools/call', 'list_notes', '2025-11-25') ],
        @MISSING, 'notes:write' ],
    [ 'a version that is not there yet', $read, $LIST, [ says('tools/call', 'list_notes', '2099-01-01') ],
        @MISSING, 'notes:write' ],
    [ 'no version in the message', $read, calls('add_note'), \@LISTS, 400, -32602 ],
    [ 'an older version in the message', $read, calls('add_note', _meta => { %META,
        'io.modelcontextprotocol/protocolVersion' => '2025-11-25' }), \@LISTS, 400, -32020 ],
    [ 'several messages', $read, [ calls('add_note'), calls('add_note') ], \@LISTS, 400, -32000 ],
    [ 'a message without an id', $read, { %$ADD{qw(jsonrpc method params)} }, [ says('tools/list') ],
        400, -32020 ],
    [ 'the name twice', $read, $ADD, [ @LISTS, 'Mcp-Name' => 'add_note' ], @TWICE ],
    [ 'the same name twice', $write, $LIST, [ @LISTS, 'Mcp-Name' => 'list_notes' ], @TWICE ],
    [ 'the method twice', $write, $LIST, [ @LISTS, 'Mcp-Method' => 'tools/call' ], @TWICE ],
    [ 'the version twice', $write, $LIST, [ @LISTS, 'MCP-Protocol-Version' => '2026-07-28' ], @TWICE ],
    [ 'a byte over 0x7f', $write, $LIST, [ says('tools/call', "list_notes\xc3\xa9") ], @TWICE ],
    [ 'a header of a parameter', $read, $LIST, [ @LISTS, 'Mcp-Param-Region' => 'north' ], 200 ],
    [ 'somebody else in a header', $read, $LIST, [ @LISTS, 'X-User-Id' => 'bob' ], 200 ],

    # Pages.
    [ 'a page that may', $read, $LIST, [ @LISTS, Origin => 'https://app.example.com' ], 200 ],
    [ 'a foreign page', $write, $LIST, [ @LISTS, Origin => 'https://evil.example' ], @FOREIGN ],
    [ 'a foreign page without a token', undef, $LIST, [ @LISTS, Origin => 'https://evil.example' ], @FOREIGN ],
    [ 'a page without an origin', $write, $LIST, [ @LISTS, Origin => 'null' ], @FOREIGN ],
    [ 'a name that leads here', $write, $LIST, [ @LISTS, Origin => "http://evil.example:$gateway",
        host => "evil.example:$gateway" ], @FOREIGN ],
    [ 'two origins', $write, $LIST, [ @LISTS, map { (Origin => $_) } 'https://app.example.com',
        'https://evil.example' ], @FOREIGN ],
) {
    my ($name, $token, $message, $headers, @want) = @$case;
    my $res = post($token, $message, @$headers);
    is_deeply(answer($res), \@want, $name) || diag $res->raw_head, $res->body;
    is $res->header('Access-Control-Allow-Origin'), $want[0] == 200 ? 'https://app.example.com' : undef,
        "$name: what it may read" if grep { $_ eq 'Origin' } @$headers;
    is $res->json->{result}{content}[0]{text}, "milk\nbread\nmilk\nbread", "$name: whose notes"
        if $name eq 'somebody else in a header';
}
is notes(), $before, 'none of them wrote';
my @seen = map { JSON::PP::decode_json($_) } $t->read_file('server.log') =~ /^seen (.*)$/mg;
is_deeply [ scalar(grep { $_->{'mcp-param-region'} } @seen), scalar(grep { $_->{authorization} } @seen) ],
    [ 1, 0 ], 'no token goes on';

is_deeply http_get($gateway, '/.well-known/oauth-protected-resource/mcp')->json, {
    resource => "$url/mcp", authorization_servers => [$issuer], bearer_methods_supported => ['header'],
    scopes_supported => [ 'notes:read', 'notes:write' ] }, 'the document';
my $BEARER = 'Bearer realm="platform", resource_metadata='
    . qq("$url/.well-known/oauth-protected-resource/mcp");
is post(undef, $LIST, @LISTS)->header('WWW-Authenticate'), "$BEARER, scope=\"notes:read\"", 'the challenge';
is post($read, $ADD, @ADDS)->header('WWW-Authenticate'),
    "$BEARER, error=\"insufficient_scope\", scope=\"notes:write\"", 'the challenge for more';
is_deeply [ map { my $res = http($gateway, $_, '/mcp', token => $write); ($res->status, $res->header('Allow')) }
    qw(GET DELETE) ], [ (405, 'POST, OPTIONS') x 2 ], 'other methods';
is http_post($gateway, "/mcp?access_token=$write", body => '{}')->status, 401, 'a token in the query';
for my $case ([ 'https://app.example.com', 204 ], [ 'https://evil.example', 403 ]) {
    is http($gateway, OPTIONS => '/mcp', headers => [ Origin => $case->[0],
        'Access-Control-Request-Method' => 'POST', 'Access-Control-Request-Headers' =>
        'authorization, content-type, mcp-protocol-version, mcp-method, mcp-name' ])->status,
        $case->[1], "a preflight of $case->[0]: $case->[1]";
}
is_deeply [ @{ $t->logged(post($read, $ADD, @ADDS)) }{qw(accountId reason)} ],
    [ 'agents/ann', 'claim_required' ], 'the log';

# -- docs/mcp.md: its parts are those of the example, and its commands print what it prints

my $page = "$root/docs/mcp.md";
my $text = $t->read_file($page);
sub plain ($part) { return $part =~ s/^\s+//gmr =~ s/^#.*\n//gmr }
my ($steps, $older_servers) = map { ($text =~ /^## $_\n(.*?)^## /ms)[0] } 'Five steps', 'Older servers';
my @parts = map { plain($_) } $steps =~ /^ *```nginx\n(.*?)^ *```$/gms;
my $example = plain($t->read_file("$root/examples/mcp/nginx.conf"));
is_deeply [ grep { index($example, $_) < 0 } @parts ], [], 'the page has the example';
my %on_page = map { $_ => 1 } map { split /\n/ } @parts;
is_deeply [ map { s/ .*//r } grep { !$on_page{$_} } split /\n/, $example ], [ qw(events http include
    log_format access_log server listen location platform_gateway_route_not_found;) ], '... the whole of it';
my $shell = sub ($script) {
    my $file = $t->write_file('page.sh', $script =~ s/\b(8090|9[01]00)\b/$port{$1}/gr);
    my %at = reverse %port;
    my ($any) = map {qr/$_/} join '|', keys %at;
    return qx{sh $file} =~ s/\b($any)\b/$at{$1}/gr;
};
my ($start, $asks, $agent) = steps($page, 'Try it');
prints('the page', sub ($script) { $shell->($script) }, $asks, steps($page, 'Headers and message'));
like $start->[0], qr/node issuer\.mjs & node server\.mjs &/, 'which tells how to start it';

# The client of the example, whose user opens each page that it prints.
sub allow ($at, $to = $at) {
    my $html;
    for (my @form; $to; $to = $html =~ /action="([^"]+)"/ ? $1 : undef) {
        $html = qx{curl -sL -b $dir/jar -c $dir/jar @form '$to'};
        my %hidden = $html =~ /name="(\w+)" value="(\w+)"/g;
        @form = ('-d', join '\&', 'login=ben', 'password=any', map {"$_=$hidden{$_}"} keys %hidden);
    }
    return $html;
}
my $program = $t->process('client', cmd => [ $node,
    $t->write_file('client.mjs', ours('client.mjs')) ])->expect_end;
my @pages;
for my $n (0, 1) {
    ok eventually(sub { (@pages = ($t->read_file('client.log') // '') =~ /^Open (.*)$/mg) > $n }),
        'the client has a page for its user';
    is allow($pages[$n]), "Go back to the terminal.\n", 'its user allows it';
}
$program->wait_end(30);
my $said = $t->read_file('client.log') =~ s/\?.*?(&scope=[^&]*&).*/?...$1.../gr;
is $said =~ s/\Q$issuer/http:\/\/127.0.0.1:9100/gr, $agent->[1], 'the client prints what the page says';

# For an older server every request needs the strongest scope, and all its methods pass.
my ($lines) = $older_servers =~ /^```nginx\n(.*?)^```$/ms;
my $instead = join '|', qw(methods single_header require cors_headers);
my $newer = $conf;
my $replaced = $conf =~ s/^ *platform_gateway_(?:$instead)\s[^;]*;\n//gm;
$conf =~ s/^ *location = \/mcp \{\n\K/$lines/m or die 'no location';
$t->nginx_conf($conf);
is $replaced, 4, 'the page, for an older server';
ok $nginx->reload, 'it reads that';
my @GATEWAY = (403, 'GATEWAY_CLAIM_REQUIRED', 'notes:write');
for my $case (
    [ 'a tool that reads, without the scope', $read, $LIST, \@LISTS, @GATEWAY ],
    [ 'a tool that reads, with it', $write, $LIST, \@LISTS, 200 ],
    [ 'no headers, without it', $read, calls('add_note'), [], @GATEWAY ],
    [ 'no headers, with it', $write, calls('list_notes'), [], 200 ],
) {
    my ($name, $token, $message, $headers, @want) = @$case;
    is_deeply answer(post($token, $message, @$headers)), \@want, "an older server, $name";
}
is_deeply [ map { my $how = $_; map { answer(http($gateway, $how, '/mcp', token => $_)) } $read, $write }
    qw(GET DELETE) ], [ (\@GATEWAY, [ 405, -32000 ]) x 2 ], 'an older server, other methods';

# Tokens that are bound to a key.
my ($http, $location) = $text =~ /^## Stolen tokens\n.*?^```nginx\n(.*?)^```\n.*?^```nginx\n(.*?)^```\n/ms;
$conf = $newer =~ s/^ *(?=platform_gateway_trust)/$http/mr =~ s/^ *location = \/mcp \{\n\K/$location/mr;
$t->nginx_conf($conf =~ s/8090/$gateway/gr);
ok $nginx->reload, 'it reads the page, for bound tokens';
my (undef, $told_bound) = client('@modelcontextprotocol/client', 'dpop');
my @bound = $told_bound->();
is_deeply [ outcomes(\@bound) ], [ [ authorize => [ 'notes:read', "$url/mcp", 'S256' ] ], [ connect => 'notes' ],
    @TOOLS, [ list => "milk\nbread\nmilk\nbread" ], [ token => [ "$url/mcp", 'notes:read' ] ] ],
    'the SDK proves that it has the key' or diag $t->read_file('client-dpop-client.log');
is_deeply [ map { answer(post($_, $LIST, @LISTS)) } $bound[4][1], $read ],
    [ ([ 401, 'GATEWAY_TOKEN_INVALID', 'notes:read' ]) x 2 ], 'nobody else, and no other token';
$t->nginx_conf($newer);
ok $nginx->reload, 'and the first again; the streams are of a worker that waits for them';

# -- the end of the token ends both streams: ten minutes, and the leeway

ok $process->alive && $older->alive, 'both watch still';
$clock->pass(640);
is_deeply answer(post($read, $LIST, @LISTS)), [ 401, 'GATEWAY_TOKEN_EXPIRED', 'notes:read' ],
    'the end of the token';
ok $_->wait_end(30), 'and its stream' for $process, $older;
is_deeply [ map { [ @$_[ 0, 1 ] ] } ($told->())[-1], ($told_older->())[-1] ],
    [ ([ 'end', 'SSE stream disconnected' ]) x 2 ], 'which they notice';
is_deeply [ grep {/^closed/} map { $_->{reason} // '' } $nginx->access_lines ],
    [ ('closed_expired') x 2 ], 'so says the log';

# The table of requirements names checks that were made.
my %made = map { $_->{name} => 1 } Test::More->builder->details;
my @named = map { /_([^_]+)_/g } map { (split /\|/)[-1] } $text =~ /^(\| [^|]+ \| (?:MUST|SHOULD).*)\|$/mg;
is_deeply [ grep { !$made{$_} } @named ], [], 'each requirement has its check';
cmp_ok scalar @named, '>', 40, '... many';

$t->done;

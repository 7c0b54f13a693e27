# What nginx -t refuses, with what is wrong and where; beside each the
# configuration that is right.

use Platform::Test;

my $t = Platform::Test->new;

# Where keys come from.
my $KEYS = <<'CONF';
location = /keys {
    internal;
    platform_gateway off;
    subrequest_output_buffer_size 64k;
    proxy_cache off;
    proxy_pass http://127.0.0.1:1;
}
CONF
my $SOURCE = "platform_gateway_key_location /keys;\n";

# nginx -t with these lines in http{}, server{} and a location of their own (what
# accepted() and refused() take first, if they take it).
sub check (%in) {
    my $issuer = $in{no_issuer} ? '' : 'platform_gateway_issuer http://i;';
    my $zone = $in{zone} // 'gateway:1m';
    my ($http, $server) = map { $_ // '' } @in{qw(http server)};
    my $keys = $in{keys} // $SOURCE . $KEYS;
    return $t->location_test(location => $in{location},
        http   => "platform_gateway_zone $zone; $issuer\n$http",
        server => "$keys\n$server");
}

my $ON = "platform_gateway on;\n";
my $PASS = "proxy_pass http://127.0.0.1:1;\n";
my $BRANCH = "platform_gateway_access branch;\n";
my $PUBLIC = "platform_gateway_access public;\n";
my ($OPEN, $GUARDED) = ($ON . $PUBLIC, $ON . $BRANCH);
my $SERVED = $GUARDED . $PASS;

# Those that need no more than a location are tried together, at the end.
my @good;

sub accepted ($name, @in) {
    my %in = @in % 2 ? (location => @in) : @in;
    return push @good, $in{location} if join(' ', keys %in) eq 'location';
    my ($ok, $said) = check(%in);
    ok $ok, "accepted: $name" or diag $said;
}

sub refused ($name, $pattern, @in) {
    my ($ok, $said) = check(@in % 2 ? (location => @in) : @in);
    ok !$ok, "refused: $name";
    like $said, $pattern, "$name: says why";
    like $said, qr/check\.conf:\d+/, "$name: and where";
    unlike $said, qr/\[(?:alert|crit)\]/, "$name: calmly";
}

# Deny by default.

refused('a content handler and no level',
    qr{location "/here" has a content handler and no "platform_gateway_access"},
    $ON . $PASS);
accepted('with a level', $OPEN . $PASS);
accepted('with an inherited level', server => $OPEN, location => $PASS);
accepted('a level of http{}', http => $OPEN, location => $PASS);
accepted('no content handler: refused at run time', $ON);
accepted('the gateway off', $PASS);
refused('a handler of our own', qr/no "platform_gateway_access"/, $ON . 'platform_gateway_health;');
refused('a handler in a nested location', qr{location "/here/in"},
    $ON . "location /here/in { $PASS }");
refused('a handler inside if', qr/no "platform_gateway_access"/, $ON . "if (\$arg_x) { $PASS }");

# Levels.

refused('an unknown level', qr/invalid value "admin"/, "$ON platform_gateway_access admin;");
refused('an unknown level: what is known is listed',
    qr/"platform_gateway_access" directive accepts public, account, branch /,
    "$ON platform_gateway_access branch admin;");
accepted("level $_", "$ON platform_gateway_access $_;")
    for qw(public account branch platform system);
refused('public and guarded', qr/must stand alone/, "$ON platform_gateway_access public branch;");
accepted('several guarded levels', "$ON platform_gateway_access account branch system; $PASS");
refused('a level inside if', qr/cannot stand inside "if": say it in the/,
    "$ON if (\$arg_x) { $PUBLIC }");
refused('a level inside if of a server', qr/cannot stand inside "if"/,
    server => "$ON if (\$arg_x) { $PUBLIC }");
refused('switching off inside if', qr/cannot stand inside "if"/,
    "$OPEN if (\$arg_x) { platform_gateway off; }");
refused('a level inside limit_except',
    qr/cannot stand inside "limit_except".*platform_gateway_methods/,
    "$OPEN limit_except GET { $PUBLIC }");

# Guarded, and nothing to guard with.

refused('no issuer', qr/has no issuer: add "platform_gateway_issuer"/, $SERVED, no_issuer => 1);
accepted('no issuer and nothing guarded', no_issuer => 1, keys => '', location => $OPEN . $PASS);
refused('no source of keys',
    qr/needs keys.*add "platform_gateway_key_location" to a server/,
    keys => '', location => $SERVED);
refused('no source of keys, and an internal location', qr/needs keys/,
    keys => '', location => 'internal;' . $GUARDED . $PASS);
accepted('a source of keys', location => $SERVED);

# The key set: [name, what is said or undef, keys, http{} and zone].

my $file = $t->write_file('keys.json', jwks(jwt_key('a')));
my $bad = $t->write_file('bad.json', '{"keys":[{"kty":"EC"}]}');
my $dir = $t->dir;
my $SMALL_BUFFER = qr/cannot hold a key set: add "subrequest_output_buffer_size 64k;"/;
my $AGES = 'platform_gateway_key_';
for my $case (
    [ 'the usual', undef, $SOURCE . $KEYS ],
    [ 'two key locations', qr/already given by "platform_gateway_key_location" in \S+:\d+/,
        $SOURCE x 2 . $KEYS ],
    [ 'a relative one', qr/must begin with "\/"/, $SOURCE =~ s{/}{}r . $KEYS ],
    [ 'one that does not exist', qr/names no location .* in \S+:\d+/, $SOURCE ],
    [ 'one that another location would serve',
        qr/location "\/" .* or a "location = \/keys"/, "$SOURCE location / { empty_gif; }" ],
    [ 'one that clients reach', qr/must be internal: add "internal;"/,
        $SOURCE . $KEYS =~ s/internal;//r ],
    [ 'a small output buffer', $SMALL_BUFFER, $SOURCE . $KEYS =~ s/64k/63k/r ],
    [ 'the default one', $SMALL_BUFFER, $SOURCE . $KEYS =~ s/subrequest_\w+ 64k;//r ],
    [ 'a larger one', undef, $SOURCE . $KEYS =~ s/64k/256k/r ],
    [ 'one set for the server', undef,
        "subrequest_output_buffer_size 64k; $SOURCE" . $KEYS =~ s/subrequest_\w+ 64k;//r ],
    [ 'a prefix location', undef, $SOURCE . $KEYS =~ s{= /keys}{/k}r ],
    [ 'a nested one', undef, "$SOURCE location /k { platform_gateway off; "
        . "location /keys_other { empty_gif; } $KEYS }" ],
    [ 'among many others', undef, join ' ', $SOURCE . $KEYS, map {"location = $_ { empty_gif; }"}
        map { ("/$_", "/keys$_", "/k$_") } 'a' .. 'm' ],

    # A cache would answer with old keys.
    [ 'a cache that is inherited',
        qr/location "\/keys" .* cache: add "proxy_cache off;" to it, in \S+:\d+/,
        "$SOURCE proxy_cache one;" . $KEYS =~ s/proxy_cache off;//r ],
    [ 'a cache of an address made of variables', qr/add "proxy_cache off;"/,
        "$SOURCE set \$at 127.0.0.1:1; proxy_cache one;"
            . $KEYS =~ s/proxy_cache off;//r =~ s/127.0.0.1:1;/\$at;/r ],
    [ 'none there', undef, "$SOURCE proxy_cache one; $KEYS" ],
    [ 'a cache around a file', undef, "$SOURCE proxy_cache one;"
        . $KEYS =~ s/proxy_cache off;//r =~ s/proxy_pass .*/root html;/r ],

    [ 'a zone without a size', qr/it is NAME:SIZE/, undef, '', 'keys' ],
    [ 'a zone without a name', qr/it is NAME:SIZE/, undef, '', ':1m' ],
    [ 'a zone of nonsense', qr/zone size "x" is invalid/, undef, '', 'keys:x' ],
    [ 'a small zone', qr/zone size "128k" is invalid or below 256k/, undef, '', 'keys:128k' ],
    [ 'the smallest zone', undef, undef, '', 'keys:256k' ],
    [ 'two zones', qr/is duplicate/, undef, 'platform_gateway_zone b:1m;' ],

    [ 'no cooldown', qr/must be at least 1s/, undef, "${AGES}cooldown 0;" ],
    [ 'a cooldown below a second', qr/must be at least 1s/, undef, "${AGES}cooldown 999ms;" ],
    [ 'a soft age below the cooldown', qr/soft_age" \(5s\) must not be below .* \(6s\)/,
        undef, "${AGES}soft_age 5s; ${AGES}cooldown 6s;" ],
    [ 'no soft age', qr/soft_age" \(0s\) must not be below .* \(1s\)/, undef,
        "${AGES}soft_age 0;" ],
    [ 'a short soft age alone', undef, undef, "${AGES}soft_age 5s;" ],
    [ 'a cooldown above the default soft age', qr/soft_age" \(300s\) must not be below/,
        undef, "${AGES}cooldown 301s;" ],
    [ 'a hard age below the soft age', qr/hard_age" \(60s\) must not be below/, undef,
        "${AGES}hard_age 1m;" ],
    [ 'a hard age equal to it', undef, undef, "${AGES}hard_age 5m;" ],

    [ 'a key file', undef, '', "${AGES}file $file;" ],
    [ 'one that is not there', qr/no\.json" gives no keys: No such file.*set there/, '',
        "${AGES}file no.json;" ],
    [ 'a directory', qr/gives no keys: it is not a regular file/, '', "${AGES}file $dir;" ],
    [ 'one without a usable key', qr/gives no keys: .*usable key/, '', "${AGES}file $bad;" ],
    [ 'a file and a location', qr/already given by "platform_gateway_key_file" in \S+: leave one/,
        undef, "${AGES}file $file;" ],
    [ 'two files', qr/already given by "platform_gateway_key_file"/, '', "${AGES}file $file;" x 2 ],
    [ 'no name', qr/needs the name of a file/, '', "${AGES}file \"\";" ],
    [ 'a cache file', undef, undef, "${AGES}cache_file $dir/kept;" ],
    [ 'two', qr/is duplicate/, undef, "${AGES}cache_file $dir/kept;" x 2 ],
    [ 'a directory for it', qr/needs the name of a file/, undef, "${AGES}cache_file /tmp/;" ],
    [ 'one beside a key file', qr/leave it out, it has no use beside .* in \S+:\d+/, '',
        "${AGES}cache_file $dir/kept; ${AGES}file $file;" ],
) {
    my ($name, $said, $keys, $http, $zone) = @$case;

    my @in = (keys => $keys, zone => $zone, location => "$GUARDED proxy_cache off; empty_gif;",
        http => "proxy_cache_path $dir/cache keys_zone=one:1m;" . ($http // ''));
    $said ? refused($name, $said, @in) : accepted($name, @in);
}

# A token has to fit into a header line, and that into one buffer.

my $SMALL = qr{"/here" accepts tokens of 16384 bytes .*_buffers 2 24k" in};
refused("large_client_header_buffers $_", $SMALL,
    http => "large_client_header_buffers $_;",
    location => $SERVED)
    for '4 8k', '4 16k', '4 16407';
accepted("large_client_header_buffers $_",
    http => "large_client_header_buffers $_;",
    location => $SERVED)
    for '4 16408', '1 24k';
refused('smaller ones of a server', $SMALL,
    http => 'large_client_header_buffers 4 32k;',
    server => 'large_client_header_buffers 4 8k;' . $ON,
    location => $BRANCH . $PASS);
accepted('smaller ones for smaller tokens',
    http => 'large_client_header_buffers 4 8k;',
    location => "$GUARDED $PASS platform_gateway_token_max_size 8000;");
refused('larger tokens', qr/tokens of 40960 bytes .*_buffers 2 60k"/,
    "$GUARDED $PASS platform_gateway_token_max_size 40k;");
# FastCGI and uwsgi carry all headers in one record.

for my $proto (qw(fastcgi uwsgi)) {
    my $pass = "${proto}_pass 127.0.0.1:1;";
    refused("$proto: $_",
        qr/"\/here" uses "${proto}_pass".* say "large_cl\w+ 2 24k" in its/,
        http => "$_;", location => $OPEN . $pass)
        for 'large_client_header_buffers 4 32k',
        'large_client_header_buffers 2 28k',
        'large_client_header_buffers 2 24k; client_header_buffer_size 9k';
    accepted("$proto: $_", http => "$_;", location => $GUARDED . $pass)
        for 'large_client_header_buffers 2 24k',
        'large_client_header_buffers 2 24k; client_header_buffer_size 8k';
    refused("$proto: larger ones of the server", qr/uses "${proto}_pass"/,
        server => "large_client_header_buffers 4 32k; $ON",
        location => $PUBLIC . $pass);
    accepted("$proto: large ones where the gateway is off",
        http => 'large_client_header_buffers 4 32k;', location => $pass);
}
accepted('large ones for other protocols',
    http => 'large_client_header_buffers 4 32k;',
    location => $OPEN . $_)
    for $PASS, 'scgi_pass 127.0.0.1:1;';

accepted('small ones where nothing is guarded',
    http => 'large_client_header_buffers 4 1k;',
    location => $OPEN . $PASS);

# Nobody gets what another was sent, nor goes without trusted headers.

for my $proto (qw(proxy fastcgi scgi uwsgi)) {
    my $cached = "${proto}_cache one;" . ($proto eq 'proxy' ? '' : "${proto}_cache_key \$uri;");
    my $zone = "${proto}_cache_path %%DIR%%/cache keys_zone=one:1m;";
    my $to = $proto eq 'proxy' ? 'http://127.0.0.1:1' : '127.0.0.1:1';
    my $pass = "${proto}_pass $to;";
    my $KEEPS = qr/guarded, but "${proto}_cache" or .*_allow_cache on"/;

    refused("${proto}_cache, guarded", $KEEPS, http => $zone,
        location => $GUARDED . $pass . $cached);
    refused("${proto}_store, guarded", $KEEPS, $GUARDED . $pass . "${proto}_store on;");
    refused("${proto}_pass_request_headers off, guarded",
        qr/"${proto}_pass_request_headers off" keeps the trusted headers/,
        $GUARDED . $pass . "${proto}_pass_request_headers off;");
    next if $proto =~ /scgi|uwsgi/;    # how they are found is the same

    refused("${proto}_cache of http{}, guarded", $KEEPS,
        http => $zone . $cached, location => $GUARDED . $pass);
    refused("${proto}_cache of a variable zone, guarded", $KEEPS,
        http => $zone,
        location => $GUARDED . $pass . $cached =~ s/one/\$arg_z/r);
    refused("${proto}_cache, passed by variable, guarded", $KEEPS,
        http => $zone, location => $GUARDED . $cached
            . "${proto}_pass " . $to =~ s/127.*/\$arg_to/r . ';');
    refused("${proto}_cache, guarded, inside if", $KEEPS, http => $zone,
        location => $GUARDED . "if (\$arg_x) { $pass } $cached");
    refused("${proto}_cache, guarded, passed by variable $_ of a location of scgi", $KEEPS,
        http => $zone, location => "$GUARDED $cached scgi_pass 127.0.0.1:1; $_ { ${proto}_pass "
            . $to =~ s/127.*/\$arg_to/r . '; }')
        for 'if ($arg_x)', $proto eq 'proxy' ? 'limit_except GET' : ();
    accepted("${proto}_cache, guarded, meant", http => $zone,
        location => $GUARDED . $pass . $cached
            . 'platform_gateway_allow_cache on;');
    accepted("${proto}_cache off again, guarded", http => $zone . $cached,
        location => $GUARDED . $pass . "${proto}_cache off;");
    accepted("${proto}_cache, public", http => $zone, location => $OPEN . $pass . $cached);
    accepted("${proto}_cache, gateway off", http => $zone, location => $pass . $cached);
    accepted("${proto}_cache for others, guarded, $_ of a location of scgi",
        http => $zone . $cached, location => "$GUARDED scgi_pass 127.0.0.1:1; $_")
        for 'if ($arg_x) { set $x 1; }', 'limit_except GET { deny all; }',
        'if ($arg_x) { scgi_pass 127.0.0.1:2; }';
    accepted("${proto}_cache for others, guarded", http => $zone . $cached,
        location => $GUARDED . 'grpc_pass grpc://127.0.0.1:1;');

    refused("${proto}_pass_request_headers off of http{}, guarded",
        qr/"${proto}_pass_request_headers off" keeps the trusted headers/,
        http => "${proto}_pass_request_headers off;",
        location => $GUARDED . $pass);
    accepted("${proto}_pass_request_headers on again, guarded",
        http => "${proto}_pass_request_headers off;",
        location => $GUARDED . $pass
            . "${proto}_pass_request_headers on;");
    accepted("${proto}_pass_request_headers off, public",
        $OPEN . $pass
            . "${proto}_pass_request_headers off;");
}

# The subject of a token, where it cannot be known or would be shared.

my $EARLY = qr/the server reads \$platform_account_id.* before it is known/;
for my $name (qw(account session workspace)) {
    my $var = "\$platform_${name}_id";

    refused("set of a server, $name", $EARLY, server => "set \$x $var;", location => $SERVED);
    accepted("set of a location, $name", $GUARDED . "set \$x $var;" . $PASS);
}
refused("$_->[0] of a server", $EARLY, server => $_->[1],
    location => $SERVED)
    for [ 'set inside if', 'if ($arg_x) { set $x a$platform_account_id; }' ],
    [ 'if', 'if ($platform_account_id) { set $x 1; }' ],
    [ 'rewrite', 'rewrite ^/x /of/$platform_account_id;' ];
accepted('another variable', server => 'set $x $platform_request_id;',
    location => $GUARDED . 'set $y $platform_account_id;' . $PASS);
accepted('a server without the gateway', server => 'set $x $platform_account_id;',
    location => $PASS);

for my $proto (qw(proxy uwsgi)) {
    my $pass = "${proto}_pass " . ($proto eq 'proxy' ? 'http://127.0.0.1:1;' : '127.0.0.1:1;');
    my $SHARED = qr/"${proto}_store" names a file by .*: use "${proto}_cache"/;

    for my $where ([ guarded => $GUARDED
            . 'platform_gateway_allow_cache on;' ],
        [ public => $OPEN ], [ off => '' ]) {
        my ($name, $lines) = @$where;

        refused("${proto}_store by account, $name", $SHARED, $lines
            . $pass . "${proto}_store /tmp/\$platform_account_id\$uri;");
        refused("${proto}_store by account, $name, inside if", $SHARED,
            "$lines grpc_pass grpc://127.0.0.1:1;"
                . 'if ($arg_x) { ' . $pass =~ s/127.*;/\$arg_to;/r . ' }'
                . "${proto}_store /tmp/\$platform_account_id\$uri;");
        accepted("${proto}_store by another variable, $name",
            $lines . $pass
                . "${proto}_store /tmp/\$platform_route_id\$uri;");
    }
}

# An explanation that nothing but the gateway guards.

accepted('an explanation, guarded', $GUARDED . 'platform_gateway_explain;');
refused("an explanation, guarded in shadow mode of the $_",
    qr/"platform_gateway_explain" and is open to anybody/,
    $GUARDED . 'platform_gateway_explain;',
    $_ eq 'http' ? (http => 'platform_gateway_shadow on;')
        : (server => 'platform_gateway_shadow on;'))
    for 'http', 'server';

# What answers before the guard is asked.

my $ANSWERS = qr/answers before the guard/;
refused("guarded: $_", $ANSWERS, "$GUARDED $_")
    for 'return 200 "secret";', 'return 302 /elsewhere;', 'return 404;',
    'return http://elsewhere.test/;', 'rewrite ^ /elsewhere redirect;',
    'rewrite ^/(a)$ /b/$1 permanent;', 'rewrite ^ http://elsewhere.test/;',
    'set $x 1; rewrite ^/a /b break; rewrite ^ $scheme://elsewhere.test/;',
    'if ($arg_x = 1) { return 200 "secret"; }',
    'if ($arg_x) { rewrite ^ /elsewhere redirect; }',
    'set $a "b$arg_c"; if (!-f $request_filename) { return 200; }';
accepted("guarded: $_", "$GUARDED $_")
    for 'rewrite ^ /elsewhere last;', 'rewrite ^ /elsewhere break;',
    'rewrite ^ /elsewhere; set $a return; break;',
    'if ($arg_x) { rewrite ^ /elsewhere last; }', 'set $a "x$arg_b$arg_c";';
accepted("meant: $_", "$GUARDED $_"
    . 'platform_gateway_allow_return on;')
    for 'return 200;', 'rewrite ^ /elsewhere redirect;';
accepted('public: return', "$OPEN return 200;");
accepted('off: return', 'return 200;');
accepted('server: return', server => $GUARDED . 'return 200;', location => $PASS);

# Origins (check_cors.c has them all).

refused('an origin', qr/invalid origin "\*" in .*each origin must be named/,
    'platform_gateway_cors_origins *;');
accepted('origins', 'platform_gateway_cors_origins https://*.example.com off.test://a;'
    . 'platform_gateway_cors_origins http://[::1]:3000;');
refused('a CORS header that is a pattern', qr/there are no patterns/,
    'platform_gateway_cors_headers X-*;');

# Names of headers.

for my $name ('', 'X Y', 'X_Y', 'X.Y', "X:Y", 'x' x 64) {
    refused("strip_header '$name'", qr/header name/,
        http => qq(platform_gateway_strip_header "$name";));
}
for my $name (qw(Host connection Content-Length Transfer-Encoding
    authorization Cookie X-Forwarded-For Expect Upgrade)) {
    refused("strip_header $name", qr/has a meaning for nginx itself/,
        server => "platform_gateway_strip_header $name;");
    refused("claim_header $name", qr/has a meaning for nginx itself/,
        "platform_gateway_claim_header sub $name;");
}
for my $name (qw(X-Request-Id x-correlation-id)) {
    refused("claim_header $name", qr/is the gateway's own/,
        "platform_gateway_claim_header sub $name;");
}
refused("claim $_", qr/"\Q$_\E" reads as a path .*only claims at the top level/,
    "platform_gateway_claim_header $_ X-A;")
    for 'realm_access.roles', 'resource_access.app.roles', '.';
accepted("claim $_", "platform_gateway_claim_header $_ X-A;")
    for 'realm_access', 'https://ns.example/roles', 'ns.example/roles',
    'urn:ns.example:roles';
refused('one header for two claims', qr/duplicate header "x-a"/,
    'platform_gateway_claim_header sub X-A;'
        . 'platform_gateway_claim_header iss x-a;');
accepted('names that are fine', http => 'platform_gateway_strip_header X-A X1;',
    server => 'platform_gateway_strip_header X-B;',
    location => 'platform_gateway_claim_header sub X-A;'
        . 'platform_gateway_claim_header sub X-C;');
refused('strip_header in a location', qr/is not allowed here/,
    'platform_gateway_strip_header X-A;');

# Values.

refused('a leeway over 300 s', qr/is more than 300 seconds/,
    http => 'platform_gateway_leeway 301;');
accepted('a leeway of 5 m', http => 'platform_gateway_leeway 5m;');
refused('an empty issuer', qr/has an empty value/, http => 'platform_gateway_issuer "";');
refused('an empty audience', qr/has an empty value/, http => 'platform_gateway_audience a "";');
refused("a realm with $_->[0]", qr/must be printable ASCII/,
    http => "platform_gateway_realm $_->[1];")
    for [ 'a quote', q('a"b') ], [ 'a backslash', q("a\\\\\\\\b") ],
    [ 'a line end', q("a\nb") ], [ 'another script', q("é") ];
accepted('a realm of two words', http => 'platform_gateway_realm "a b";');
refused('an unknown method', qr/invalid value "BREW"/, 'platform_gateway_methods GET BREW;');
refused('methods outside of a location', qr/is not allowed here/,
    server => 'platform_gateway_methods GET;');
accepted('methods', 'platform_gateway_methods GET POST;');
refused('a route twice', qr/is duplicate/, 'platform_gateway_route a; platform_gateway_route b;');
refused('a route without an id', qr/has an empty id/, 'platform_gateway_route "";');
refused("a route with $_->[0]", qr/has a control character in its id/,
    "platform_gateway_route $_->[1];")
    for [ 'a line end', qq("a\nb") ], [ 'a tab', q("\t") ],
    [ 'a control character', qq("a\x01") ], [ 'DEL', qq("a\x7f") ];
accepted('a route of another script, with spaces and a quote', q(platform_gateway_route "é ~ \"";));
accepted('a route', 'platform_gateway_route a service;');
refused('two content handlers', qr/conflicts with another content handler/,
    $PUBLIC . $PASS . 'platform_gateway_ready;');
refused('a token limit that is no size', qr/invalid value/,
    http => 'platform_gateway_token_max_size many;');

my ($ok, $said) = check(server => join '', map {"location /good$_ { $good[$_] }\n"} 0 .. $#good);
ok $ok, 'accepted: ' . @good . ' locations' or diag $said;

$t->allow(qr/\[emerg\]/);
$t->done;

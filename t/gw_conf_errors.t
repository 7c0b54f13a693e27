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

# nginx -t with these lines in http{}, server{} and a location of their own (all
# that accepted() and refused() take, if it is one text).
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

my $HEALTH = 'platform_gateway_health;';
refused('a content handler and no level',
    qr{location "/here" has a content handler and no "platform_gateway_access"}, $ON . $PASS);
refused("no level: $_", qr{location "/here(?:/in)?" .* no "platform_gateway_access"}, $ON . $_)
    for $HEALTH, 'platform_gateway_metrics;', "location /here/in { $PASS }",
    "if (\$arg_x) { $PASS }";
accepted('with a level', $OPEN . $PASS);
accepted("a level of $_", $_ => $OPEN, location => $PASS) for qw(http server);
accepted('no content handler: refused at run time', $ON);
accepted('the gateway off', $PASS);

my $ACCESS = 'platform_gateway_access';
my $IN_IF = qr/cannot stand inside "if": say it in the/;
refused("$_->[0]", $_->[1], $ON . $_->[0])
    for [ "$ACCESS admin;", qr/invalid value "admin"/ ],
    [ "$ACCESS branch admin;", qr/"$ACCESS" directive accepts public, account, branch / ],
    [ "$ACCESS public branch;", qr/must stand alone/ ],
    [ "if (\$arg_x) { $PUBLIC }", $IN_IF ],
    [ "$PUBLIC if (\$arg_x) { platform_gateway off; }", $IN_IF ],
    [ "$PUBLIC limit_except GET { $PUBLIC }",
        qr/cannot stand inside "limit_except".*platform_gateway_methods/ ];
refused('a level inside if of a server', $IN_IF, server => "$ON if (\$arg_x) { $PUBLIC }");
accepted("levels $_", "$ON $ACCESS $_;")
    for qw(public account branch platform system), 'account branch system';

refused('no issuer', qr/has no issuer: add "platform_gateway_issuer"/, $SERVED, no_issuer => 1);
accepted('no issuer and nothing guarded', no_issuer => 1, keys => '', location => $OPEN . $PASS);
refused('no source of keys',
    qr/needs keys.*add "platform_gateway_key_location" to a server/,
    keys => '', location => $SERVED);
refused('no source of keys, and an internal location', qr/needs keys/,
    keys => '', location => 'internal;' . $GUARDED . $PASS);
accepted('a source of keys', location => $SERVED);

# The key set's location: [name, what is said or undef, the server's lines].

my $dir = $t->dir;
my $SMALL_BUFFER = qr/cannot hold a key set: add "subrequest_output_buffer_size 64k;"/;
my ($NO_BUFFER, $CACHING) = map { my $what = $_; $KEYS =~ s/$what//r } qr/subrequest_\w+ 64k;/,
    qr/proxy_cache off;/;
my $INHERITS = "$SOURCE proxy_cache one;";
for my $case (
    [ 'the usual', undef, $SOURCE . $KEYS ],
    [ 'two', qr/already given by "platform_gateway_key_location" in \S+:\d+/, $SOURCE x 2 . $KEYS ],
    [ 'a relative one', qr/must begin with "\/"/, $SOURCE =~ s{/}{}r . $KEYS ],
    [ 'one that does not exist', qr/names no location .* in \S+:\d+/, $SOURCE ],
    [ 'one that another location would serve',
        qr/location "\/" .* or a "location = \/keys"/, "$SOURCE location / { empty_gif; }" ],
    [ 'one that clients reach', qr/must be internal: add "internal;"/,
        $SOURCE . $KEYS =~ s/internal;//r ],
    [ 'a small output buffer', $SMALL_BUFFER, $SOURCE . $KEYS =~ s/64k/63k/r ],
    [ 'the default one', $SMALL_BUFFER, $SOURCE . $NO_BUFFER ],
    [ 'a larger one', undef, $SOURCE . $KEYS =~ s/64k/256k/r ],
    [ 'one set for the server', undef, "subrequest_output_buffer_size 64k; $SOURCE $NO_BUFFER" ],
    [ 'a prefix location', undef, $SOURCE . $KEYS =~ s{= /keys}{/k}r ],
    [ 'a nested one, among others', undef, "$SOURCE location /k { platform_gateway off; $KEYS "
        . join ' ', map({"location = /k$_ { empty_gif; }"} 'a' .. 'm', 'eys_other'), '}' ],

    # A cache would answer with old keys.
    [ 'a cache that is inherited',
        qr/location "\/keys" .* cache: add "proxy_cache off;" to it, in \S+:\d+/,
        $INHERITS . $CACHING ],
    [ 'a cache of an address made of variables', qr/add "proxy_cache off;"/,
        "set \$at 127.0.0.1:1; $INHERITS" . $CACHING =~ s/127.0.0.1:1;/\$at;/r ],
    [ 'none there', undef, $INHERITS . $KEYS ],
    [ 'a cache around a file', undef, $INHERITS . $CACHING =~ s/proxy_pass .*/root html;/r ],
) {
    my ($name, $said, $keys) = @$case;
    my @in = (keys => $keys, location => "$GUARDED proxy_cache off; empty_gif;",
        http => "proxy_cache_path $dir/cache keys_zone=one:1m;");
    $said ? refused($name, $said, @in) : accepted($name, @in);
}

refused("zone $_->[0]", $_->[1], zone => $_->[0], location => $SERVED)
    for [ 'keys', qr/it is NAME:SIZE/ ], [ ':1m', qr/it is NAME:SIZE/ ],
    [ 'keys:x', qr/zone size "x" is invalid/ ],
    [ 'keys:128k', qr/zone size "128k" is invalid or below 256k/ ];
accepted('the smallest zone', zone => 'keys:256k', location => $SERVED);

sub counted ($n) {
    return (zone => 'keys:256k', location => join ' ', $OPEN, 'platform_gateway_metrics;',
        map {"location /here/$_ { platform_gateway_route $_; }"} 1 .. $n);
}
accepted('a small zone, a hundred routes', counted(100));
like +(check(counted(1000)))[1],
    qr/"keys_counters" is too small .* make "platform_gateway_zone" larger/, 'refused: a thousand';

# Its ages and files: [lines of http{}, what is said; nothing: accepted, key location].

my ($file, $kept) = ($t->write_file('keys.json', jwks(jwt_key('a'))), "$dir/kept");
my $bad = $t->write_file('bad.json', '{"keys":[{"kty":"EC"}]}');
my ($ONE_SECOND, $TWICE) = (qr/must be at least 1s/, qr/is duplicate/);
for my $case (
    [ 'platform_gateway_zone b:1m;', $TWICE ],
    [ '<cooldown> 0;', $ONE_SECOND ], [ '<cooldown> 999ms;', $ONE_SECOND ],
    [ '<soft_age> 5s; <cooldown> 6s;', qr/soft_age" \(5s\) must not be below .* \(6s\)/ ],
    [ '<soft_age> 0;', qr/soft_age" \(0s\) must not be below .* \(1s\)/ ],
    [ '<soft_age> 5s;' ],
    [ '<cooldown> 301s;', qr/soft_age" \(300s\) must not be below/ ],
    [ '<hard_age> 1m;', qr/hard_age" \(60s\) must not be below/ ],
    [ '<hard_age> 5m;' ],

    [ "<file> $file;", undef, '' ],
    [ '<file> no.json;', qr/no\.json" gives no keys: No such file.*set there/, '' ],
    [ "<file> $dir;", qr/gives no keys: it is not a regular file/, '' ],
    [ "<file> $bad;", qr/gives no keys: .*usable key/, '' ],
    [ "<file> $file;", qr/already given by "platform_gateway_key_file" in \S+: leave one/ ],
    [ "<file> $file; <file> $file;", qr/already given by "platform_gateway_key_file"/, '' ],
    [ '<file> "";', qr/needs the name of a file/, '' ],
    [ "<cache_file> $kept;" ],
    [ "<cache_file> $kept; <cache_file> $kept;", $TWICE ],
    [ '<cache_file> /tmp/;', qr/needs the name of a file/ ],
    [ "<cache_file> $kept; <file> $file;",
        qr/leave it out, it has no use beside .* in \S+:\d+/, '' ],
) {
    my ($name, $said, $keys) = @$case;
    my @in = (keys => $keys, http => $name =~ s/<(\w+)>/platform_gateway_key_$1/gr,
        location => "$GUARDED empty_gif;");
    $said ? refused($name, $said, @in) : accepted($name, @in);
}

# A token has to fit into a header line, and that into one buffer.

my $BUFFERS = 'large_client_header_buffers';
my $SMALL = qr{"/here" accepts tokens of 16384 bytes .*_buffers 2 24k" in};
refused("$BUFFERS $_", $SMALL, http => "$BUFFERS $_;", location => $SERVED)
    for '4 8k', '4 16407';
accepted("$BUFFERS $_", http => "$BUFFERS $_;", location => $SERVED) for '4 16408', '1 24k';
refused('smaller ones of a server', $SMALL, http => "$BUFFERS 4 32k;",
    server => "$BUFFERS 4 8k; $ON", location => $BRANCH . $PASS);
accepted('smaller ones for smaller tokens', http => "$BUFFERS 4 8k;",
    location => "$SERVED platform_gateway_token_max_size 8000;");
refused('larger tokens', qr/tokens of 40960 bytes .*_buffers 2 60k"/,
    "$SERVED platform_gateway_token_max_size 40k;");
accepted('small ones where nothing is guarded', http => "$BUFFERS 4 1k;",
    location => $OPEN . $PASS);

# FastCGI and uwsgi carry all headers in one record.

for my $proto (qw(fastcgi uwsgi)) {
    my $pass = "${proto}_pass 127.0.0.1:1;";
    refused("$proto: $_", qr/"\/here" uses "${proto}_pass".* say "large_cl\w+ 2 24k" in its/,
        http => "$_;", location => $OPEN . $pass)
        for "$BUFFERS 4 32k", "$BUFFERS 2 28k", "$BUFFERS 2 24k; client_header_buffer_size 9k";
    accepted("$proto: $_", http => "$_;", location => $GUARDED . $pass)
        for "$BUFFERS 2 24k", "$BUFFERS 2 24k; client_header_buffer_size 8k";
    refused("$proto: larger ones of the server", qr/uses "${proto}_pass"/,
        server => "$BUFFERS 4 32k; $ON", location => $PUBLIC . $pass);
    accepted("$proto: large ones where the gateway is off", http => "$BUFFERS 4 32k;",
        location => $pass);
}
accepted('large ones for other protocols', http => "$BUFFERS 4 32k;", location => $OPEN . $_)
    for $PASS, 'scgi_pass 127.0.0.1:1;';

# Nobody gets what another was sent, nor goes without trusted headers.

for my $proto (qw(proxy fastcgi scgi uwsgi)) {
    my ($at, $key) = $proto eq 'proxy' ? ('http://', '') : ('', "${proto}_cache_key \$uri;");
    my ($pass, $anywhere) = map {"${proto}_pass $at$_;"} '127.0.0.1:1', '$arg_to';
    my $cached = "${proto}_cache one; $key";
    my @zone = (http => "${proto}_cache_path %%DIR%%/cache keys_zone=one:1m;");
    my @used = (http => "$zone[1] $cached");
    my $off = "${proto}_pass_request_headers off;";
    my $KEEPS = qr/guarded, but "${proto}_cache" or .*_allow_cache on"/;
    my $WITHOUT = qr/"${proto}_pass_request_headers off" keeps the trusted headers/;

    refused("${proto}_cache, guarded", $KEEPS, @zone, location => $GUARDED . $pass . $cached);
    refused("${proto}_store, guarded", $KEEPS, $GUARDED . $pass . "${proto}_store on;");
    refused("$proto, without headers, guarded", $WITHOUT, $GUARDED . $pass . $off);
    next if $proto =~ /scgi|uwsgi/;    # how they are found is the same

    refused("${proto}_cache, $_->[0], guarded", $KEEPS, @{ $_->[2] // \@zone },
        location => $GUARDED . $_->[1])
        for [ 'of http{}', $pass, \@used ],
        [ 'of a variable zone', $pass . $cached =~ s/one/\$arg_z/r ],
        [ 'passed by variable', $cached . $anywhere ],
        [ 'inside if', "if (\$arg_x) { $pass } $cached" ],
        map { [ "in $_ of a location of scgi", "$cached scgi_pass 127.0.0.1:1; $_ { $anywhere }" ] }
        'if ($arg_x)', $proto eq 'proxy' ? 'limit_except GET' : ();
    accepted("${proto}_cache, $_->[0]", @{ $_->[2] // \@zone }, location => $_->[1])
        for [ 'guarded, meant', $GUARDED . $pass . $cached . 'platform_gateway_allow_cache on;' ],
        [ 'off again', $GUARDED . $pass . "${proto}_cache off;", \@used ],
        [ 'public', $OPEN . $pass . $cached ], [ 'gateway off', $pass . $cached ],
        map { [ "for others: $_", $GUARDED . $_, \@used ] } 'grpc_pass grpc://127.0.0.1:1;',
        map {"scgi_pass 127.0.0.1:1; $_"} 'if ($arg_x) { set $x 1; }',
        'limit_except GET { deny all; }', 'if ($arg_x) { scgi_pass 127.0.0.1:2; }';

    refused("$proto, without headers by http{}, guarded", $WITHOUT, http => $off,
        location => $GUARDED . $pass);
    accepted("$proto, with headers again, guarded", http => $off,
        location => $GUARDED . $pass . $off =~ s/off/on/r);
    accepted("$proto, without headers, public", $OPEN . $pass . $off);
}

# The subject of a token, where it cannot be known or would be shared.

my $EARLY = qr/the server reads \$platform_account_id.* before it is known/;
for my $name (qw(account session workspace)) {
    my $var = "\$platform_${name}_id";
    refused("set of a server, $name", $EARLY, server => "set \$x $var;", location => $SERVED);
    accepted("set of a location, $name", $GUARDED . "set \$x $var;" . $PASS);
}
refused("of a server: $_", $EARLY, server => $_, location => $SERVED)
    for 'if ($arg_x) { set $x a$platform_account_id; }',
    'if ($platform_account_id) { set $x 1; }', 'rewrite ^/x /of/$platform_account_id;';
accepted('another variable', server => 'set $x $platform_request_id;',
    location => $GUARDED . 'set $y $platform_account_id;' . $PASS);
accepted('a server without the gateway', server => 'set $x $platform_account_id;',
    location => $PASS);

for my $proto (qw(proxy uwsgi)) {
    my $at = $proto eq 'proxy' ? 'http://' : '';
    my ($pass, $inside) = map {"${proto}_pass $at$_;"} '127.0.0.1:1', '$arg_to';
    my $store = "${proto}_store /tmp/\$platform_account_id\$uri;";
    my $SHARED = qr/"${proto}_store" names a file by .*: use "${proto}_cache"/;

    for my $lines ($GUARDED . 'platform_gateway_allow_cache on;', $OPEN, '') {
        refused("${proto}_store by account: $lines", $SHARED, $lines . $pass . $store);
        refused("${proto}_store by account, inside if: $lines", $SHARED,
            "$lines grpc_pass grpc://127.0.0.1:1; if (\$arg_x) { $inside } $store");
        accepted("${proto}_store by another variable: $lines",
            $lines . $pass . $store =~ s/account/route/r);
    }
}

# An explanation that anybody could ask for; a server to explain, among others.

my $EXPLAIN = 'platform_gateway_explain;';
my $ANYBODY = qr/location "\/here" .* open to anybody: say "[^"]+"/;
accepted("explain: $_", "$_ $EXPLAIN")
    for 'allow 127.0.0.1; deny all;', 'internal;', 'deny all;', $GUARDED,
    'allow unix:; allow ::1; deny all;', 'deny 0.0.0.0/0; deny ::/0; deny unix:;';
accepted('explain: by its server', server => 'allow 127.0.0.1; deny all;', location => $EXPLAIN);
refused("explain: $_", $ANYBODY, "$_ $EXPLAIN")
    for '', 'allow 127.0.0.1;', 'deny 10.0.0.0/8; allow all;', 'deny 0.0.0.0/0;',
    'deny all; allow 10.0.0.1;', 'allow all; deny all;',
    'allow 127.0.0.1; allow 0.0.0.0/0; deny all;', 'allow unix:; allow ::/0; deny all;',
    'allow unix:; deny 0.0.0.0/0; deny ::/0;', 'deny 10.0.0.0/8; deny ::/0; deny unix:;', $OPEN,
    'deny all; limit_except GET { allow all; }', "platform_gateway off; $BRANCH";
refused("explain: in shadow mode of the $_", $ANYBODY,
    $_ => 'platform_gateway_shadow on;', location => $GUARDED . $EXPLAIN) for 'http', 'server';
refused('explain: no level', qr/no "platform_gateway_access"/, "$ON deny all; $EXPLAIN");

my @other = ('server_name a.test b.test b.test;', 'server_name c.test;');
my $NOT_ONE = qr/"\/here" .* not exactly one server has that/;
for my $case ([ 'a.test' ], [ 'B.test' ], [ 'c.test' ], map({ [ $_, $NOT_ONE ] }
    'd.test', '.test', 'a'), [ 'c.test', $NOT_ONE, 'server_name c.test;' ]) {
    my ($name, $said, @more) = @$case;
    my @in = (location => "deny all; platform_gateway_explain $name;",
        http => join '', map {"server { listen 127.0.0.1:8; $_ }\n"} @other, @more);
    $said ? refused("explain $name", $said, @in) : accepted("explain $name", @in);
}

# What answers before the guard is asked.

refused("guarded: $_", qr/answers before the guard/, "$GUARDED $_")
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
    'if ($arg_x) { rewrite ^ /elsewhere last; }', 'set $a "x$arg_b$arg_c";',
    map {"platform_gateway_allow_return on; $_"} 'return 200;', 'rewrite ^ /elsewhere redirect;';
accepted('public: return', "$OPEN return 200;");
accepted('off: return', 'return 200;');
accepted('server: return', server => $GUARDED . 'return 200;', location => $PASS);

# Names and values: [block, the directive, what is said of it; nothing: accepted].
# check_cors has all origins.

my $CLAIM = 'platform_gateway_claim_header';
my ($STRIP, $CACHE) = ('platform_gateway_strip_header', 'platform_gateway_token_cache');
my ($NAME, $NGINX) = (qr/header name/, qr/has a meaning for nginx itself/);
my ($PATH, $CONTROL) = (qr/reads as a path .*only claims at the top level/,
    qr/has a control character in its id/);
for my $case (
    [ location => 'platform_gateway_cors_origins *;',
        qr/invalid origin "\*" in .*each origin must be named/ ],
    [ location => 'platform_gateway_cors_origins https://*.example.com off.test://a;'
        . 'platform_gateway_cors_origins http://[::1]:3000;' ],
    [ location => 'platform_gateway_cors_headers X-*;', qr/there are no patterns/ ],

    map({ [ http => qq($STRIP "$_";), $NAME ] } '', 'X Y', 'X_Y', 'X.Y', 'X:Y', 'x' x 64),
    map({ [ server => "$STRIP $_;", $NGINX ], [ location => "$CLAIM sub $_;", $NGINX ] }
        qw(Host connection Content-Length Transfer-Encoding authorization Cookie
        X-Forwarded-For Expect Upgrade)),
    map({ [ location => "$CLAIM sub $_;", qr/is the gateway's own/ ] }
        qw(X-Request-Id x-correlation-id)),
    map({ [ location => "$CLAIM $_ X-A;", qr/"\Q$_\E" $PATH/ ] }
        'realm_access.roles', 'resource_access.app.roles', '.'),
    map({ [ location => "$CLAIM $_ X-A;" ] } 'realm_access', 'https://ns.example/roles',
        'ns.example/roles', 'urn:ns.example:roles'),
    [ location => "$CLAIM sub X-A; $CLAIM iss x-a;", qr/duplicate header "x-a"/ ],
    [ location => "$CLAIM sub X-A; $CLAIM sub X-C;" ],
    [ http => "$STRIP X-A X1;" ], [ server => "$STRIP X-B;" ],
    [ location => "$STRIP X-A;", qr/is not allowed here/ ],

    map({ [ http => "$CACHE $_->[0];", $_->[1] ] } [ 'on', qr/invalid parameter "on"/ ],
        [ 'size=1m', qr/needs "entries=N"/ ], [ 'entries=0', qr/invalid parameter/ ],
        [ 'entries=10000001', qr/of 1 to 10000000/ ], [ "off; $CACHE off", $TWICE ],
        [ 'entries=1 size=1k', qr/invalid parameter "size=1k".*at least 64k/ ],
        [ 'off entries=1', qr/invalid parameter/ ], ['entries=1 size=64k']),
    [ http => 'platform_gateway_leeway 301;', qr/is more than 300 seconds/ ],
    [ http => 'platform_gateway_leeway 5m;' ],
    [ http => 'platform_gateway_issuer "";', qr/has an empty value/ ],
    [ http => 'platform_gateway_audience a "";', qr/has an empty value/ ],
    map({ [ http => "platform_gateway_realm $_;", qr/must be printable ASCII/ ] }
        q('a"b'), q("a\\\\b"), q("a\nb"), q("é")),
    [ http => 'platform_gateway_realm "a b";' ],
    [ http => 'platform_gateway_token_max_size many;', qr/invalid value/ ],
    [ location => 'platform_gateway_methods GET BREW;', qr/invalid value "BREW"/ ],
    [ server => 'platform_gateway_methods GET;', qr/is not allowed here/ ],
    [ location => 'platform_gateway_methods GET POST;' ],
    [ location => 'platform_gateway_route a; platform_gateway_route b;', qr/is duplicate/ ],
    [ location => 'platform_gateway_route "";', qr/has an empty id/ ],
    map({ [ location => qq(platform_gateway_route "$_";), $CONTROL ] }
        "a\nb", "\t", "a\x01", "a\x7f"),
    map({ [ location => "platform_gateway_route $_;" ] } 'a service', q("é ~ \"")),
    [ location => $PUBLIC . $PASS . 'platform_gateway_ready;',
        qr/conflicts with another content handler/ ],
) {
    my ($block, $text, $said) = @$case;
    my $name = $text =~ s/[^ -~]/?/gr;
    $said ? refused($name, $said, $block => $text) : accepted($name, $block => $text);
}

my ($ok, $said) = check(server => join '', map {"location /good$_ { $good[$_] }\n"} 0 .. $#good);
ok $ok, 'accepted: ' . @good . ' locations' or diag $said;

$t->allow(qr/\[emerg\]/);
$t->done;

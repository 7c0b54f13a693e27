# What nginx -t refuses, with what is wrong and where; beside each the
# configuration that is right.

use Platform::Test;

my $t = Platform::Test->new;

# Where keys come from.
my $SOURCE = "platform_gateway_key_location /keys;\n";
my $KEYS = 'location = /keys { internal; platform_gateway off; proxy_cache off;'
    . " subrequest_output_buffer_size 64k; proxy_pass http://127.0.0.1:1; }\n";

my @good;    # those that need no more than a location are tried together, at the end

# nginx -t with these lines in http{}, server{} and a location of their own (which
# is meant, if it is one text) is refused and says that, or accepted (undef).
sub rule ($name, $said, @in) {
    return push @good, @in if @in == 1 && !$said;
    my %in = (keys => $SOURCE . $KEYS, zone => 'gateway:1m', @in % 2 ? (location => @in) : @in);
    my $issuer = $in{no_issuer} ? '' : 'platform_gateway_issuer http://i;';
    my ($ok, $why) = $t->location_test(%in{qw(location buffers)},
        http => "platform_gateway_zone $in{zone}; $issuer\n" . ($in{http} // ''),
        server => "$in{keys}\n" . ($in{server} // ''));
    return ok($ok, "accepted: $name") || diag $why if !$said;
    like $why, $said, "refused: $name";
    ok !$ok && $why =~ /check\.conf:\d/ && $why !~ /\[(?:alert|crit)\] (?!ngx_slab)/,
        "$name: where, and calmly" or diag $why;
}

my $ACCESS = 'platform_gateway_access';
my ($BRANCH, $PUBLIC) = map {"$ACCESS $_; "} qw(branch public);
my ($ON, $PASS) = ('platform_gateway on; ', 'proxy_pass http://127.0.0.1:1;');
my ($OPEN, $GUARDED) = ($ON . $PUBLIC, $ON . $BRANCH);
my $SERVED = $GUARDED . $PASS;
my $IF = 'if ($arg_x)';

sub counted ($n) {
    return (zone => 'keys:256k', location => join ' ', $OPEN, 'platform_gateway_metrics;',
        map {"location /here/$_ { platform_gateway_route $_; }"} 1 .. $n);
}

rule("no level: $_", qr{"/here(?:/in)?" has a content handler and no "$ACCESS"}, $ON . $_)
    for $PASS, map({"platform_gateway_$_;"} qw(health metrics)), "location /here/in { $PASS }",
    "$IF { $PASS }";
my $NOT_HERE = qr/"platform_gateway\w*" directive is not allowed here/;
rule(@$_) for map({ [ "a level of $_", undef, $_ => $OPEN, location => $PASS ] } qw(http server)),
    [ 'a level', undef, $OPEN . $PASS ], [ 'the gateway off', undef, $PASS ],
    [ 'no content handler: refused at run time', undef, $ON ],
    [ 'an unknown level', qr/invalid value "admin"/, "$ON $ACCESS admin;" ],
    [ 'one of two', qr/invalid value "admin"/, "$ON $ACCESS branch admin;" ],
    [ 'public and another', qr/must stand alone/, "$ON $ACCESS public branch;" ],
    [ 'public and another, of a server', qr/: the server is .* must stand alone/,
        server => "$ON $ACCESS public branch;", location => $PASS ],
    [ 'three levels', undef, "$ON $ACCESS account branch system;" ],
    [ 'a level inside if', $NOT_HERE, "$ON $IF { $PUBLIC }" ],
    [ 'a level inside if of a server', $NOT_HERE, server => "$ON $IF { $PUBLIC }" ],
    [ 'off inside if', $NOT_HERE, "$OPEN $IF { platform_gateway off; }" ],
    [ 'a level for methods', $NOT_HERE, "$OPEN limit_except GET { $PUBLIC }" ],

    [ 'no issuer', qr/no issuer whose tokens open it: add "platform_gateway_issuer"/, no_issuer => 1,
        location => $SERVED ],
    [ 'no issuer and nothing guarded', undef, no_issuer => 1, keys => '',
        location => $OPEN . $PASS ],
    [ 'no source of keys', qr/needs keys.*add "platform_gateway_key_location" to a server/,
        keys => '', location => $SERVED ],
    [ 'no source of keys, and an internal location', qr/needs keys/,
        keys => '', location => "internal; $SERVED" ],
    [ 'all there', undef, $SERVED ],
    map({ [ "zone $_", qr/it is NAME:SIZE/, zone => $_, location => $SERVED ] } 'keys', ':1m'),
    [ 'a zone of no size', qr/invalid zone "keys:x"/, zone => 'keys:x', location => $SERVED ],
    [ 'a small zone', qr/invalid zone "keys:128k".*of at least 256k/, zone => 'keys:128k',
        location => $SERVED ],
    [ 'the smallest zone', undef, zone => 'keys:256k', location => $SERVED ],
    [ 'a small zone, a hundred routes', undef, counted(100) ],
    [ 'a small zone, a thousand', qr/"keys_counters" is too small .* make "platform_gateway_zone"/,
        counted(1000) ];

# What nobody is asked for, since the gateway is not on where it is said.

my $OFF = 'platform_gateway off; ';
for my $says ("$ACCESS branch", "$ACCESS public", 'platform_gateway_require a b',
    'platform_gateway_trusted platform', 'platform_gateway_claim_header a X-A')
{
    my ($name) = $says =~ /(\w+)/;
    my $DOOR = sub ($where) { return qr/: $where has "$name", .* not on there: .* say "platform_gateway on"/ };
    my ($HERE, $SERVER) = ($DOOR->('location "/here"'), $DOOR->('the server'));
    my $in = "location /here/in { $says; $PASS }";
    my @few = ([ 'not on', $HERE, "$says; $PASS" ], [ 'on after it', undef, "$says; $ON"
            . $BRANCH x ($name ne $ACCESS) ]);
    rule("$says: $_->[0]", @$_[ 1 .. $#$_ ]) for $says !~ /access branch|require/ ? @few : (@few,
        [ 'not on, and no handler', $HERE, "$says;" ],
        [ 'not on, of a server', $SERVER, server => "$says;", location => $PASS ],
        [ 'not on, of a server of one that is', $SERVER, server => "$says;", location => $SERVED ],
        [ 'off around', $HERE, server => $OFF, location => "$says; $PASS" ],
        [ 'on around, off between', $DOOR->('location "/here/in"'), server => $ON,
            location => $OFF . $in ],
        [ 'on beside', $HERE, server => "location /on { $SERVED }", location => "$says; $PASS" ],
        [ 'an "if" in it', $HERE, "$says; $IF { $PASS }" ],
        [ 'limit_except in it', $HERE, "$says; limit_except GET { deny all; }" ],
        [ 'off', undef, "$OFF $says; $PASS" ],
        [ 'off around, and here', undef, server => $OFF, location => "$OFF $says; $PASS" ],
        [ 'off, of a server of one that is on', undef, server => "$OFF $says;",
            location => $SERVED ],
        [ 'of http{}', undef, http => "$says;", location => "$PASS $IF { $PASS }" ],
        [ 'of http{}, and off', undef, http => "$says;", location => "$OFF $PASS" ],
        [ 'on by http{}', undef, http => $ON, server => $BRANCH x ($name ne $ACCESS),
            location => "$says; $PASS" ],
        [ 'on by the server', undef, server => $ON . $BRANCH x ($name ne $ACCESS),
            location => $in ]);
}
rule("$_: not on", undef, "platform_gateway_$_; $PASS") for 'issuer a', 'methods GET', 'leeway 5s';

# The key set's location: [name, what is said, the server's lines].

my $dir = $t->dir;
my $SMALL_BUFFER = qr/cannot hold a key set: add "subrequest_output_buffer_size 64k;"/;
my $NO_LOCATION = qr/the keys of "\/keys".*add "location = \/keys \{ internal; .* in \S+:\d+/;
my ($NO_BUFFER, $CACHING) = map { $KEYS =~ s/$_//r } 'subrequest_\w+ 64k;', 'proxy_cache off;';
my $INHERITS = "$SOURCE proxy_cache one;";
rule(@$_[ 0, 1 ], keys => $_->[2], location => "$GUARDED proxy_cache off; empty_gif;",
    http => "proxy_cache_path $dir/cache keys_zone=one:1m;") for
    [ 'two', qr/already given by "platform_gateway_key_location" in \S+:\d+/, $SOURCE x 2 . $KEYS ],
    [ 'a relative one', qr/must begin with "\/"/, $SOURCE =~ s{/}{}r . $KEYS ],
    [ 'one that does not exist', $NO_LOCATION, $SOURCE ],
    [ 'one that another location would serve', $NO_LOCATION,
        "$SOURCE location / { empty_gif; }" ],
    [ 'one that clients reach', $NO_LOCATION, $SOURCE . $KEYS =~ s/internal;//r ],
    [ 'a small output buffer', $SMALL_BUFFER, $SOURCE . $KEYS =~ s/64k/63k/r ],
    [ 'the default one', $SMALL_BUFFER, $SOURCE . $NO_BUFFER ],
    [ 'one set for the server', undef, "subrequest_output_buffer_size 64k; $SOURCE $NO_BUFFER" ],
    [ 'a prefix location', undef, $SOURCE . $KEYS =~ s{= /keys}{/k}r ],
    [ 'an exact one beside prefixes', undef,
        "$SOURCE location /key { internal; } $KEYS location /keys { internal; }" ],
    [ 'the longer prefix', undef, "$SOURCE location /k { internal; } "
            . $KEYS =~ s{= /keys}{/key}r . 'location /ke { internal; }' ],
    [ 'a longer path is another', $NO_LOCATION, $SOURCE . $KEYS =~ s{= /keys}{/keys/}r ],
    [ 'an exact one is no prefix', $NO_LOCATION, $SOURCE . $KEYS =~ s{/keys}{/key}r ],
    [ 'a nested one, among others', undef, "$SOURCE location /k { platform_gateway off; $KEYS "
        . join ' ', map({"location = /k$_ { empty_gif; }"} 'a' .. 'm', 'eys_other'), '}' ],

    # A cache would answer with old keys.
    [ 'a cache that is inherited',
        qr/location "\/keys" .* cache: add "proxy_cache off;" to it, in \S+:\d+/,
        $INHERITS . $CACHING ],
    [ 'a cache of an address made of variables', qr/add "proxy_cache off;"/,
        "set \$at 127.0.0.1:1; $INHERITS" . $CACHING =~ s/127.0.0.1:1;/\$at;/r ],
    [ 'none there', undef, $INHERITS . $KEYS ],
    [ 'a cache around a file', undef, $INHERITS . $CACHING =~ s/proxy_pass .*?;/root html;/r ];

# It is that of one server: another one's location of that name is like any other.

my $OTHER = 'server { listen 127.0.0.1:%%PORT_gateway%%; server_name other; ';
my $HEADLESS = $KEYS =~ s/platform_gateway off;/$GUARDED proxy_pass_request_headers off;/r;
my $NO_HEADERS = qr/is guarded, but "proxy_pass_request_headers off"/;
my $TRUST = 'platform_gateway_trust x { issuer https://x; key_location /keys; } ';
rule(@$_[ 0, 1 ], keys => $_->[2], http => $_->[3], location => "$GUARDED empty_gif;") for
    [ 'that of another server', $NO_LOCATION, $SOURCE, "$OTHER $KEYS }" ],
    [ 'guarded, without headers', undef, $SOURCE . $HEADLESS, '' ],
    [ 'another server\'s so', $NO_HEADERS, $SOURCE . $KEYS, "$OTHER $HEADLESS }" ],
    [ 'the first of two', undef, $SOURCE . $HEADLESS, "$OTHER $KEYS }" ],
    [ 'the second of two', $NO_HEADERS, $HEADLESS, "$TRUST $OTHER $KEYS }" ];

# Its ages and files: [lines of http{}, what is said, key location].

my ($file, $kept) = ($t->write_file('keys.json', jwks(jwt_key('a'))), "$dir/kept");
my $bad = $t->write_file('bad.json', '{"keys":[{"kty":"EC"}]}');
my $ONE_SECOND = qr/must be at least 1s/;
rule($_->[0], $_->[1], $#$_ > 1 ? (keys => $_->[2]) : (), location => "$GUARDED empty_gif;",
    http => $_->[0] =~ s/<(\w+)>/platform_gateway_key_$1/gr) for
    [ 'platform_gateway_zone b:1m;', qr/is duplicate/ ],
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
    [ "<cache_file> $kept; <cache_file> $kept;", qr/is duplicate/ ],
    [ '<cache_file> /tmp/;', qr/needs the name of a file/ ],
    [ "<cache_file> $kept; <file> $file;",
        qr/leave it out, it has no use beside .* in \S+:\d+/, '' ];

# What nginx -t accepts with a warning: [name, what is warned of; nothing: silence, the
# block's lines, the location of its keys, http{}].

my $AUDIENCE = qr/ "platform_gateway_trust a" has no "audience": .* \S+:\d+\n/;
my $UNVERIFIED = qr/ "\/keys" of "\w*key_location" .* "proxy_ssl_verify off": .* in \S+:\d+\n/;
my ($AUD, $TLS, $CA) = ('audience x;', $KEYS =~ s/http:/https:/r,
    "proxy_ssl_trusted_certificate %%DIR%%/ca.pem;");
my ($VERIFY, $VERIFIED) = ('proxy_ssl_verify off;', "proxy_ssl_verify on; $CA");
system "openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=x -keyout $dir/ca.key "
    . "-out $dir/ca.pem 2>/dev/null";
for my $row ([ 'no audience', [$AUDIENCE], '', $KEYS ],
    [ 'an audience', [], $AUD, $KEYS ], [ 'two', [], 'audience x y;', $KEYS ],
    [ 'audience off', [], 'audience off;', $KEYS ],
    [ 'https, not verified', [$UNVERIFIED], $AUD, $TLS ],
    [ 'https, not verified, as it says', [$UNVERIFIED], $AUD, $TLS =~ s/internal;/$& $VERIFY/r ],
    [ 'https, not verified, by variables', [$UNVERIFIED], $AUD,
        $TLS =~ s{127.0.0.1:1}{127.0.0.1:\$server_port}r ],
    [ 'https, not verified, by its server', [$UNVERIFIED], $AUD, "$VERIFY $TLS", $VERIFIED ],
    [ 'https, verified', [], $AUD, $TLS =~ s/internal;/$& $VERIFIED/r ],
    [ 'https, verified by http{}', [], $AUD, $TLS, $VERIFIED ],
    [ 'http, beside https', [], $AUD, "$KEYS location /tls { proxy_pass https://127.0.0.1:1; }" ],
    [ 'both', [ $AUDIENCE, $UNVERIFIED ], '', $TLS ])
{
    my ($name, $warned, $lines, $keys, $http) = @$row;
    my ($ok, $said) = $t->location_test(server => $keys, location => "$ON$ACCESS token; $PASS",
        http => ($http // '') . "platform_gateway_trust a { issuer http://a; key_location /keys; $lines }");
    ok $ok && (() = $said =~ /\[warn\]/g) == @$warned && !grep({ $said !~ $_ } @$warned),
        "warned: $name" or diag $said;
}
for my $lines ('audience off; audience x;', 'audience x; audience off;', 'audience off x;') {
    rule($lines, qr/"audience" has values beside "off"/, http =>
        "platform_gateway_trust a { issuer http://a; key_location /keys; $lines }", location => $SERVED);
}
for my $case ([ 'a', qr/\[warn\] .* two keys of issuer "platform" have the kid "a": the first counts/ ],
    [ "a\n", qr/ have the kid "": / ], [ 'b', qr/\A(?!.*warn)/s ])
{
    my ($kid, $said) = @$case;
    my ($ok, $why) = $t->location_test(location => $SERVED, http => 'platform_gateway_issuer http://i;'
        . 'platform_gateway_key_file ' . $t->write_file('twins.json',
            jwks(jwt_key('a')->as($kid =~ s/b/a/r), jwt_key('b')->as($kid))) . ';');
    ok $ok && $why =~ $said, 'warned: two keys, ' . $kid =~ s/\n/?/r or diag $why;
}
my (undef, $own) = $t->location_test(server => $SOURCE . $TLS, location => $SERVED,
    http => 'platform_gateway_issuer http://i;');
like $own, qr/\[warn\] .*$UNVERIFIED/, 'warned: https, not verified, without a block';

# A token has to fit into a header line, and that into one buffer; FastCGI and uwsgi
# carry all headers in one record: [lines of http{}, what is said, location, server].

my $SMALL = qr{"/here" accepts tokens of 16384 bytes .*_buffers 2 24k" in};
my $LARGE = qr/"\/here" uses "\w+_pass".* say "large_cl\w+ 2 24k" in its/;
my $PROTO = 'fastcgi_pass 127.0.0.1:1;';
rule("buffers $_->[0]; $_->[2]", $_->[1], location => $_->[2], server => $_->[3],
    buffers => $_->[0]) for
    map({ [ $_, $SMALL, $SERVED ] } '4 8k', '4 16407'),
    map({ [ $_, undef, $SERVED ] } '4 16408', '1 24k'),
    [ '4 32k', $SMALL, $BRANCH . $PASS, "large_client_header_buffers 4 8k; $ON" ],
    [ '4 8k', undef, "$SERVED platform_gateway_token_max_size 8000;" ],
    [ '4 8k', qr/tokens of 40960 bytes .*_buffers 2 60k"/,
        "$SERVED platform_gateway_token_max_size 40k;" ],
    [ '4 1k', undef, $OPEN . $PASS ],
    map({ [ $_, $LARGE, $OPEN . $PROTO ] } '4 32k', '2 28k', '2 24k; client_header_buffer_size 9k'),
    map({ [ $_, undef, $GUARDED . $PROTO ] } '2 24k', '2 24k; client_header_buffer_size 8k'),
    [ '2 24k', $LARGE, $PUBLIC . $PROTO, "large_client_header_buffers 4 32k; $ON" ],
    [ '4 32k', $LARGE, $OPEN . $PROTO =~ s/fastcgi/uwsgi/r ],
    map { [ '4 32k', undef, $_ ] } $PROTO, $OPEN . $PASS, $OPEN . $PROTO =~ s/fastcgi/scgi/r;

# Nobody gets what another was sent, by a name of theirs or not, nor goes without
# trusted headers.

for my $proto (qw(proxy fastcgi scgi uwsgi)) {
    my ($at, $key) = $proto eq 'proxy' ? ('http://', '') : ('', "${proto}_cache_key \$uri;");
    my ($pass, $anywhere) = map {"${proto}_pass $at$_;"} '127.0.0.1:1', '$arg_to';
    my $cached = "${proto}_cache one; $key";
    my $zone = "${proto}_cache_path %%DIR%%/cache keys_zone=one:1m;";
    my $off = "${proto}_pass_request_headers off;";
    my $KEEPS = qr/guarded, but "${proto}_cache" or .*_allow_cache on"/;
    my $WITHOUT = qr/"${proto}_pass_request_headers off" keeps the trusted headers/;
    my $SHARED = qr/"${proto}_store" names a file by .*: use "${proto}_cache"/;
    my $store = "${proto}_store /tmp/\$platform_account_id\$uri;";
    my $others = "$GUARDED scgi_pass 127.0.0.1:1;";

    # [name, what is said, location, http{}]
    rule("$proto $_->[0]", $_->[1], location => $_->[2], http => $_->[3] // $zone) for
        [ 'cache, guarded', $KEEPS, $GUARDED . $pass . $cached ],
        [ 'store, guarded', $KEEPS, $GUARDED . $pass . "${proto}_store on;" ],
        [ 'without headers, guarded', $WITHOUT, $GUARDED . $pass . $off ],
        map({ [ "store by account: $_", $SHARED, $_ . $pass . $store ],
            [ "store by account inside if: $_", $SHARED,
                "$_ grpc_pass grpc://127.0.0.1:1; $IF { $anywhere } $store" ],
            [ "store by a claim: $_", $SHARED, $_ . $pass . $store =~ s/account_id/claim_x/r ],
            [ "store by another: $_", undef, $_ . $pass . $store =~ s/account/route/r ] }
            $OPEN, $proto eq 'proxy' ? ($GUARDED . 'platform_gateway_allow_cache on;', '') : ()),
        $proto =~ /scgi|uwsgi/ ? () : (    # how they are found is the same
        [ 'cache of http{}', $KEEPS, $GUARDED . $pass, $zone . $cached ],
        [ 'cache of a variable zone', $KEEPS, $GUARDED . $pass . $cached =~ s/one/\$arg_z/r ],
        [ 'passed by variable', $KEEPS, $GUARDED . $cached . $anywhere ],
        [ 'cache inside if', $KEEPS, "$GUARDED $IF { $pass } $cached" ],
        map({ [ "cache in $_ of a location of scgi", $KEEPS, "$others $cached $_ { $anywhere }" ] }
            $IF, $proto eq 'proxy' ? 'limit_except GET' : ()),
        [ 'cache that is meant', undef, $GUARDED . $pass . $cached
            . 'platform_gateway_allow_cache on;' ],
        [ 'cache off again', undef, $GUARDED . $pass . "${proto}_cache off;", $zone . $cached ],
        map({ [ 'cache, not guarded', undef, $_ . $pass . $cached ] } $OPEN, ''),
        map({ [ "cache for others: $_", undef, $_, $zone . $cached ] }
            "$GUARDED grpc_pass grpc://127.0.0.1:1;", "$others $IF { set \$x 1; }",
            "$others limit_except GET { deny all; }", "$others $IF { scgi_pass 127.0.0.1:2; }"),
        [ 'without headers by http{}, guarded', $WITHOUT, $GUARDED . $pass, $off ],
        [ 'with headers again', undef, $GUARDED . $pass . $off =~ s/off/on/r, $off ],
        [ 'without headers, public', undef, $OPEN . $pass . $off ]);
}

# The subject of a token, where it cannot be known.

my $EARLY = qr/the server reads \$platform_account_id.* before it is known/;
my @early = (map({"set \$x \$platform_${_}_id;"} qw(account session workspace)),
    "$IF { set \$x a\$platform_account_id; }", 'set $x $platform_claim_y;',
    'if ($platform_account_id) { set $x 1; }',
    'rewrite ^/x /of/$platform_account_id;');
rule("of a server: $_", $EARLY, server => $_, location => $SERVED) for @early;
rule("of a location: $_", undef, "$GUARDED $_ $PASS") for @early;
rule('another variable', undef, server => 'set $x $platform_request_id;', location => $SERVED);
rule('a server without the gateway', undef, server => $early[0], location => $PASS);

# An explanation that anybody could ask for; a server to explain, among others.

my $EXPLAIN = 'platform_gateway_explain;';
my $ANYBODY = qr/location "\/here" .* open to anybody: say "[^"]+"/;
rule("explain: $_", undef, "$_ $EXPLAIN")
    for 'allow 127.0.0.1; deny all;', 'internal;', 'deny all;', $GUARDED,
    'allow unix:; allow ::1; deny all;', 'deny 0.0.0.0/0; deny ::/0; deny unix:;';
rule("explain: $_", $ANYBODY, "$_ $EXPLAIN")
    for '', 'allow 127.0.0.1;', 'deny 10.0.0.0/8; allow all;', 'deny 0.0.0.0/0;',
    'deny all; allow 10.0.0.1;', 'allow all; deny all;',
    'allow 127.0.0.1; allow 0.0.0.0/0; deny all;', 'allow unix:; allow ::/0; deny all;',
    'allow unix:; deny 0.0.0.0/0; deny ::/0;', 'deny 10.0.0.0/8; deny ::/0; deny unix:;', $OPEN,
    'deny all; limit_except GET { allow all; }', "platform_gateway off; $BRANCH";
rule("explain: in shadow mode of the $_", $ANYBODY,
    $_ => 'platform_gateway_shadow on;', location => $GUARDED . $EXPLAIN) for 'http', 'server';
rule('explain: by its server', undef, server => 'allow ::1; deny all;', location => $EXPLAIN);
rule('explain: no level', qr/no "$ACCESS"/, "$ON deny all; $EXPLAIN");

my @servers = ('server_name a.test b.test b.test;', 'server_name c.test;');
my $NOT_ONE = qr/"\/here" .* not exactly one server has that/;
rule("explain $_->[0]", $_->[1], location => "deny all; platform_gateway_explain $_->[0];",
    http => join '', map {"server { listen 127.0.0.1:8; $_ }\n"} @servers, $_->[2] // ())
    for [ 'a.test' ], [ 'B.test' ], [ 'c.test' ], map({ [ $_, $NOT_ONE ] } 'd.test', '.test', 'a'),
    [ 'c.test', $NOT_ONE, 'server_name c.test;' ];

# Forward-auth tells whoever may ask what the gateway would do, and with whom.

my $FORWARD = 'platform_gateway_forward_auth forwarded;';
rule("forward-auth: $_", undef, "$_ $FORWARD")
    for "$OPEN deny all;", "$OPEN internal;", "$OPEN allow ::1; deny all;";
rule("forward-auth: $_", qr/"\/here" .*forward_auth": say "platform_gateway on" .*deny all/,
    "$_ $FORWARD") for 'deny all;', $OPEN, "$OPEN allow 10.0.0.0/8;", $GUARDED,
    "$OPEN deny all; limit_except GET { allow all; }";
rule("forward-auth of $_->[0]", $_->[1], location => "$OPEN deny all; "
    . "platform_gateway_forward_auth original $_->[0];", http => join '',
    map {"server { listen 127.0.0.1:8; $_ }\n"} @servers) for [ 'a.test' ], [ 'd.test', $NOT_ONE ];
rule('forward-auth by headers of no mode', qr/accepts "forwarded", "original" and "request"/,
    "$OPEN deny all; platform_gateway_forward_auth both;");
rule('forward-auth beside another handler', qr/conflicts with another content handler/,
    "$OPEN deny all; empty_gif; $FORWARD");

# A path of the client may lead anywhere in the server that Envoy asks, and each 200 lets pass.

my $ITSELF = "$OPEN deny all; platform_gateway_forward_auth request";
my $REST = "location / { $OPEN platform_gateway_route_not_found; }";
my $MORE = qr/"\/here" has "platform_gateway_forward_auth request", and its server has more/;
rule("forward-auth of itself: $_->[0]", $_->[1], location => "$ITSELF a.test; " . ($_->[2] // ''),
    server => $_->[3] // $REST, http => "server { listen 127.0.0.1:8; $servers[0] } " . ($_->[4] // ''))
    for [ 'alone' ], [ 'nothing for other paths', $MORE, '', '' ],
    [ 'not for all of them', $MORE, '', $REST =~ s{ / }{ = / }r ],
    [ 'another location', $MORE, '', "$REST location /more { $OPEN empty_gif; }" ],
    [ 'static files', $MORE, '', 'location / { root /tmp; }' ],
    [ 'one by a regex', $MORE, '', "$REST location ~ x { $OPEN empty_gif; }" ],
    [ 'internal and named ones', undef, '', "$REST location /in { internal; } location \@n { }" ],
    map({ [ $_, $MORE, $_ ], [ "$_, in the server", $MORE, '', "$REST $_" ] } 'return 200;',
        'rewrite ^ http://a redirect;', 'error_page 404 =200 /x;', "$IF { set \$x 1; }"),
    [ 'a location inside', $MORE, "location /here/in { $OPEN empty_gif; }" ],
    [ 'limit_except', $MORE, 'limit_except GET { deny all; }' ],
    [ 'error_page for all', $MORE, '', $REST, 'error_page 400 =200 /x;' ];
rule("forward-auth of itself, $_->[0]", $_->[1], location => $OPEN, http =>
    "server { listen 127.0.0.1:8; server_name a.test; } server { listen 127.0.0.1:9; server_name b.test;"
    . " platform_gateway on; $_->[2] $_->[3] }")
    for map({ [ $_->[0], $_->[1], "location $_->[2] { $ITSELF a.test; }", $REST ] }
        [ 'exact', qr/is for a location of a prefix/, '= /x' ], [ 'by a regex', qr/of a prefix/, '~ /x' ],
        [ 'named', qr/of a prefix/, '@x' ], [ 'without a slash', qr/of a prefix/, 'x' ],
        [ 'before regexes', undef, '^~ /x' ]),
    [ 'nested', qr/"\/x\/y" .* has more/, "location /x { $PUBLIC location /x/y { $ITSELF a.test; } }",
        $REST ],
    [ 'at the root', undef, "location / { $ITSELF a.test; }", '' ],
    map({ [ $_->[0], qr/name the server that has the locations/, "location / { $ITSELF$_->[1]; }", '' ] }
        [ 'without a name', '' ], [ 'by its own', ' b.test' ]);
rule('forward-auth of itself: open', qr/"\/here" .*forward_auth": say/, location =>
    "$OPEN platform_gateway_forward_auth request a.test;", server => $REST,
    http => "server { listen 127.0.0.1:8; $servers[0] }");

# What answers before the guard is asked.

rule("guarded: $_", qr/answers before the guard/, "$GUARDED $_")
    for 'return 200 "secret";', 'return 302 /elsewhere;', 'return 404;',
    'return http://elsewhere.test/;', 'rewrite ^ /elsewhere redirect;',
    'rewrite ^/(a)$ /b/$1 permanent;', 'rewrite ^ http://elsewhere.test/;',
    'set $x 1; rewrite ^/a /b break; rewrite ^ $scheme://elsewhere.test/;',
    'if ($arg_x = 1) { return 200 "secret"; }', "$IF { rewrite ^ /elsewhere redirect; }",
    'set $a "b$arg_c"; if (!-f $request_filename) { return 200; }';
rule("guarded: $_", undef, "$GUARDED $_")
    for 'rewrite ^ /elsewhere last;', 'rewrite ^ /elsewhere break;',
    'rewrite ^ /elsewhere; set $a return; break;', "$IF { rewrite ^ /elsewhere last; }",
    'set $a "x$arg_b$arg_c";',
    map {"platform_gateway_allow_return on; $_"} 'return 200;', 'rewrite ^ /elsewhere redirect;';
rule("return: $_", undef, "$_ return 200;") for $OPEN, '';
rule('server: return', undef, server => $GUARDED . 'return 200;', location => $PASS);

# Names and values: [block, the directive, what is said of it; nothing: accepted].
# check_cors has all origins.

my ($CLAIM, $STRIP) = map {"platform_gateway_${_}_header"} qw(claim strip);
my $CACHE = 'platform_gateway_token_cache';
my ($NAME, $NGINX) = (qr/header name/, qr/has a meaning for nginx itself/);
my $CONTROL = qr/has a control character in its id/;
rule($_->[1] =~ s/[^ -~]/?/gr, $_->[2], $_->[0] eq 'location' ? () : $_->[0], $_->[1]) for
    [ location => 'platform_gateway_cors_origins *;',
        qr/invalid origin "\*" in .*each origin must be named/ ],
    [ location => 'platform_gateway_cors_origins https://*.example.com off.test://a;'
        . 'platform_gateway_cors_origins http://[::1]:3000;' ],
    map({ [ location => "platform_gateway_cors_${_}headers X-*;", qr/there are no patterns/ ] }
        '', 'expose_'),
    [ location => 'platform_gateway_cors_expose_headers *;', qr/there are no patterns/ ],
    map({ [ location => "platform_gateway_cors_origins $_;", qr/has origins beside "off"/ ] }
        'off https://a.example', 'https://a.example; platform_gateway_cors_origins off',
        'off; platform_gateway_cors_origins https://a.example'),
    [ location => 'platform_gateway_trusted platform; platform_gateway_trusted platform;',
        qr/"platform_gateway_trusted" directive is duplicate/ ],

    map({ [ http => qq($STRIP "$_";), $NAME ] } '', 'X Y', 'X_Y', 'X.Y', 'X:Y', 'x' x 64),
    map({ [ server => "$STRIP $_;", $NGINX ], [ location => "$CLAIM sub $_;", $NGINX ] }
        qw(Host connection Content-Length Transfer-Encoding authorization Cookie
        X-Forwarded-For Expect Upgrade)),
    map({ [ location => "$CLAIM sub $_;", qr/is the gateway's own/ ] }
        qw(X-Request-Id x-correlation-id)),
    [ location => "$CLAIM . X-A;", qr/claim "\." has an empty name/ ],
    map({ [ location => "$ON$CLAIM $_ X-A;" ] } 'realm_access', 'https://ns.example/roles',
        'ns.example/roles', 'urn:ns.example:roles', 'resource_access.app.roles'),
    [ location => "$CLAIM sub X-A; $CLAIM iss x-a;", qr/has a header that another claim has/ ],
    [ location => "$ON$CLAIM sub X-A; $CLAIM sub X-C;" ],
    [ http => "$STRIP X-A X1;" ], [ server => "$STRIP X-B;" ],
    [ location => "$STRIP X-A;", qr/is not allowed here/ ],

    map({ [ http => "$CACHE $_->[0];", $_->[1] ] } [ 'on', qr/invalid parameter "on"/ ],
        [ 'size=1m', qr/needs "entries=N"/ ], [ 'entries=0', qr/invalid parameter/ ],
        [ 'entries=10000001', qr/of 1 to 10000000/ ], [ "off; $CACHE off", qr/is duplicate/ ],
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
        qr/conflicts with another content handler/ ];

rule(@good . ' locations', undef, server => join '',
    map {"location /good$_ { $good[$_] }\n"} 0 .. $#good);

$t->allow(qr/\[emerg\]/);
$t->done;

# What nginx -t refuses, with what is wrong and where; beside each the
# configuration that is right.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;

my $t = Platform::Test->new;

# nginx -t with these lines in http{}, server{} and a location of their own.
sub check {
    my (%in) = @_;

    my $issuer = $in{no_issuer} ? '' : 'platform_gateway_issuer http://i;';
    my $keys = $in{no_keys} ? '' : 'platform_gateway_key_location /keys;';
    return $t->nginx_test(<<"CONF");
%%GLOBALS%%
events { }
http {
    %%GLOBALS_HTTP%%
    platform_gateway_zone gateway:1m;
    $issuer
    @{[ $in{http} // '' ]}
    server {
        listen 127.0.0.1:%%PORT_gateway%%;
        $keys
        location = /keys {
            internal;
            platform_gateway off;
            subrequest_output_buffer_size 128k;
            proxy_pass http://127.0.0.1:1;
        }
        @{[ $in{server} // '' ]}
        location /here {
            @{[ $in{location} // '' ]}
        }
    }
}
CONF
}

my $ON = "platform_gateway on;\n";
my $PASS = "proxy_pass http://127.0.0.1:1;\n";
my $BRANCH = "platform_gateway_access branch;\n";
my $PUBLIC = "platform_gateway_access public;\n";

sub accepted {
    my ($name, %in) = @_;

    my ($ok, $said) = check(%in);
    ok $ok, "accepted: $name" or diag $said;
    return;
}

sub refused {
    my ($name, $pattern, %in) = @_;

    my ($ok, $said) = check(%in);
    ok !$ok, "refused: $name";
    like $said, $pattern, "$name: says why";
    like $said, qr/check\.conf:\d+/, "$name: and where";
    unlike $said, qr/\[(?:alert|crit)\]/, "$name: calmly";
    return;
}

# Deny by default.

refused('a content handler and no level',
    qr{location "/here" has a content handler and no "platform_gateway_access"},
    location => $ON . $PASS);
accepted('with a level', location => $ON . $PUBLIC . $PASS);
accepted('with an inherited level', server => $ON . $PUBLIC,
    location => $PASS);
accepted('a level of http{}', http => $ON . $PUBLIC, location => $PASS);
accepted('no content handler: refused at run time', location => $ON);
accepted('the gateway off', location => $PASS);
refused('a handler of our own', qr/no "platform_gateway_access"/,
    location => $ON . 'platform_gateway_health;');
refused('a handler in a nested location', qr{location "/here/in"},
    location => $ON . "location /here/in { $PASS }");
refused('a handler inside if', qr/no "platform_gateway_access"/,
    location => $ON . "if (\$arg_x) { $PASS }");

# Levels.

refused('an unknown level', qr/invalid value "admin"/,
    location => "$ON platform_gateway_access admin;");
refused('public and guarded', qr/must stand alone/,
    location => "$ON platform_gateway_access public branch;");
accepted('several guarded levels',
    location => "$ON platform_gateway_access account branch system; $PASS");
refused('a level inside if', qr/is not allowed here/,
    location => "$ON if (\$arg_x) { $PUBLIC }");
refused('switching off inside if', qr/is not allowed here/,
    location => "$ON $PUBLIC if (\$arg_x) { platform_gateway off; }");
refused('a level inside limit_except', qr/is not allowed here/,
    location => "$ON $PUBLIC limit_except GET { $PUBLIC }");

# Guarded, and nothing to guard with.

refused('no issuer', qr/has no "platform_gateway_issuer"/, no_issuer => 1,
    location => $ON . $BRANCH . $PASS);
accepted('no issuer and nothing guarded', no_issuer => 1, no_keys => 1,
    location => $ON . $PUBLIC . $PASS);
my ($ok, $said) = check(no_keys => 1, location => $ON . $BRANCH . $PASS);
ok !$ok, 'refused: no source of keys';
like $said, qr/platform_gateway_key_location/, 'no source of keys: says why';

# What answers before the guard is asked.

my $ANSWERS = qr/answers before the guard/;
refused("guarded: $_", $ANSWERS, location => "$ON $BRANCH $_")
    for 'return 200 "secret";', 'return 302 /elsewhere;', 'return 404;',
    'return http://elsewhere.test/;', 'rewrite ^ /elsewhere redirect;',
    'rewrite ^/(a)$ /b/$1 permanent;', 'rewrite ^ http://elsewhere.test/;',
    'set $x 1; rewrite ^/a /b break; rewrite ^ $scheme://elsewhere.test/;',
    'if ($arg_x = 1) { return 200 "secret"; }',
    'if ($arg_x) { rewrite ^ /elsewhere redirect; }',
    'set $a "b$arg_c"; if (!-f $request_filename) { return 200; }';
accepted("guarded: $_", location => "$ON $BRANCH $_")
    for 'rewrite ^ /elsewhere last;', 'rewrite ^ /elsewhere break;',
    'rewrite ^ /elsewhere; set $a return; break;',
    'if ($arg_x) { rewrite ^ /elsewhere last; }', 'set $a "x$arg_b$arg_c";';
accepted("meant: $_", location => "$ON $BRANCH $_"
    . 'platform_gateway_allow_return on;')
    for 'return 200;', 'rewrite ^ /elsewhere redirect;';
accepted('public: return', location => "$ON $PUBLIC return 200;");
accepted('off: return', location => 'return 200;');
accepted('server: return', server => $ON . $BRANCH . 'return 200;',
    location => $PASS);

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
        location => "platform_gateway_claim_header sub $name;");
}
for my $name (qw(X-Request-Id x-correlation-id)) {
    refused("claim_header $name", qr/is the gateway's own/,
        location => "platform_gateway_claim_header sub $name;");
}
refused('one header for two claims', qr/duplicate header "x-a"/,
    location => 'platform_gateway_claim_header sub X-A;'
        . 'platform_gateway_claim_header iss x-a;');
accepted('names that are fine', http => 'platform_gateway_strip_header X-A X1;',
    server => 'platform_gateway_strip_header X-B;',
    location => 'platform_gateway_claim_header sub X-A;'
        . 'platform_gateway_claim_header sub X-C;');
refused('strip_header in a location', qr/is not allowed here/,
    location => 'platform_gateway_strip_header X-A;');

# Values.

refused('a leeway over 300 s', qr/is more than 300 seconds/,
    http => 'platform_gateway_leeway 301;');
accepted('a leeway of 5 m', http => 'platform_gateway_leeway 5m;');
refused('an empty issuer', qr/has an empty value/,
    http => 'platform_gateway_issuer "";');
refused('an empty audience', qr/has an empty value/,
    http => 'platform_gateway_audience a "";');
refused("a realm with $_->[0]", qr/must be printable ASCII/,
    http => "platform_gateway_realm $_->[1];")
    for [ 'a quote', q('a"b') ], [ 'a backslash', q("a\\\\\\\\b") ],
    [ 'a line end', q("a\nb") ], [ 'another script', q("é") ];
accepted('a realm of two words', http => 'platform_gateway_realm "a b";');
refused('an unknown method', qr/invalid value "BREW"/,
    location => 'platform_gateway_methods GET BREW;');
refused('methods outside of a location', qr/is not allowed here/,
    server => 'platform_gateway_methods GET;');
accepted('methods', location => 'platform_gateway_methods GET POST;');
refused('a route twice', qr/is duplicate/,
    location => 'platform_gateway_route a; platform_gateway_route b;');
refused('a route without an id', qr/has an empty id/,
    location => 'platform_gateway_route "";');
accepted('a route', location => 'platform_gateway_route a service;');
refused('two content handlers', qr/conflicts with another content handler/,
    location => $PUBLIC . $PASS . 'platform_gateway_ready;');
refused('a token limit that is no size', qr/invalid value/,
    http => 'platform_gateway_token_max_size many;');

$t->done;

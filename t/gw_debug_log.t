# error_log at the level debug says of each decision what it was, and never
# holds a token in a line of the gateway's.

use Platform::Test;

my $t = Platform::Test->new;
plan skip_all => 'nginx without --with-debug'
    if qx{@{[ Platform::Test::Env::nginx() ]} -V 2>&1} !~ /--with-debug/;

my $key = jwt_key('a');
$t->issuer(body => jwks($key));
$t->echo_upstream;
my ($port, $log) = ($t->port('gateway'), $t->dir . '/debug.log');

$t->gateway_conf(<<"SERVER", http => 'platform_gateway_issuer http://issuer;');
error_log $log debug;
pass /: platform_gateway_access public;
pass /branch: platform_gateway_access branch;
pass /shadow: platform_gateway_access branch; platform_gateway_shadow on;
SERVER
$t->start_nginx;

my $token = jwt_token(branch => $key, iss => 'http://issuer');
my $forged = jwt_token(branch => jwt_key('b')->as('a'), iss => 'http://issuer');
ok eventually(sub { http_get($port, '/branch', token => $token)->status == 200 }), 'keys are there';

# What a request adds to the log.
sub said (@request) {
    my $before = length $t->read_file('debug.log');
    http_get($port, @request);
    return join "\n", substr($t->read_file('debug.log'), $before) =~ /http platform gateway: (.*)/g;
}
is said('/'), 'allow public', 'public';
is said('/branch', token => $token), "token ok, key set 1, cached\nallow verified", 'verified';
is said('/branch'), 'deny token_missing: a bearer token is required', 'refused without a token';
is said('/branch', token => $forged),
    "token token_signature, key set 1\n"
    . 'deny token_signature: the token signature is not valid', 'forged';
is said('/shadow'), 'shadow token_missing', 'shadow';

for my $bytes (map { (split /\./)[1, 2] } $token, $forged) {
    is_deeply [ grep {/gateway:.*\Q$bytes\E/}
        split /\n/, $t->read_file('debug.log') ], [], 'no token';
}

$t->done;

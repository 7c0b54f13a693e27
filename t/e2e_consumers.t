# Services that do not use the gateway: libraries that many of them have find the keys
# by the issuer, and verify what a login gets, of each algorithm, and as RFC 9068 has it
# where PLATFORM_JWT_TYP says so.  None that checks the audience takes a refresh token
# for an access token.

use MIME::Base64 qw(decode_base64);
use Platform::Test;
use Platform::Test::Env;

my $node = Platform::Test::Env::node();
my ($apache) = grep { -x } map { Platform::Test::Env::find($_) // () } qw(apache2 httpd);
my $modules = '/usr/lib/apache2/modules';
my $go = Platform::Test::Env::find('go');
my $gopath = '/usr/share/gocode';
Platform::Test::Env::needs('the libraries of Debian that t/DEPENDENCIES lists')
    if !$apache || !-e "$modules/mod_auth_openidc.so" || !$go
    || !-e "$gopath/src/github.com/coreos/go-oidc" || !eval { require Crypt::JWT }
    || system(q{/usr/bin/python3 -c 'import authlib.jose, jose.jwt, jwt' 2>&1 >/dev/null}) != 0;

my $t = Platform::Test->new(timeout => 900);
my $issuer = 'http://127.0.0.1:' . $t->port('identity');
my $audience = 'https://api.example.test';
my %env = (PLATFORM_JWT_ISSUER => $issuer, PLATFORM_JWT_AUDIENCE => $audience,
    PLATFORM_AUTH_COOKIE_SECURE => 'false');
my $identity = $t->identity(%env);
my $s = $t->full_stack(identity => $identity, env => \%env, key_age => '1s');
# The gateway goes on asking while identity is restarted.
$t->allow(qr/connect\(\) to unix:|key set not refreshed: status 502/);
my ($dir, $root) = ($t->dir, $t->root);

# A program prints a line for each library and token, and as the last one that it is done.
sub asked ($what, $count, $program) {
    my @lines = split /^/, qx{$program 2>&1};
    my @told = map { /^((?:not )?ok) (.*)/ ? [ $1, $2 ] : () } @lines;
    is($_->[0], 'ok', "$what: $_->[1]") or diag @lines for @told;
    is_deeply [ scalar @told, $lines[-1] ], [ $count, "done\n" ], "$what: all have been asked"
        or diag @lines;
}

my ($token, $changed, $refresh);
for my $case ([ 'at+jwt', 'EdDSA', 25 ], [ 'at+jwt', 'ES256', 36 ], [ 'JWT', 'RS256', 32 ]) {
    my ($typ, $alg, $count) = @$case;
    $identity->stop;
    my %key = jwt_key("consumers-$alg", alg => $alg)->env;
    @{ $identity->{env} }{ keys %key } = values %key;
    $identity->{env}{PLATFORM_JWT_TYP} = $typ;
    $identity->start;

    my $login = $s->login('one')->json;
    ($token, $refresh) = @$login{qw(accessToken refreshToken)};
    $changed = jwt_tamper($token, 2, 100);
    is_deeply [ map { (jwt_decode($_))[0]{typ} } $token, $refresh ], [ $typ, 'refresh+jwt' ],
        "$typ of $alg: the header's typ";
    ok eventually(sub { $s->current_context($token)->status == 200 }), 'the gateway takes it';
    asked($alg, $count, "$node $root/t/node/consumers.mjs $issuer $audience"
        . " $token $changed $refresh $typ");
}

# As docs/http-api.md has it.
my ($page) = $t->read_file("$root/docs/http-api.md") =~ /^```js\n(.*?)^```/ms;
$page =~ s/'https:\/\/api\.example\.com'/'$issuer'/;
$page =~ s/'example-api'/'$audience'/;
$t->write_file('page.mjs',
    "const token = process.argv[1];\n${page}console.log(payload.token_type);\n");

sub page_says ($token) {
    return scalar qx{cd $root/t/node && $node --input-type=module -e "\$(cat $dir/page.mjs)" $token 2>&1};
}

is page_says($token), "workspace\n", 'docs/http-api.md: a token';
like page_says($refresh), qr/"aud" claim/, 'docs/http-api.md: the refresh token';

# Those of Debian: Python's, Go's, Perl's, and a module of Apache's.

my $with = "$issuer $audience $token $changed $refresh";
asked('Python', 11, "/usr/bin/python3 $root/t/consumers/debian.py $with");
my $cache = Platform::Test::Env::cache_dir() . '/go';    # of what is not ours
is system("cd $dir && HOME=$dir GOCACHE=$cache GOPATH=$gopath GO111MODULE=off GOFLAGS=-p=2"
    . " $go build -o go_oidc $root/t/consumers/go_oidc.go"), 0, 'go-oidc compiles';
asked('Go', 4, "$dir/go_oidc $with");

my $keys = http_get($t->port('identity'), '/.well-known/jwks.json')->json;

sub crypt_jwt ($token, %more) {
    return eval { Crypt::JWT::decode_jwt(token => $token, kid_keys => $keys,
        verify_iss => $issuer, accepted_alg => 'RS256', %more)->{token_type} } // $@;
}

is crypt_jwt($token, verify_aud => $audience), 'workspace', 'Crypt::JWT: a token';
like crypt_jwt($changed, verify_aud => $audience), qr/signature/, 'Crypt::JWT: one bit changed';
like crypt_jwt($refresh, verify_aud => $audience), qr/aud/, 'Crypt::JWT: the refresh token';
is crypt_jwt($refresh), 'refresh', 'Crypt::JWT, without an audience: the refresh token passes';

# OIDCOAuthVerifyJwksUri takes https alone.
my %key = jwt_key('consumers-RS256')->env;
my $kid = $key{PLATFORM_JWT_KEY_ID};
$t->write_file('public.pem', decode_base64($key{PLATFORM_JWT_PUBLIC_KEY_BASE64}));
my $user = Platform::Test::Env::unprivileged();
my $run_as = defined $user ? "User $user" : '';
my $port = $t->port('apache');
$t->write_file('www/any/index.html', 'any');
$t->write_file('www/api/index.html', 'api');
my $loads = join "\n", map {"LoadModule ${_}_module $modules/mod_$_.so"}
    grep { -e "$modules/mod_$_.so" } qw(mpm_event authn_core authz_core authz_user dir
        auth_openidc);
$t->write_file('apache.conf', <<"CONF");
ServerRoot $dir
ServerName 127.0.0.1
PidFile $dir/apache.pid
Listen 127.0.0.1:$port
ErrorLog $dir/apache.error.log
DocumentRoot $dir/www
$run_as
$loads
DirectoryIndex index.html
OIDCOAuthVerifyCertFiles $kid#$dir/public.pem
<Location />
    AuthType oauth20
    Require claim iss:$issuer
</Location>
<Location /api>
    <RequireAll>
        Require claim iss:$issuer
        Require claim aud:$audience
    </RequireAll>
</Location>
CONF
$t->process(apache => cmd => [ $apache, '-X', '-f', "$dir/apache.conf" ]);
my $get = sub ($path, $token) { http_get($port, $path, token => $token)->status };
ok eventually(sub { eval { $get->('/api/', $token) == 200 } }), 'mod_auth_openidc: a token'
    or diag map { $t->read_file($_) // '' } 'apache.log', 'apache.error.log';
is $get->('/api/', $changed), 401, 'mod_auth_openidc: one bit changed';
is $get->('/api/', $refresh), 401, 'mod_auth_openidc: the refresh token';
is $get->('/any/', $refresh), 200, 'without an audience: the refresh token passes';

$t->done;

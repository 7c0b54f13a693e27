# Services that do not use the gateway: libraries that many of them have find the keys
# by the issuer alone and verify what a login gets, of each algorithm, and as RFC 9068
# has it where PLATFORM_JWT_TYP says so.

use Platform::Test;
use Platform::Test::Env;

my $node = Platform::Test::Env::node();
my $t = Platform::Test->new;
my $issuer = 'http://127.0.0.1:' . $t->port('identity');
my $audience = 'https://api.example.test';
my %env = (PLATFORM_JWT_ISSUER => $issuer, PLATFORM_JWT_AUDIENCE => $audience,
    PLATFORM_AUTH_COOKIE_SECURE => 'false');
my $identity = $t->identity(%env);
my $s = $t->full_stack(identity => $identity, env => \%env, key_age => '1s');
# The gateway goes on asking while identity is restarted.
$t->allow(qr/connect\(\) to unix:|key set not refreshed: status 502/);

for my $case ([ 'JWT', 'RS256', 12 ], [ 'at+jwt', 'ES256', 14 ], [ 'at+jwt', 'EdDSA', 14 ]) {
    my ($typ, $alg, $count) = @$case;
    $identity->stop;
    my %key = jwt_key("consumers-$alg", alg => $alg)->env;
    @{ $identity->{env} }{ keys %key } = values %key;
    $identity->{env}{PLATFORM_JWT_TYP} = $typ;
    $identity->start;

    my $login = $s->login('one')->json;
    my $token = $login->{accessToken};
    is_deeply [ map { (jwt_decode($login->{$_}))[0]{typ} } qw(accessToken refreshToken) ],
        [ $typ, 'refresh+jwt' ], "$typ of $alg: the header's typ";
    ok eventually(sub { $s->current_context($token)->status == 200 }), 'the gateway takes it';
    my @tokens = map {"'$_'"} $token, jwt_tamper($token, 2, 100);
    my @lines = split /^/,
        qx{$node @{[ $t->root ]}/t/node/consumers.mjs $issuer $audience @tokens $typ 2>&1};
    my @told = map { /^((?:not )?ok) (.*)/ ? [ $1, $2 ] : () } @lines;
    is($_->[0], "ok", "$alg: $_->[1]") or diag @lines for @told;
    is_deeply [ scalar @told, $lines[-1] ], [ $count, "done\n" ], 'all have been asked'
        or diag @lines;
}

$t->done;

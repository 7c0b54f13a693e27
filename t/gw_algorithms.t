# The key chooses the algorithm, and a token's alg has to agree: each alg for each
# kind of key, with a signature that is good for the alg where the key can make one.

use Platform::Test;

my @ALGS = qw(RS256 RS384 RS512 PS256 ES256 EdDSA Ed25519);
my ($rsa, $ec, $ed) = map { jwt_key('algs', alg => $_) } qw(RS256 ES256 EdDSA);
my %type = ((map { $_ => $rsa } @ALGS[ 0 .. 3 ]), ES256 => $ec, EdDSA => $ed, Ed25519 => $ed);

# The entries of the key set, by kid: those that name an algorithm are called
# like it, and what the others are for is here.
my %default = (rsa => 'RS256', ec => 'ES256', okp => 'EdDSA');
my %for = (%default, map { $_ => $_ } @ALGS);

my $t = Platform::Test->new;
$t->issuer(body => jwks(
    (map { $type{$_}->jwk(kid => $_, alg => $_) } @ALGS),
    (map { $type{ $default{$_} }->jwk(kid => $_, alg => undef) } sort keys %default)));
my $upstream = $t->echo_upstream;
$t->gateway_conf(<<'SERVER');
platform_gateway_access branch;
location / { %%TO_upstream%% }
SERVER
my $port = $t->start_gateway;

# A token with that alg, for the key of that id, signed by it as alg says; or by
# a key that is given.
sub token ($alg, $kid, $key = $type{ $for{$kid} }) {
    my $can = $type{$alg} && $type{$alg}->pk == $key->pk;
    return jwt_sign(header => { alg => $alg }, payload => jwt_claims('branch'),
        key => $key->as($kid, $can && $alg !~ /^Ed/ ? $alg : $key->alg));
}

# PASS, or why it does not.
sub outcome ($token) {
    my $res = http_get($port, '/', token => $token);
    return $res->status == 200 ? 'PASS' : $t->logged($res)->{reason};
}

for my $kid (sort keys %for) {
    my @all = (@ALGS, qw(ES384 ES256K PS512 Ed448 HS256 none));
    is_deeply { map { $_ => outcome(token($_, $kid)) } @all },
        { map { $_ => $_ eq $for{$kid} ? 'PASS' : 'token_alg' } @all },
        "a key for $for{$kid}: $kid";

    is outcome(jwt_sign(header => { kid => $kid }, secret => $_->[1], payload => jwt_claims('branch'))),
        'token_alg', "$kid: HS256 with $_->[0]" for [ 'an empty secret', '' ], [ 'zeros', "\0" x 32 ];

    my $other = jwt_key('other', alg => $type{ $for{$kid} }->alg);
    my $good = token($for{$kid}, $kid);
    is_deeply [ map { outcome($_) } token($for{$kid}, $kid, $other),
        jwt_tamper($good, 2, -1), $good, $good ],
        [ 'token_signature', 'token_signature', 'PASS', 'PASS' ],
        "$kid: another's signature, its last bit, as it was, and from the cache";
}
is $upstream->count, 3 * keys %for, 'the upstream saw those alone that pass';

$t->done;

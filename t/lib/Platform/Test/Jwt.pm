package Platform::Test::Jwt;

# Makes tokens: real ones of each kind, and every wrong one a test needs.
# Keys are made once and kept in the build directory.

use v5.36;

use Crypt::Digest::SHA256 qw(sha256);
use Crypt::Mac::HMAC qw(hmac);
use Crypt::PK::ECC;
use Crypt::PK::Ed25519;
use Crypt::PK::RSA;
use Fcntl qw(:flock);
use JSON::PP;
use MIME::Base64 qw(encode_base64url decode_base64url);

use Platform::Test::Env qw(put);

use Exporter qw(import);
our @EXPORT = qw(jwt_key jwks jwt_sign jwt_claims jwt_token jwt_tamper jwt_decode dpop_proof
    b64url uuid);

our $ISSUER = 'http://issuer.test';
our $AHEAD = 0;    # seconds by which a clock that a test moves is ahead

my $json = JSON::PP->new->utf8->canonical->allow_nonref;

# Base64url without padding.
sub b64url ($bytes) { return encode_base64url($bytes) }

# A fixed UUID made of a small number, or a random one.
sub uuid ($n = undef) {
    return sprintf '00000000-0000-4000-8000-%012x', $n if defined $n;
    my @r = map { int rand 65536 } 1 .. 8;
    return sprintf '%04x%04x-%04x-%04x-%04x-%04x%04x%04x', @r[ 0 .. 2 ],
        $r[3] & 0x0fff | 0x4000, $r[4] & 0x3fff | 0x8000, @r[ 5 .. 7 ];
}

# A key by name.  The kid is the name unless kid => says otherwise; alg => RS256
# or another one of RSA, ES256 or EdDSA; bits => 2048 of RSA.
sub jwt_key ($name, %o) {
    my ($alg, $bits, $dir) = ($o{alg} // 'RS256', $o{bits} // 2048,
        Platform::Test::Env::cache_dir());
    my ($kind, $class, @new) = $alg eq 'ES256' ? ('ec', 'Crypt::PK::ECC', 'secp256r1')
        : $alg eq 'EdDSA' ? ('ed25519', 'Crypt::PK::Ed25519')
        : ("rsa-$bits", 'Crypt::PK::RSA', $bits / 8, 65537);
    my $file = "$dir/$kind-$name.pem";
    open my $lock, '>>', "$dir/keys.lock" or die "$dir/keys.lock: $!\n";
    flock $lock, LOCK_EX or die "flock: $!\n";

    put($file, $class->new->generate_key(@new)
        ->export_key_pem($kind eq 'ec' ? 'private_short' : 'private')) if !-s $file;
    return Platform::Test::Jwt::Key->new($class->new($file), $alg, $o{kid} // $name);
}

# A key-set document of these keys; further entries as hashes pass as given.
sub jwks (@keys) {
    return $json->encode({ keys => [ map { ref eq 'HASH' ? $_ : $_->jwk } @keys ] });
}

# Signs: key => (as it signs), or secret => bytes (HS256), or neither (empty
# signature).  header and payload are hashes or raw strings; members of
# header given as undef are left out.
sub jwt_sign (%o) {
    my $key = $o{key};
    my $header = $o{header};
    if (!defined $header || ref $header) {
        my %h = (alg => defined $o{secret} ? 'HS256' : $key ? $key->alg : 'RS256',
            typ => 'JWT', $key ? (kid => $key->kid) : (),
            %{ $header // {} });
        delete $h{$_} for grep { !defined $h{$_} } keys %h;
        $header = $json->encode(\%h);
    }
    my $payload = $o{payload} // {};
    $payload = $json->encode($payload) if ref $payload;

    # An empty secret is padded with zeros, as HMAC pads every one.
    my $input = b64url($header) . '.' . b64url($payload);
    my $signature = defined $o{secret} ? hmac('SHA256', $o{secret} || "\0", $input)
        : $key ? $key->sign($input, %o) : '';
    return "$input." . b64url($signature);
}

# The claims of a kind of token (account, branch, system, refresh) as the
# contract has them, changed by what is given; undef leaves a claim out,
# JSON::PP::null is a null.
sub jwt_claims ($kind, %change) {
    my $now = time + $AHEAD;
    my %claims = (
        iss => $ISSUER, iat => $now, exp => $now + 900, jti => uuid(),
        sub => uuid(1), account_id => uuid(1), session_id => uuid(2),
    );
    my %type = (account => 'account', branch => 'workspace', system => 'system',
        refresh => 'refresh');
    $claims{token_type} = $type{$kind} // die "no token kind $kind\n";
    @claims{qw(typ token_scope account_type)}
        = ('access', uc $kind, $kind eq 'system' ? 'SYSTEM' : 'CUSTOMER') if $kind ne 'refresh';
    if ($kind eq 'branch') {
        @claims{qw(workspace_id tenant_id member_id active_branch_id)}
            = map { uuid($_) } 3 .. 6;
        $claims{branch_ids} = [ uuid(6), uuid(7) ];
        $claims{roles} = [ 'manager', 'cashier' ];
    }

    @claims{ keys %change } = values %change;
    delete $claims{$_} for grep { !defined $claims{$_} } keys %claims;
    return \%claims;
}

# jwt_token(kind, key, claim => value, ...): a signed token of that kind.
sub jwt_token ($kind, $key, %change) {
    return jwt_sign(key => $key, payload => jwt_claims($kind, %change));
}

# A DPoP proof (RFC 9449) by this key for a request: token => the access token it
# goes with, header => and payload => members to change; undef leaves one out.
sub dpop_proof ($key, $method, $url, %o) {
    my $jwk = $key->jwk(use => undef, alg => undef, kid => undef);
    my %payload = (jti => uuid(), htm => $method, htu => $url, iat => time + $AHEAD,
        defined $o{token} ? (ath => b64url(sha256($o{token}))) : (), %{ $o{payload} // {} });
    delete $payload{$_} for grep { !defined $payload{$_} } keys %payload;
    return jwt_sign(key => $key, payload => \%payload,
        header => { typ => 'dpop+jwt', kid => undef, jwk => $jwk, %{ $o{header} // {} } });
}

# Flips one bit of a decoded part (0 header, 1 payload, 2 signature): bit
# counts from the start, a negative one from the end.
sub jwt_tamper ($token, $part, $bit = 0) {
    my @parts = split /\./, $token, -1;
    my $bytes = decode_base64url($parts[$part]);
    $bit += 8 * length $bytes if $bit < 0;
    vec($bytes, $bit >> 3, 8) ^= 0x80 >> ($bit & 7);
    $parts[$part] = b64url($bytes);
    return join '.', @parts;
}

# (header, payload) of a token, unverified.
sub jwt_decode ($token) {
    return map { $json->decode(decode_base64url($_)) } (split /\./, $token)[ 0, 1 ];
}

package Platform::Test::Jwt::Key;

use Crypt::Digest::SHA256 qw(sha256);
use MIME::Base64 qw(encode_base64 encode_base64url);

use Platform::Test::Env qw(readers);

readers(qw(kid alg pk));

sub new ($class, $pk, $alg, $kid) {
    return bless { pk => $pk, alg => $alg, kid => $kid }, $class;
}

# The same key under another id, for another algorithm.
sub as ($self, $kid, $alg = $self->alg) {
    return Platform::Test::Jwt::Key->new($self->pk, $alg, $kid);
}

# Its thumbprint (RFC 7638): "jkt" of a token that is bound to it.
sub jkt ($self) {
    my $jwk = $self->jwk;
    my %required = map { defined $jwk->{$_} ? ($_ => $jwk->{$_}) : () } qw(crv e kty n x y);
    return encode_base64url(sha256(JSON::PP->new->utf8->canonical->encode(\%required)));
}

# hash => and padding => of RSA, in place of its algorithm's.
sub sign ($self, $input, %o) {
    my ($pk, $alg) = ($self->pk, $self->alg);
    return $alg eq 'ES256' ? $pk->sign_message_rfc7518($input, 'SHA256')
        : $alg eq 'EdDSA' ? $pk->sign_message($input)
        : $pk->sign_message($input, $o{hash} // 'SHA' . substr($alg, 2),
            $o{padding} // ($alg =~ /^P/ ? ('pss', 32) : 'v1.5'));
}

# PKCS#8; CryptX would write ES256 and EdDSA in another form.
sub private_pem ($self) {
    my ($pk, $alg) = ($self->pk, $self->alg);
    my $der = $alg eq 'EdDSA' ? $pk->export_key_der('private') : $alg eq 'ES256'
        ? pack('H*', '3041020100301306072a8648ce3d020106082a8648ce3d030107'
            . '042730250201010420') . $pk->export_key_raw('private')
        : return $pk->export_key_pem('private');
    return "-----BEGIN PRIVATE KEY-----\n" . encode_base64($der) . "-----END PRIVATE KEY-----\n";
}

sub public_pem ($self) {
    return $self->pk->export_key_pem({ ES256 => 'public_short', EdDSA => 'public' }
        ->{ $self->alg } // 'public_x509');
}

sub private_base64 ($self) { return encode_base64($self->private_pem, '') }

sub public_base64 ($self) { return encode_base64($self->public_pem, '') }

# What identity-fcgi is told of it, and of others beside it.
sub env ($self, @additional) {
    my %env = (KEY_ID => $self->kid, PRIVATE_KEY_BASE64 => $self->private_base64,
        PUBLIC_KEY_BASE64 => $self->public_base64, ADDITIONAL_PUBLIC_KEYS => join(',',
            map { $_->kid . '=' . $_->public_base64 } @additional));
    return map { ("PLATFORM_JWT_$_" => $env{$_}) } sort keys %env;
}

# The public JWK; change => members to add or replace, undef to leave out.
sub jwk ($self, %change) {
    my %jwk = (%{ $self->pk->export_key_jwk('public', 1) },
        use => 'sig', alg => $self->alg, kid => $self->kid, %change);
    delete $jwk{$_} for grep { !defined $jwk{$_} } keys %jwk;
    return \%jwk;
}

1;

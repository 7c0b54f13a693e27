package Platform::Test::Passkey;

# A browser with an authenticator in software: makes a passkey, and answers challenges
# with it.  What it answers can be changed, to see what is refused.

use v5.36;

use Crypt::PK::ECC;
use Crypt::PK::Ed25519;
use Digest::SHA qw(sha256);
use JSON::PP;
use MIME::Base64 qw(decode_base64url);
use Platform::Test::Jwt qw(b64url);

our $ORIGIN = 'https://app.example.com';    # of the page

my $json = JSON::PP->new->utf8->canonical;

# Flags of authenticator data.
use constant { PRESENT => 1, VERIFIED => 4, MAY_SYNC => 8, SYNCED => 16, ATTESTED => 64 };

# alg => ES256 or EdDSA; synced => whether others than this device have the key.
sub new ($class, %o) {
    my $key = ($o{alg} // 'ES256') eq 'ES256' ? Crypt::PK::ECC->new->generate_key('secp256r1')
        : Crypt::PK::Ed25519->new->generate_key;
    return bless { counter => 0, id => join('', map { chr int rand 256 } 1 .. 32),
        flags => PRESENT | VERIFIED | ($o{synced} ? MAY_SYNC | SYNCED : 0), %o, key => $key }, $class;
}

# The COSE key: a map of integers (RFC 9053).
sub _cose ($self) {
    my $raw = $self->{key}->export_key_raw('public');
    return pack 'H* a*', 'a4010103272006215820', $raw if length $raw == 32;
    return pack 'H* a32 H* a32', 'a5010203262001215820', substr($raw, 1, 32), '225820', substr $raw, 33;
}

# Of a registration, if there is a rest.
sub _auth_data ($self, $rp_id, $rest, %o) {
    return pack 'a32 C N a*', sha256($o{rp_id} // $rp_id),
        ($o{flags} // $self->{flags}) | ($rest eq '' ? 0 : ATTESTED),
        $o{counter} // $self->{counter}, $rest;
}

# client => {...}: other members of the client data.
sub _client_data ($type, $options, %o) {
    return $json->encode({ type => "webauthn.$type", challenge => $options->{challenge},
        origin => $ORIGIN, crossOrigin => JSON::PP::false, %{ $o{client} // {} } });
}

sub _credential ($self, $client_data, %response) {
    return { (map { $_ => b64url($self->{id}) } qw(id rawId)), type => 'public-key',
        authenticatorAttachment => 'platform', clientExtensionResults => {},
        response => { clientDataJSON => b64url($client_data), %response } };
}

# RegistrationResponseJSON for PublicKeyCredentialCreationOptionsJSON.
sub create ($self, $options, %o) {
    $self->{user} //= $options->{user}{id};
    my $data = $self->_auth_data($options->{rp}{id},
        pack('x16 n a* a*', length $self->{id}, $self->{id}, $self->_cose), %o);
    my $object = pack 'H* a* n a*', 'a363666d74646e6f6e656761747453746d74a068' . unpack('H*', 'authData'),
        chr 0x59, length $data, $data;
    return $self->_credential(_client_data(create => $options, %o),
        attestationObject => b64url($object), transports => ['internal']);
}

# AuthenticationResponseJSON for PublicKeyCredentialRequestOptionsJSON; each is the
# next use.  user => another user handle, or undef.
sub get ($self, $options, %o) {
    $self->{counter}++ if $self->{counter} && !defined $o{counter};
    my $client = _client_data(get => $options, %o);
    my $data = $self->_auth_data($options->{rpId}, '', %o);
    my $signed = $data . sha256($client);
    my $signature = $self->{key}->sign_message($signed,
        $self->{key}->isa('Crypt::PK::ECC') ? 'SHA256' : ());
    return $self->_credential($client, authenticatorData => b64url($data),
        signature => b64url($signature), userHandle => exists $o{user} ? $o{user} : $self->{user});
}

1;

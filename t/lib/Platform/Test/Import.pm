package Platform::Test::Import;

# Hashes as other systems store them, and the lines of "account import".

use v5.36;

use Crypt::KeyDerivation qw(pbkdf2);
use Exporter qw(import);
use JSON::PP;
use MIME::Base64 qw(encode_base64);

our @EXPORT = qw(hash_kinds foreign_hash import_line);

my $json = JSON::PP->new->utf8->canonical;

# Of Demo-passw0rd!, made by the argon2 program of its authors: Perl has none.
my %argon2 = (
    argon2i => '$argon2i$v=19$m=64,t=3,p=1$c2FsdHNhbHRzYWx0c2FsdA$'
        . '+a2eacQOvrwYY35S4R+hoFVVknnNnvszlEbwtruVIs4',
    argon2id => '$argon2id$v=19$m=64,t=3,p=4$c2FsdHNhbHRzYWx0c2FsdA$'
        . '4LJ3w+CrtOcn8xK/C31sO+fTu7YoOkt+fABdOMIO6PI',
);

my %setting = (
    '2a' => '$2a$%02d$', '2b' => '$2b$%02d$', '2y' => '$2y$%02d$',
    sha256 => '$5$rounds=%d$', sha512 => '$6$rounds=%d$',
);
my %cost = (
    (map { $_ => 4 } qw(2a 2b 2y)),
    (map { $_ => 1000 } qw(sha256 sha512 pbkdf2 passlib)),
);

sub hash_kinds { return sort keys %argon2, keys %cost }

sub base64 ($bytes) { return encode_base64($bytes, '') =~ s/=+\z//r }

# A cheap hash of the credential, with a salt of the number n.
my %made;

sub foreign_hash (@of) { return $made{"@of"} //= _hash(@of) }

sub _hash ($kind, $credential, $n) {
    return $argon2{$kind} if $argon2{$kind};
    my $cost = $cost{$kind};
    if (my $setting = $setting{$kind}) {
        my $salt = sprintf $kind =~ /^2/ ? '%021du' : '%016d', $n;
        return crypt $credential, sprintf($setting, $cost) . $salt;
    }
    my $salt = sprintf '%016d', $n;
    my $hash = base64(pbkdf2($credential, $salt, $cost, 'SHA256', 32));
    return $kind eq 'pbkdf2' ? "\$pbkdf2-sha256\$i=$cost,l=32\$" . base64($salt) . "\$$hash"
        : "\$pbkdf2-sha256\$$cost\$" . base64($salt) . '$' . $hash =~ tr/+/./r;
}

sub import_line { return $json->encode({@_}) . "\n" }

1;

package Bench::Gateway::Tokens;

# The tokens that the load is made of.  Lists are signed once and kept in the
# build directory for as long as key and claims stay the same.

use strict;
use warnings;

use Digest::SHA qw(sha256 sha256_hex);
use JSON::PP;
use MIME::Base64 qw(decode_base64);

use Platform::Test::Env;
use Platform::Test::Jwt;

# Fixed times, so that a list kept from an earlier run is still good.
my ($ISSUED, $EXPIRES) = (1_700_000_000, 4_102_444_800);

sub new {
    my ($class) = @_;

    my $self = bless { key => jwt_key('a'),
        dir => Platform::Test::Env::build() . '/bench' }, $class;
    mkdir $self->{dir};
    _write($self->key_file, $self->{key}->private_pem);
    return $self;
}

sub key { return $_[0]{key} }

# A key for another algorithm, with its file.
sub key_for {
    my ($self, $alg) = @_;

    return $self->{for}{$alg} //= do {
        my $key = jwt_key($alg, alg => $alg);
        _write($self->key_file($alg), $key->private_pem);
        $key;
    };
}

# The file of the key, or of that for another algorithm.
sub key_file { return "$_[0]{dir}/" . ($_[1] // 'key') . '.pem' }

# A certificate that signs itself, with the key for ES256: its file.
sub certificate {
    my ($self) = @_;

    return $self->{certificate} //= do {
        my ($key, $file) = ($self->key_for('ES256') && $self->key_file('ES256'), "$self->{dir}/ES256.crt");
        system("openssl req -x509 -new -key $key -days 2 -subj /CN=bench -out $file 2>/dev/null") == 0
            or die "openssl req failed\n";
        $file;
    };
}

# What a token of the kind is bound to; one that is not certified is as long as one that is.
sub _cnf {
    my ($self, $kind) = @_;

    return (cnf => { jkt => $self->key_for('ES256')->pk->export_key_jwk_thumbprint('SHA256') })
        if $kind eq 'bound';
    return if $kind !~ /certified/;
    my $hash = b64url(sha256(decode_base64(Platform::Test::Env::slurp($self->certificate) =~ s/^-.*\n//gmr)));
    return ($kind eq 'certified' ? 'cnf' : 'not') => { 'x5t#S256' => $hash };
}

# The claims of a branch token of about 1.3 KB; as little as possible varies.
sub _claims {
    my (%change) = @_;

    return jwt_claims('branch', iat => $ISSUED, exp => $EXPIRES, jti => uuid(8),
        branch_ids => [ map { uuid(100 + $_) } 1 .. 3 ],
        roles => [ 'manager', 'cashier' ], %change);
}

# One token of a kind: good, forged, bound, certified, uncertified.
sub one {
    my ($self, $kind) = @_;

    return $self->{one}{$kind} //= do {
        my $token = jwt_sign(key => $self->{key}, payload => _claims($self->_cnf($kind)));
        $kind eq 'forged' ? jwt_tamper($token, 2, 77) : $token;
    };
}

# A new proof of the bound token.
sub proof {
    my ($self, $url) = @_;

    return dpop_proof($self->key_for('ES256'), GET => $url, token => $self->one('bound'));
}

# A new token of that algorithm.
sub fresh {
    my ($self, $alg) = @_;

    return jwt_sign(key => $self->key_for($alg), payload => _claims(jti => uuid()));
}

# A file with so many tokens of a kind, a line each.  Forged ones have the
# signature of the one before.
sub list {
    my ($self, $count, $kind) = @_;

    my $json = JSON::PP->new->utf8->canonical;
    my $head = $self->{key}->kid . "\n"
        . $json->encode(_claims(jti => '#1', session_id => '#1'))
        . "\n";
    my $made_of = sha256_hex($self->{key}->private_pem . $head);
    my $file = "$self->{dir}/tokens-$kind-$count-" . substr $made_of, 0, 16;
    return $file if -s $file;

    _write("$file.in", $head . join '', map { uuid($_) . "\n" } 1 .. $count);
    my @cmd = ("$self->{dir}/sign", $self->key_file, qx{nproc} + 0);
    my @tokens = qx{@cmd <$file.in};
    die "@cmd failed\n" if $? != 0 || @tokens != $count;
    unlink "$file.in";
    if ($kind eq 'forged') {
        my @signatures = map { substr $_, rindex $_, '.' } @tokens;
        substr($tokens[$_], rindex $tokens[$_], '.') = $signatures[ $_ - 1 ]
            for 0 .. $#tokens;
    }
    _write("$file.new", join '', @tokens);
    rename "$file.new", $file or die "$file: $!\n";
    return $file;
}

sub _write {
    my ($file, $text) = @_;

    open my $fh, '>:raw', $file or die "$file: $!\n";
    print {$fh} $text;
    close $fh or die "$file: $!\n";
    return;
}

1;

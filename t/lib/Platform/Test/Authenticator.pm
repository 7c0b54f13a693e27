package Platform::Test::Authenticator;

# What a person keeps for a second factor: an authenticator's secrets (RFC 6238, apart
# from the service's library) and recovery codes.

use v5.36;

use Digest::SHA qw(hmac_sha1 sha256_hex);

use Exporter qw(import);
our @EXPORT_OK = qw(totp);

# The code of a secret in base32 at a step of 30 seconds, that of now.
sub totp ($base32, $step = int(time / 30)) {
    my %value;
    @value{ 'A' .. 'Z', 2 .. 7 } = 0 .. 31;
    my $bits = join '', map { sprintf '%05b', $value{$_} } split //, $base32;
    my $mac = hmac_sha1(pack('Q>', $step), pack('B*', substr $bits, 0, 8 * int(length($bits) / 8)));
    my $at = 15 & ord substr $mac, -1;
    return sprintf '%06d', (unpack('N', substr $mac, $at, 4) & 0x7fffffff) % 1_000_000;
}

sub new ($class) { return bless { app => {}, codes => [] }, $class }

# Its factors, by id.
sub apps ($self) {
    my @ids = sort keys %{ $self->{app} };
    return @ids;
}

sub add ($self, $id, $secret, $step) { $self->{app}{$id} = { secret => $secret, step => $step } }

# Without a factor, no recovery code works.
sub drop ($self, $id) {
    delete $self->{app}{$id};
    $self->{codes} = [] if !%{ $self->{app} };
}

sub codes ($self, @codes) { $self->{codes} = \@codes }

# What no call has shown yet, at that time: { type, code, label }; undef where it has to
# wait for the next step.
sub proof ($self, $now) {
    my $step = int($now / 30);
    for my $id ($self->apps) {
        my $app = $self->{app}{$id};
        next if $app->{step} >= $step;
        $app->{step} = $step;
        return { type => 'totp', code => totp($app->{secret}, $step), label => "$id:$step" };
    }
    my $code = shift @{ $self->{codes} } // return undef;
    return { type => 'recovery', code => $code, label => code_label($code) };
}

# What a record says of a recovery code.
sub code_label ($code) { return 'r:' . substr sha256_hex($code), 0, 16 }

# Codes that are not the account's: of none of its factors about that time.
sub wrong ($self, $now) {
    my %right = map { my $s = $_->{secret}; map { (totp($s, int($now / 30) + $_) => 1) } -2 .. 2 }
        values %{ $self->{app} };
    my $code;
    do { $code = sprintf '%06d', rand 1_000_000 } while $right{$code};
    return rand() < 0.7 ? { type => 'totp', code => $code, label => 'wrong' }
        : { type => 'recovery', code => 'AAAA-BBBB-CCCC-DDDD', label => 'wrong' };
}

1;

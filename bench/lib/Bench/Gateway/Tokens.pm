package Bench::Gateway::Tokens;

# The tokens that the load is made of.  Lists are signed once and kept in the
# build directory for as long as key and claims stay the same.

use strict;
use warnings;

use Digest::SHA qw(sha256_hex);
use JSON::PP;

use Bench::Gateway::Round;
use Platform::Test::Env;
use Platform::Test::Jwt;

# Fixed times, so that a list kept from an earlier run is still good.
my ($ISSUED, $EXPIRES, $EXPIRED)
    = (1_700_000_000, 4_102_444_800, 1_700_000_900);
my $json = JSON::PP->new->utf8->canonical;

sub new {
    my ($class) = @_;

    my $dir = Platform::Test::Env::build() . '/bench';
    mkdir $dir;
    return bless { dir => $dir, key => jwt_key('a') }, $class;
}

sub key { return $_[0]{key} }

sub _branches { return [ map { uuid(100 + $_) } 1 .. $_[0] ] }

# The claims of a branch token of about 1.3 KB, as few things vary as can.
sub _claims {
    my (%change) = @_;

    return jwt_claims('branch',
        iat => $ISSUED, exp => $EXPIRES, jti => uuid(8),
        branch_ids => _branches(3), roles => [ 'manager', 'cashier' ],
        %change);
}

sub _token {
    my ($self, %change) = @_;

    return jwt_sign(key => $self->{key}, payload => _claims(%change));
}

# One token of a kind: good, expired, forged, large (200 branches).
sub one {
    my ($self, $kind) = @_;

    return $self->{one}{$kind} //= $kind eq 'expired'
        ? $self->_token(exp => $EXPIRED)
        : $kind eq 'large'  ? $self->_token(branch_ids => _branches(200))
        : $kind eq 'forged' ? jwt_tamper($self->_token, 2, 77)
        :                     $self->_token;
}

# A file with so many good tokens, a line each; branches => how many of them
# each token has.
sub list {
    my ($self, $count, %o) = @_;

    my $number = '00000000-0000-4000-8000-' . '#' x 12;
    my $header = $json->encode(
        { alg => 'RS256', kid => $self->{key}->kid, typ => 'JWT' });
    my $payload = $json->encode(
        _claims(jti => $number, session_id => $number,
            $o{branches} ? (branch_ids => _branches($o{branches})) : ()));
    my $large = $o{branches} ? "-$o{branches}" : '';
    return $self->_kept("tokens-$count$large",
        sha256_hex($self->{key}->private_pem . "$header\n$payload\n"),
        sub { $self->_sign($count, "$header\n$payload\n", @_) });
}

# The same tokens, each with the signature of the next one.
sub forged_list {
    my ($self, $count) = @_;

    my $list = $self->list($count);
    return $self->_kept("forged-$count", _slurp("$list.made-of"), sub {
        my ($to) = @_;
        my @lines = split /\n/, _slurp($list);
        my @signatures = map {s/^.*\.//r} @lines;
        push @signatures, shift @signatures;
        s/[^.]*$// for @lines;
        _write($to, join '',
            map {"$lines[$_]$signatures[$_]\n"} 0 .. $#lines);
    });
}

# A file made by $make->(PATH), unless it is there and of the same things.
sub _kept {
    my ($self, $name, $made_of, $make) = @_;

    my $file = "$self->{dir}/$name";
    return $file if -s $file && _slurp("$file.made-of") eq $made_of;
    unlink "$file.made-of";
    $make->("$file.new");
    rename "$file.new", $file or die "$file: $!\n";
    _write("$file.made-of", $made_of);
    return $file;
}

sub _sign {
    my ($self, $count, $template, $to) = @_;

    print STDERR "signing $count tokens\n" if $count > 5000;
    my $pem = "$self->{dir}/key.pem";
    _write($pem, $self->{key}->private_pem);
    _write("$to.template", $template);
    system('sh', '-c', 'exec "$1" "$2" "$3" "$4" <"$5" >"$6"', 'sh',
        "$self->{dir}/sign_tokens", $pem, $count, Bench::Gateway::Round::cores(), "$to.template", $to) == 0
        or die "sign_tokens failed\n";
    unlink $pem, "$to.template";
    return;
}

sub _slurp {
    my ($file) = @_;

    open my $fh, '<:raw', $file or return '';
    local $/;
    return <$fh> // '';
}

sub _write {
    my ($file, $text) = @_;

    open my $fh, '>:raw', $file or die "$file: $!\n";
    print {$fh} $text;
    close $fh or die "$file: $!\n";
    return;
}

1;

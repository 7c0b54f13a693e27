package Platform::Test::Chain;

# A client that keeps identity-fcgi busy: FastCGI, a session refreshed in a
# chain.

use v5.36;

use JSON::PP;

use Platform::Test::Fcgi;
use Platform::Test::Stack;

# address of an identity process; account => who logs in.
sub new ($class, $address, %o) {
    return bless { address => $address, account => 'one@demo.test', count => {}, %o }, $class;
}

# One request; its status, counted by path.
sub request ($self, $method, $path, %o) {
    my $got = Platform::Test::Fcgi->new($self->{address})->request($method, $path, %o);
    $self->{count}{ "$path " . ($got ? $got->{status} : 'none') }++;
    for my $kind ($got ? qw(refresh access) : ()) {
        $self->{"${kind}Token"} = $1 if $got->{body} =~ /"(?:account)?${kind}Token":"([^"]+)"/i;
    }
    return $got ? $got->{status} : 0;
}

sub get ($self, $path) { return $self->request(GET => $path) }

sub _post ($self, $path, %data) {
    return $self->request(POST => "/api/auth/$path", body => encode_json(\%data));
}

sub login ($self, $credential = $Platform::Test::Stack::CREDENTIAL) {
    return $self->_post(login => account => $self->{account}, credential => $credential);
}

sub refresh ($self) { return $self->_post(refresh => refreshToken => $self->{refreshToken}) }

sub logout ($self) { return $self->_post(logout => refreshToken => $self->{refreshToken}) }

# Prints the answers by path and status.
sub tell ($self) { print "$_ $self->{count}{$_}\n" for sort keys %{ $self->{count} } }

# The value below which $part of the numbers lie.
sub quantile ($part, @numbers) {
    return (sort { $a <=> $b } @numbers)[ $part * $#numbers ];
}

1;

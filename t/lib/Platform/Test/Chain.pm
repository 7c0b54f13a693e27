package Platform::Test::Chain;

# A client that keeps identity-fcgi busy: FastCGI, a session refreshed in a
# chain.

use strict;
use warnings;

use Platform::Test::Fcgi;
use Platform::Test::Stack;

# address of an identity process; account => who logs in.
sub new {
    my ($class, $address, %o) = @_;

    return bless {
        address => $address, account => 'one@demo.test', count => {}, %o,
    }, $class;
}

# One request; its status, counted by path.  The answer's body is ->{body}.
sub request {
    my ($self, $method, $path, %o) = @_;

    my $got = Platform::Test::Fcgi->new($self->{address})->request($method, $path, %o);
    $self->{count}{ "$path " . ($got ? $got->{status} : 'none') }++;
    $self->{body} = $got ? $got->{body} : '';
    return $got ? $got->{status} : 0;
}

sub member {
    my ($self, $name) = @_;

    return $self->{body} =~ /"$name":"([^"]+)"/ ? $1 : undef;
}

sub login {
    my ($self, $credential) = @_;

    $credential //= $Platform::Test::Stack::CREDENTIAL;
    my $status = $self->request(POST => '/api/auth/login', body =>
        qq({"account":"$self->{account}","credential":"$credential"}));
    $self->{token} = $self->member('refreshToken') // $self->{token};
    return $status;
}

sub refresh {
    my ($self) = @_;

    my $status = $self->request(POST => '/api/auth/refresh',
        body => qq({"refreshToken":"$self->{token}"}));
    $self->{token} = $self->member('refreshToken') // $self->{token};
    return $status;
}

sub logout {
    my ($self) = @_;

    return $self->request(POST => '/api/auth/logout',
        body => qq({"refreshToken":"$self->{token}"}));
}

sub get { my ($self, $path) = @_; return $self->request(GET => $path) }

# Answers by path and status.
sub count { return $_[0]{count} }

# The value below which $part of the numbers lie.
sub quantile {
    my ($part, @numbers) = @_;

    @numbers = sort { $a <=> $b } @numbers;
    my $i = int($part * @numbers);
    return $numbers[ $i < @numbers ? $i : -1 ];
}

1;

package Platform::Test::Chain;

# A client that keeps identity-fcgi busy: FastCGI, a session refreshed in a
# chain.

use v5.36;

use Platform::Test::Fcgi;
use Platform::Test::Stack;

# address of an identity process; account => who logs in.
sub new ($class, $address, %o) {
    return bless {
        address => $address, account => 'one@demo.test', count => {}, %o,
    }, $class;
}

# One request; its status, counted by path.  The answer's body is ->{body}.
sub request ($self, $method, $path, %o) {
    my $got = Platform::Test::Fcgi->new($self->{address})->request($method, $path, %o);
    $self->{count}{ "$path " . ($got ? $got->{status} : 'none') }++;
    $self->{body} = $got ? $got->{body} : '';
    return $got ? $got->{status} : 0;
}

sub member ($self, $name) {
    return $self->{body} =~ /"$name":"([^"]+)"/ ? $1 : undef;
}

sub login ($self, $credential = undef) {
    $credential //= $Platform::Test::Stack::CREDENTIAL;
    my $status = $self->request(POST => '/api/auth/login', body =>
        qq({"account":"$self->{account}","credential":"$credential"}));
    $self->{token} = $self->member('refreshToken') // $self->{token};
    return $status;
}

sub refresh ($self) {
    my $status = $self->request(POST => '/api/auth/refresh',
        body => qq({"refreshToken":"$self->{token}"}));
    $self->{token} = $self->member('refreshToken') // $self->{token};
    return $status;
}

sub logout ($self) {
    return $self->request(POST => '/api/auth/logout',
        body => qq({"refreshToken":"$self->{token}"}));
}

sub get { my ($self, $path) = @_; return $self->request(GET => $path) }

# Answers by path and status.
sub count { return $_[0]{count} }

# The value below which $part of the numbers lie.
sub quantile ($part, @numbers) {
    @numbers = sort { $a <=> $b } @numbers;
    my $i = int($part * @numbers);
    return $numbers[ $i < @numbers ? $i : -1 ];
}

1;

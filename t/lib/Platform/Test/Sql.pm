package Platform::Test::Sql;

# A connection to PostgreSQL, by its protocol: psql would be one more process for
# each statement of a test.

use v5.36;

use IO::Socket::UNIX;

# The path of its socket; user, database => names.
sub new ($class, $socket, %o) {
    my $fh = IO::Socket::UNIX->new(Peer => $socket) or die "connect to $socket: $!\n";
    my $self = bless { fh => $fh }, $class;
    my $start = pack('N', 3 << 16) . join "\0", %o, application_name => 'psql',
        options => '-c client_min_messages=warning', "\0";
    $self->_send(pack('N', 4 + length $start) . $start);
    $self->_answer;
    return $self;
}

# Runs SQL, of several statements as one transaction: what it gives, rows by
# newline, columns by |.  Dies when it fails.
sub run ($self, $sql) {
    utf8::encode($sql) if utf8::is_utf8($sql);
    $self->_send('Q' . pack 'NZ*', 5 + length $sql, $sql);
    return $self->_answer;
}

# Ends it: when this returns, the server no longer counts the connection.
sub close ($self) {
    $self->_send(pack 'aN', 'X', 4);
    return read $self->{fh}, my $rest, 1;
}

sub _send ($self, $bytes) { $self->{fh}->print($bytes) or die "PostgreSQL: $!\n" }

sub _read ($self, $length) {
    return '' if !$length;
    my $got = read $self->{fh}, (my $bytes), $length;
    return ($got // 0) == $length ? $bytes : die "PostgreSQL closed the connection\n";
}

# Reads until the server is ready for more.
sub _answer ($self) {
    my ($error, @rows);
    while (1) {
        my ($type, $length) = unpack 'aN', $self->_read(5);
        my $body = $self->_read($length - 4);
        push @rows, _row($body) if $type eq 'D';
        if ($type eq 'E') {
            my %is = map { substr($_, 0, 1) => substr $_, 1 } split /\0/, $body;
            $error = join "\n", "$is{S}:  $is{M}", grep {defined} @is{qw(D H W)};
        }
        last if $type eq 'Z' || $error && $error =~ /\A(?:FATAL|PANIC)/;
    }
    die "$error\n" if defined $error;
    return join "\n", @rows;
}

# A row's columns; null is empty.
sub _row ($body) {
    my ($at, @columns) = (2);
    for (1 .. unpack 'n', $body) {
        my $length = unpack 'l>', substr $body, $at, 4;
        push @columns, $length < 0 ? '' : substr $body, $at + 4, $length;
        $at += 4 + length $columns[-1];
    }
    return join '|', @columns;
}

1;

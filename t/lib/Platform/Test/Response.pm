package Platform::Test::Response;

# One HTTP response as it came: header lines in order, body, framing.

use v5.36;

use Platform::Test::Env qw(readers);

readers(qw(status body raw_head));

# Takes a complete head off $$buf, or returns undef.
sub parse_head ($class, $buf) {
    return undef unless $$buf =~ s/\A(HTTP\/\d\.\d)[ ](\d{3})([ ][^\r\n]*)?\r\n
                                     ((?:[^\r\n]+\r\n)*)\r\n//x;
    my ($version, $status, $reason, $lines) = ($1, $2, $3 // '', $4);
    return bless {
        status   => $status,
        headers  => [ map { [ split /:[ \t]*/, $_, 2 ] } split /\r\n/, $lines ],
        body     => '',
        raw_head => "$version $status" . ($reason || ' ') . "\r\n$lines\r\n",
    }, $class;
}

# Something other than an HTTP/1.x response (an HTTP/0.9 one, say).
sub garbage ($class, $bytes) {
    return bless { status => 0, headers => [], body => $bytes, raw_head => '',
        truncated => 1 }, $class;
}

# Parses bytes that are one whole response.
sub whole ($class, $bytes) {
    my $res = $class->parse_head(\$bytes) // return undef;
    $res->read_body(\$bytes, sub { 0 });
    return $res->truncated ? undef : $res;
}

# Reads the body that the head announces; $fill reads more, false at the end.
sub read_body ($self, $buf, $fill, $is_head = undef) {
    return if $is_head || $self->{status} =~ /^(?:1..|204|304)$/;
    my $all = take_body($self, $buf, $fill);
    $self->{truncated} = 1 if defined $all && !$all;
    return if defined $all;
    1 while $fill->();
    ($self->{body}, $$buf) = ($$buf, '');
}

# Takes the body that the head of a message (a hash of headers and body) announces
# off $$buf: whether it came as a whole, or undef where none is announced.
sub take_body ($message, $buf, $fill) {
    my $there = sub ($length) {
        1 while length $$buf < $length && $fill->();
        return length $$buf >= $length;
    };
    if ((header($message, 'Transfer-Encoding') // '') =~ /chunked/i) {
        while (1) {
            $fill->() or return 0 until $$buf =~ /\A([0-9a-fA-F]+)[^\r\n]*\r\n/;
            my ($head, $size) = ($+[0], hex $1);
            $there->($head + $size + 2) or return 0;
            $message->{body} .= substr $$buf, $head, $size;
            substr $$buf, 0, $head + $size + 2, '';
            return 1 if $size == 0;
        }
    }
    my $length = header($message, 'Content-Length') // return undef;
    my $all = $there->($length);
    $message->{body} = substr $$buf, 0, $length, '';
    return $all;
}

# The body stopped before its announced end.
sub truncated ($self) { return $self->{truncated} ? 1 : 0 }

sub interim ($self) { return @{ $self->{interim} // [] } }

# Header lines as [name, value], in order.
sub headers ($self) { return @{ $self->{headers} } }

# All values of a header, or the first one.
sub header_all ($self, $name) {
    return map { $_->[1] } grep { lc $_->[0] eq lc $name } @{ $self->{headers} };
}

sub header ($self, $name) {
    my ($first) = header_all($self, $name);
    return $first;
}

# The body as JSON; dies when it is not.
sub json ($self) {
    return $self->{json} //= Platform::Test::Env::json()->utf8->decode($self->{body});
}

# The "code" member of a JSON body, or an empty string.
sub code ($self) {
    my $json = eval { $self->json };
    return ref $json eq 'HASH' ? $json->{code} // '' : '';
}

# The value of a cookie that the response sets, and the whole line.
sub cookie ($self, $name) {
    return ($self->cookie_line($name) // '') =~ /\A\Q$name\E=([^;]*)/ ? $1 : undef;
}

sub cookie_line ($self, $name) {
    my ($line) = grep {/\A\Q$name\E=/} $self->header_all('Set-Cookie');
    return $line;
}

1;

package Platform::Test::Response;

# One HTTP response as it came: header lines in order, body, framing.

use v5.36;

# Takes a complete head off $$buf, or returns undef.
sub parse_head ($class, $buf) {
    return undef unless $$buf =~ s/\A(HTTP\/\d\.\d)[ ](\d{3})([ ][^\r\n]*)?\r\n
                                     ((?:[^\r\n]+\r\n)*)\r\n//x;
    my ($version, $status, $reason, $lines) = ($1, $2, $3 // '', $4);
    my @headers = map { [ split /:[ \t]*/, $_, 2 ] } split /\r\n/, $lines;
    $reason =~ s/^ //;

    return bless {
        version => $version,
        status  => $status,
        reason  => $reason,
        headers => \@headers,
        body    => '',
        raw_head => "$version $status $reason\r\n$lines\r\n",
    }, $class;
}

# What came was no HTTP/1.x response (an HTTP/0.9 one, say).
sub garbage ($class, $bytes) {
    return bless {
        version => '', status => 0, reason => '', headers => [],
        body    => $bytes, raw_head => '', truncated => 1,
    }, $class;
}

# Reads the body that the head announces; $fill reads more, false at the end.
sub read_body ($self, $buf, $fill, $is_head) {
    return if $is_head || $self->{status} =~ /^(?:1..|204|304)$/;

    if (lc($self->header('Transfer-Encoding') // '') eq 'chunked') {
        $self->_read_chunked($buf, $fill);
    }
    elsif (defined(my $length = $self->header('Content-Length'))) {
        while (length $$buf < $length) {
            last unless $fill->();
        }
        $self->{truncated} = 1 if length $$buf < $length;
        $self->{body} = substr $$buf, 0, $length, '';
    }
    else {
        1 while $fill->();
        $self->{body} = $$buf;
        $$buf = '';
    }
}

sub _read_chunked ($self, $buf, $fill) {
    while (1) {
        my ($line, $hex);
        until (($line, $hex) = $$buf =~ /\A(([0-9a-fA-F]+)[^\r\n]*\r\n)/) {
            $fill->() or return $self->{truncated} = 1;
        }
        my ($head, $size) = (length $line, hex $hex);
        while (length $$buf < $head + $size + 2) {
            $fill->() or return $self->{truncated} = 1;
        }
        $self->{body} .= substr $$buf, $head, $size;
        substr $$buf, 0, $head + $size + 2, '';
        return if $size == 0;
    }
}

sub status { return $_[0]{status} }

sub reason { return $_[0]{reason} }

sub version { return $_[0]{version} }

sub body { return $_[0]{body} }

sub raw_head { return $_[0]{raw_head} }

# The body stopped before its announced end.
sub truncated { return $_[0]{truncated} ? 1 : 0 }

sub interim { return @{ $_[0]{interim} // [] } }

# Header lines as [name, value], in order.
sub headers { return @{ $_[0]{headers} } }

# All values of a header, or the first one.
sub header_all ($self, $name) {
    return map { $_->[1] } grep { lc $_->[0] eq lc $name } $self->headers;
}

sub header ($self, $name) {
    my ($first) = $self->header_all($name);
    return $first;
}

# The body as JSON; dies when it is not.
sub json ($self) {
    require JSON::PP;
    return $self->{json} //= JSON::PP->new->utf8->allow_nonref->decode($self->{body});
}

# The "code" member of a JSON body, or an empty string.
sub code ($self) {
    my $json = eval { $self->json };
    return ref $json eq 'HASH' ? $json->{code} // '' : '';
}

# The value of a cookie that the response sets, and the whole line.
sub cookie ($self, $name) {
    my $line = $self->cookie_line($name) // return undef;
    my ($value) = $line =~ /\A\Q$name\E=([^;]*)/;
    return $value;
}

sub cookie_line ($self, $name) {
    my ($line) = grep {/\A\Q$name\E=/} $self->header_all('Set-Cookie');
    return $line;
}

1;

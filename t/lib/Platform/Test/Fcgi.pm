package Platform::Test::Fcgi;

# FastCGI, SCGI and uwsgi spoken by hand: a client for identity-fcgi, and echo
# servers that report the parameters they got.

use v5.36;

use List::Util qw(pairmap);

use Platform::Test::Env qw(json);
use Platform::Test::Http;

use constant { FCGI_BEGIN_REQUEST => 1, FCGI_END_REQUEST => 3, FCGI_PARAMS => 4,
    FCGI_STDIN => 5, FCGI_STDOUT => 6, FCGI_STDERR => 7 };

my $json = json()->latin1;

# A connection to an address (path or host:port).
sub new ($class, $address) {
    my %peer = $address =~ m{^(.*):(\d+)$} ? (host => $1, port => $2) : (path => $address);
    return bless { http => Platform::Test::Http->new(%peer) }, $class;
}

sub connection ($self) { return $self->{http} }

# The bytes of one record.
sub record ($type, $content, $id = 1) {
    return pack('CCnnCC', 1, $type, $id, length $content, 0, 0) . $content;
}

sub pair ($name, $value) {
    return join('', map { $_ < 128 ? chr : pack 'N', $_ | 0x80000000 }
        length $name, length $value) . $name . $value;
}

# The bytes of a whole request.  params => { NAME => value } replaces or adds
# to the usual ones; body; keep => 1 asks to keep the connection.
sub request_bytes ($method, $path, %o) {
    my $body = $o{body} // '';
    my ($uri, $query) = split /\?/, $path, 2;
    my %params = (
        REQUEST_METHOD => $method, DOCUMENT_URI => $uri, QUERY_STRING => $query // '',
        CONTENT_TYPE   => length $body ? 'application/json' : '',
        CONTENT_LENGTH => length $body || '',
        REMOTE_ADDR    => '127.0.0.1', REQUEST_SCHEME => 'http', HTTP_HOST => 'localhost',
        HTTP_X_REQUEST_ID => 'test-request', HTTP_X_CORRELATION_ID => 'test-correlation',
        %{ $o{params} // {} },
    );
    my $params = join '', map { pair($_, $params{$_}) }
        grep { defined $params{$_} } sort keys %params;

    my $out = record(FCGI_BEGIN_REQUEST, pack 'nCx5', 1, $o{keep} ? 1 : 0);
    $out .= record(FCGI_PARAMS, substr $params, 0, 65535, '') while length $params;
    $out .= record(FCGI_PARAMS, '');
    $out .= record(FCGI_STDIN, substr $body, 0, 65535, '') while length $body;
    return $out . record(FCGI_STDIN, '');
}

sub send ($self, $bytes) { return $self->{http}->send($bytes) }

# The answer to what was sent: { stdout, stderr, status, headers, body }, or
# undef when the peer closed before the end of the request.
sub read_answer ($self, $seconds = undef) {
    my $http = $self->{http};
    my $until = Time::HiRes::time() + ($seconds // $http->{timeout});
    my %got = (stdout => '', stderr => '');
    while (1) {
        $http->_have(8, $until) or return undef;
        my (undef, $type, undef, $length, $pad) = unpack 'CCnnC', $http->{buf};
        $http->_have(8 + $length + $pad, $until) or return undef;
        my $content = substr $http->{buf}, 8, $length;
        substr $http->{buf}, 0, 8 + $length + $pad, '';
        $got{stdout} .= $content if $type == FCGI_STDOUT;
        $got{stderr} .= $content if $type == FCGI_STDERR;
        last if $type == FCGI_END_REQUEST;
    }

    my ($head, $body) = split /\r\n\r\n/, $got{stdout}, 2;
    @got{qw(body headers)}
        = ($body // '', [ map { [ split /: */, $_, 2 ] } split /\r\n/, $head // '' ]);
    my ($status) = map { $_->[1] } grep { lc $_->[0] eq 'status' } @{ $got{headers} };
    ($got{status}) = ($status // '200') =~ /(\d+)/;
    return \%got;
}

sub request ($self, @request) {
    $self->send(request_bytes(@request));
    return $self->read_answer;
}

# Echo servers: each a protocol => for Platform::Test::Server.

sub echo_fastcgi ($fh, $server) {
    return serve($fh, sub (@request) { _answer($server, @request) });
}

# Reads one request; $answer->(its body, its parameters): the answer.
sub serve ($fh, $answer) {
    my %got = map { $_ => '' } FCGI_PARAMS, FCGI_STDIN;
    while (my $head = _read($fh, 8)) {
        my (undef, $type, $id, $length, $pad) = unpack 'CCnnC', $head;
        $got{$type} .= substr _read($fh, $length + $pad), 0, $length;
        next unless $type == FCGI_STDIN && $length == 0;

        my $out = $answer->($got{$type}, _fcgi_params($got{+FCGI_PARAMS}));
        print {$fh} (map { record(FCGI_STDOUT, $_, $id) } unpack('(a65528)*', $out), ''),
            record(FCGI_END_REQUEST, "\0" x 8, $id);
        return;
    }
}

sub _fcgi_params ($bytes) {
    my @params;
    while (length $bytes) {
        my @length = map { ord $bytes & 0x80
            ? unpack('N', substr $bytes, 0, 4, '') & 0x7fffffff
            : ord substr $bytes, 0, 1, '' } 1, 2;
        push @params, map { substr $bytes, 0, $_, '' } @length;
    }
    return @params;
}

sub echo_scgi ($fh, $server) {
    my $length = '';
    while ((my $c = _read($fh, 1)) ne ':') {
        return if $c eq '';
        $length .= $c;
    }
    my @params = unpack '(Z*)*', substr _read($fh, $length + 1), 0, $length;
    print {$fh} _answer($server, _read($fh, +{@params}->{CONTENT_LENGTH} || 0), @params);
}

sub echo_uwsgi ($fh, $server) {
    my (undef, $size) = unpack 'CvC', _read($fh, 4);
    print {$fh} _answer($server, '', unpack '(v/a)*', _read($fh, $size))
        =~ s{^Status:}{HTTP/1.1}r;
}

sub _answer ($server, $body, @params) {
    my $seen = { params => [ pairmap { [ $a, $b ] } @params ], body => $body };
    $server->note($seen);
    my $text = $json->encode($seen);
    return "Status: 200 OK\r\nContent-Type: application/json\r\n"
        . 'Content-Length: ' . length($text) . "\r\n\r\n$text";
}

# That many bytes, or what there was before the end.
sub _read ($fh, $size) {
    read $fh, (my $bytes), $size;
    return $bytes // '';
}

1;

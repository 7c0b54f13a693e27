package Platform::Test::Server;

# A small HTTP server in Perl for a test to stand in for an upstream or an
# issuer.  Requests are logged as they came, so that the test can ask what arrived.

use v5.36;

use IO::Select;
use List::Util qw(pairkeys pairmap);
use POSIX qw(_exit);
use Time::HiRes qw(sleep time);

use Platform::Test::Env qw(json put readers slurp);
use Platform::Test::Port;
use Platform::Test::Process;
use Platform::Test::Response;

our @ISA = qw(Platform::Test::Daemon);
readers(qw(port));

my $json = json()->latin1;

my %REASON = (200 => 'OK', 204 => 'No Content', 304 => 'Not Modified',
    404 => 'Not Found', 500 => 'Internal Server Error');

# name, dir, port; handler => sub { my ($request, $server) = @_; ... } gives
#   [status, [name => value, ...], body]   an answer with Content-Length
#   \$bytes                                exactly these bytes, then close
#   sub { ... }                            what it returns, again and again
#   undef                                  close without an answer
# protocol => sub { my ($fh, $server) = @_; ... } replaces HTTP altogether.  With
# alone => 1, and a protocol, each connection has a process of its own.
sub new ($class, %o) {
    my $self = bless { %o, log => "$o{dir}/$o{name}.requests",
        state => "$o{dir}/$o{name}.state" }, $class;
    return $self->set->up;
}

# Starts listening (again).
sub up ($self) {
    return $self if $self->{process};
    my $listener = Platform::Test::Port::listener($self->{port});
    $self->launch(sub { 1 }, log => "$self->{dir}/$self->{name}.log",
        stop_signal => 'KILL', code => sub { $self->_accept($listener) });
    close $listener;    # down() is to refuse at once
    return $self;
}

# Stops listening and drops every connection: connects are now refused.
sub down ($self) { return $self->stop }

# What handlers read as $server->get: merged into what was set before.
sub set ($self, %state) {
    $self->{now} = { %{ $self->{now} // {} }, %state };
    put($self->{state}, $json->encode($self->{now}));
    return $self;
}

sub get ($self) { return $json->decode(slurp($self->{state})) }

# Requests that have arrived so far, oldest first: hashes with method, uri,
# version, headers ([[name, value], ...]), body and at (when it came).
sub requests ($self) { return map { $json->decode($_) } $self->_noted }

sub count ($self) { return scalar(my @all = $self->_noted) }

sub _noted ($self) { return (slurp($self->{log}) // '') =~ /^.*\n/mg }

sub forget ($self) { unlink $self->{log} }

# Waits until the last request came so many seconds ago.
sub quiet ($self, $seconds) {
    my $at = sub { (Time::HiRes::stat($self->{log}))[9] // 0 };
    sleep 0.01 while $at->() + $seconds > Time::HiRes::time();
}

# One process at least waits for a connection, and serves another one afterwards: a fork
# takes longer than most answers.
sub _accept ($self, $listener) {
    $SIG{CHLD} = 'IGNORE';
    $SIG{PIPE} = 'IGNORE';
    my $parent = getppid;
    my $again = $self->{handler} && !$self->{alone};
    pipe my $from, my $to or die "pipe: $!\n";
    my $select = IO::Select->new($from);
    my $idle = 0;
    while (getppid == $parent) {
        if (!$idle) {
            my $pid = fork // die "fork: $!\n";
            $self->_work($listener, $to, $again) if $pid == 0;
            $idle = 1;
        }
        $select->can_read(0.5) or next;
        sysread $from, my $told, 100;
        $idle += ($told =~ tr/i//) - ($told =~ tr/b//);
    }
    kill 'KILL', -$$;
}

sub _work ($self, $listener, $to, $again) {
    $SIG{CHLD} = 'DEFAULT';
    do {
        my $fh = $listener->accept;
        syswrite $to, 'b';
        alarm 120;
        eval { ($self->{protocol} // \&_http)->($fh, $self); 1 }
            or print STDERR "$self->{name}: $@";
        close $fh;
        alarm 0;
        syswrite $to, 'i' if $again;
    } while $again;
    _exit(0);
}

# In a protocol => sub: reads until the head of a request is there, notes it and
# returns it with what else came; undef where the client went away.
sub read_head ($self, $fh) {
    my $in = '';
    _more($fh, \$in) or return undef until $in =~ /\r\n\r\n/;
    $self->note({ head => $in });
    return $in;
}

sub note ($self, $request) {
    open my $fh, '>>', $self->{log} or die "$self->{log}: $!\n";
    syswrite $fh, $json->encode({ at => time, %$request }) . "\n";
}

sub _http ($fh, $self) {
    binmode $fh;
    my $buf = '';
    while (my $request = _read_request($fh, \$buf)) {
        $self->note($request);
        my $answer = $self->{handler}->($request, $self) // return;
        return print {$fh} $$answer if ref $answer eq 'SCALAR';
        while (ref $answer eq 'CODE') {
            print {$fh} $answer->() // return or return;
        }
        my $close = header($request, 'connection') =~ /close/i
            || $request->{version} eq '1.0';
        print {$fh} response_bytes(@$answer[ 0 .. 2 ], close => $close,
            head => $request->{method} eq 'HEAD') or return;
        return if $close;
    }
}

# The bytes of an answer; truncate => N sends that much of the body only.
sub response_bytes ($status, $headers = undef, $body = undef, %o) {
    my $out = "HTTP/1.1 $status " . ($REASON{$status} // 'Status') . "\r\n";
    my @h = @{ $headers // [] };
    my %given = map { lc $_ => 1 } pairkeys @h;
    push @h, 'Content-Length' => length($body // '')
        unless $given{'content-length'} || $status =~ /^(?:1..|204|304)$/;
    push @h, Connection => $o{close} ? 'close' : 'keep-alive' unless $given{connection};
    $out .= join '', pairmap {"$a: $b\r\n"} @h;
    $body //= '';
    $body = substr $body, 0, $o{truncate} if defined $o{truncate};
    return "$out\r\n" . ($o{head} ? '' : $body);
}

# A request as it came, or undef at the end of the connection.
sub _read_request ($fh, $buf) {
    _more($fh, $buf) or return undef until $$buf =~ s/\A(.*?\r\n)\r\n//s;
    my ($line, @lines) = split /\r\n/, $1;
    my %request = (body => '', headers => [ map { [ /\A([^:]*):[ \t]*(.*)\z/s ] } @lines ]);
    @request{qw(method uri version)} = $line =~ m{^(\S+) (.*) HTTP/(\d\.\d)$};
    return Platform::Test::Response::take_body(\%request, $buf, sub { _more($fh, $buf) }) // 1
        ? \%request : undef;
}

sub _more ($fh, $buf) { return sysread $fh, $$buf, 65536, length $$buf }

# First value of a header of a request as logged, or an empty string; all of them.
sub header ($request, $name) { return (header_all($request, $name))[0] // '' }

*header_all = \&Platform::Test::Response::header_all;

# The answer of an echo: what arrived, as JSON, header lines in order with
# duplicates; "?status=N" and "?delay=S" in the URI do what they say, "?hold" waits
# as long as the state has hold.
sub echo ($request, $server = undef) {
    my ($status) = $request->{uri} =~ /[?&]status=(\d+)/;
    my ($delay) = $request->{uri} =~ /[?&]delay=([\d.]+)/;
    sleep $delay if $delay;
    sleep 0.02 while $request->{uri} =~ /[?&]hold\b/ && $server->get->{hold};
    return [ $status // 200, [ 'Content-Type' => 'application/json' ],
        $json->encode($request) ];
}

# The answer of an issuer, as its state says: body, status, headers
# ([name => value, ...]), delay (seconds), hold (as long as it is set; what is
# answered then is what was set when the request came), truncate (bytes of the body that
# are sent although Content-Length announces all), raw (exact bytes, closes).
sub issue ($request, $server, $s = $server->get) {
    sleep $s->{delay} if $s->{delay};
    sleep 0.02 while $s->{hold} && $server->get->{hold};
    return undef if $s->{hangup};
    return \$s->{raw} if defined $s->{raw};

    my $headers = $s->{headers} // [ 'Content-Type' => 'application/json',
            'Cache-Control' => 'public, max-age=300' ];
    my @answer = ($s->{status} // 200, $headers, $s->{body} // '');
    return \@answer unless defined $s->{truncate};
    my $bytes = response_bytes(@answer, truncate => $s->{truncate});
    return \$bytes;
}

1;

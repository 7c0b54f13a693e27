package Bench::Gateway::Variants;

# What is compared: an installation of the gateway as tools/render makes it, and the
# same nginx without the module, which does by its own directives what the gateway was seen
# to do: proxies as many headers of the same lengths, answers with the same headers and
# body, logs the same members.  The second one is written from the answers of the first and
# the other lines of its files, and both are compared before anything is measured.

use strict;
use warnings;

use Bench::Gateway::Round;
use IO::Socket::SSL;
use Platform::Test;

our $ORIGIN = 'https://app.test';
our $API = 'https://api.test';
our @ALGS = qw(RS256 ES256 EdDSA);
our @CLIENT = (Accept => 'application/json', 'User-Agent' => 'bench/1.0');

# Members of the log that bare nginx has variables for; the others are
# written as the gateway logged them.
my %VARIABLE = (
    time      => '"$time_iso8601"',  requestId     => '"$request_id"',
    clientIp  => '"$remote_addr"',   correlationId => '"$request_id"',
    method    => '"$request_method"', path         => '"$uri"',
    status    => '$status',          bytes         => '$bytes_sent',
    userAgent => '"$http_user_agent"', durationMs  => '$request_time',
    upstreamAddr       => '"$upstream_addr"',
    upstreamStatus     => '$upstream_status',
    upstreamDurationMs => '$upstream_response_time',
);

# The route of an installation that is measured, and its public copy.
our ($ROUTE, $OPEN) = qw(/api/workspaces/ /open/);

# run_in => [command], for nginx without a master; revocations => true: a
# gateway reads a feed.
sub new {
    my ($class, $t, $tokens, %o) = @_;

    my $self = bless { t => $t, tokens => $tokens, %o }, $class;
    $t->write_file('keys.json', jwks($tokens->key,
        map { $tokens->key_for($_) } @ALGS));
    $self->_start('up', 0, <<'CONF');
    server {
        listen 127.0.0.1:%%PORT_up%%;
        keepalive_requests 1000000000;
        default_type application/json;
        location = /.well-known/jwks.json {
            alias %%DIR%%/keys.json;
        }
        location / {
            return 200 '{"data":[{"id":1,"name":"one"},{"id":2,"name":"two"},{"id":3,"name":"three"}]}';
        }
    }
CONF
    $t->echo_upstream('echo');
    my $feed = $t->http_server('feed', undef, protocol => sub { my ($fh) = @_;
        Platform::Test::Fcgi::serve($fh, sub { "Status: 200 OK\r\n\r\n"
            . '{"cursor":"p","more":false,"revocations":[]}' });
    });
    system("taskset -pc $Bench::Gateway::Round::LOAD_CORE @{[ $feed->pid ]} >/dev/null");
    return $self;
}

# Starts an nginx of one worker on its core.  Its nginx.conf is a short one, as an
# installation has its own; the rest is nginx's default.
sub _start {
    my ($self, $name, $loaded, $servers) = @_;

    my $t = $self->{t};
    my $core = $name eq 'up' ? $Bench::Gateway::Round::LOAD_CORE
        : $Bench::Gateway::Round::GATEWAY_CORE;
    my $mask = '1' . '0' x $core;
    my $user = $> == 0 ? 'user root;' : '';
    my $run_in = $name eq 'up' ? undef : $self->{run_in};
    my $master = $run_in ? 'master_process off;' : '';
    # Where requests are counted, no new connection is among them.
    my $keep = $run_in ? 'keepalive_requests 1000000000;' : '';
    my $load = $loaded
        ? 'load_module ' . Platform::Test::Env::module() . ';' : '';
    my $temp = join "\n", map {"    ${_}_temp_path %%DIR%%/$name/$_;"}
        qw(client_body proxy fastcgi uwsgi scgi);
    my $nginx = $t->nginx_conf(<<"CONF", $name);
daemon off;
$master
pid %%DIR%%/$name.pid;
error_log %%DIR%%/$name.error.log warn;
$user
$load
worker_processes 1;
worker_cpu_affinity $mask;
events { worker_connections 4096; }
http {
$temp
    default_type application/octet-stream;
    server_tokens off;
    access_log off;
    $keep
$servers
}
CONF
    return $t->start_nginx($name) if !$run_in;
    $self->{process}{$name} = $t->track(Platform::Test::Process->start(
        name => $name, dir => $t->dir, log => $t->dir . "/$name.out.log",
        cmd  => [ (map {s/%n/$name/r} @$run_in), $nginx->_command ]));
    return eventually(sub { -s $nginx->{pidfile} }, 60)
        || die "$name did not start\n";
}

# Renders an installation's files, with all defaults: settings say where everything is, and
# %set the rest.  Counted requests have no polls of the feed among them.
sub _render {
    my ($self, $name, %set) = @_;

    my $t = $self->{t};
    my $etc = $self->{etc}{$name} = $t->dir . "/$name.etc";
    my $at = sub { return '127.0.0.1:' . $t->port($_[0]) };
    my %env = (
        HTTP_PORT => $t->port($name), METRICS_LISTEN => $at->("metrics_$name"),
        GATEWAY_ACCESS_LOG => $t->dir . "/$name.access.log",
        GATEWAY_KEY_CACHE => $t->dir . "/$name.keys", RUN_DIR => $t->dir,
        IDENTITY_UPSTREAM => $at->('feed'), IDENTITY_URL => 'http://' . $at->('up'),
        PLATFORM_JWT_ISSUER => $Platform::Test::Jwt::ISSUER,
        PLATFORM_ENTITLEMENT_URL => 'http://' . $at->('up'),
        PLATFORM_CORS_ALLOWED_ORIGINS => $ORIGIN,
        ($self->{run_in} ? (PLATFORM_REVOCATIONS_ENABLED => 'false') : ()), %set);
    $t->write_file("$name.etc/gateway.env", join '', map {"$_=$env{$_}\n"} sort keys %env);
    $t->write_file("$name.etc/identity.env", 'HTTP_PORT=' . $t->port("face_$name") . "\n");
    local %ENV = (PATH => $ENV{PATH}, NGINX => Platform::Test::Env::nginx());
    system($t->root . '/tools/render', '--installed', '--sysconfdir', $etc) == 0
        or die "tools/render failed\n";
    return $etc;
}

sub _rendered {
    my ($self, $name, $file) = @_;

    return $self->{t}->read_file("$self->{etc}{$name}/nginx/$file");
}

# The location of the rendered route, for another path, and maybe another upstream.
sub _location {
    my ($self, $name, $path, $to) = @_;

    my ($text) = $self->_rendered($name, 'gateway-entitlement.conf')
        =~ m{^(location \Q$ROUTE\E \{\n.*?^\}\n)}ms or die "no location $ROUTE\n";
    $text =~ s/\Q$ROUTE\E/$path/;
    $text =~ s/(platform_gateway_access) branch;/$1 public;/ && $text =~ s/ +\w+_assertion .*\n//
        if $path =~ /\Q$OPEN\E\z/;
    $text =~ s{proxy_pass http://platform_entitlement;}{proxy_pass $to;} if $to;
    return $text;
}

# A gateway.  cache => what its cache has room for, more => the number of further issuers,
# set => settings beside the defaults, http => lines of http{}.  What no setting is for is in
# routes.d and http.d, as an operator has it.
sub gateway {
    my ($self, $name, %o) = @_;

    my $t = $self->{t};
    my $etc = $self->_render($name, %{ $o{set} // {} });
    my ($feed, $location) = $self->_feed;
    my $echo = 'http://127.0.0.1:' . $t->port('echo');
    $t->write_file("$name.etc/http.d/bench.conf", $t->expand(join "\n", $feed, $o{http} // '',
        $o{cache} ? "platform_gateway_token_cache $o{cache};" : '', map {
            "platform_gateway_trust more$_ { issuer https://more$_.test; key_file %%DIR%%/keys.json; }"
        } 1 .. ($o{more} // 0)));
    $t->write_file("$name.etc/routes.d/bench.conf", $t->expand(join "\n", $location,
        $self->_location($name, $OPEN),
        map { $self->_location($name, "/seen$_", $echo) } $ROUTE, $OPEN));
    $self->_start($name, 1, join "\n",
        map {"    include $etc/nginx/$_.conf;"} qw(platform-http gateway identity));
    eventually(sub {
        $self->client($name)->request(GET => '/readyz')->status == 200;
    }, 120) or die "$name is not ready\n";
    # The lines of these questions are not left to what is measured.
    eventually(sub { $t->nginx($name)->access_log =~ m{"/readyz","status":200,} }, 60)
        or die "$name logs nothing\n";
    return $self;
}

# The directives of a feed that tells of 1,000 ended sessions, and its location.
# The gateway reads it before anything is measured, and then not again.
sub _feed {
    my ($self) = @_;

    return ('', '') if !$self->{revocations};
    my $dies = time + 86400;
    $self->{t}->write_file('feed', sprintf
        '{"cursor":"p","more":false,"revocations":[%s]}', join ',', map {
            sprintf '{"id":"%s","dies_at":%d}', uuid(0x1000000 + $_), $dies
        } 1 .. 1000);
    return (<<'FEED', <<'LOCATION');
    platform_gateway_revocations zone=revocations:16m uri=/_revocations
        interval=60s;
    platform_gateway_revocations_stale refuse after=3600s;
FEED
        location = /_revocations {
            internal;
            platform_gateway_access public;
            alias %%DIR%%/feed;
            subrequest_output_buffer_size 1m;
        }
LOCATION
}

# -- requests -------------------------------------------------------------------

my @PREFLIGHT = (Origin => $ORIGIN, 'Access-Control-Request-Method' => 'GET',
    'Access-Control-Request-Headers' => 'authorization');

# Ids that the client brings, of the length of those made here.
my @IDS = map { ($_ => '0123456789abcdef' x 2) }
    qw(X-Request-Id X-Correlation-Id);

# A kind of request: method, path, headers, status of the answer.  A proof is for the
# path behind the prefix.
sub request {
    my ($self, $kind, $prefix) = @_;

    return { method => 'GET', path => "${ROUTE}x", status => 200, headers => [
        Authorization => 'DPoP ' . $self->{tokens}->one('bound'),
        DPoP => $self->{tokens}->proof($API . ($prefix // '') . "${ROUTE}x") ] }
        if $kind eq 'bound';
    return { method => 'GET', path => "${OPEN}x", headers => [],
        status => 200 } if $kind eq 'public';
    return { method => 'OPTIONS', path => "${ROUTE}x",
        headers => \@PREFLIGHT, status => 204 } if $kind eq 'preflight';
    return { method => 'GET', path => "${ROUTE}x", headers => [],
        status => 401 } if $kind eq 'none';
    return { method => 'GET', path => "${ROUTE}x", headers => [ Authorization =>
        'Bearer ' . $self->{tokens}->fresh($kind) ], status => 200 }
        if grep { $_ eq $kind } @ALGS;
    return { method => 'GET', path => "${ROUTE}x",
        headers => [ ($kind eq 'kept' ? @IDS : ()), Authorization => 'Bearer '
            . $self->{tokens}->one($kind) ],
        status => $kind eq 'forged' ? 401 : 200 };
}

# The port of an instance for a kind of request: a bare nginx has one for each.
sub port {
    my ($self, $instance, $kind) = @_;

    return $self->{t}->port($self->{servers}{$instance}
        ? "${instance}_$kind" : $instance);
}

# A connection for requests of a kind, by TLS with a certificate where the instance asks for one.
sub client {
    my ($self, $instance, $kind) = @_;

    return Platform::Test::Http->new(port => $self->port($instance, $kind)) if $instance ne 'asks';
    return Platform::Test::Http->new(fh => IO::Socket::SSL->new(
        PeerAddr => '127.0.0.1:' . $self->port($instance), SSL_verify_mode => SSL_VERIFY_NONE,
        SSL_cert_file => $self->{tokens}->certificate, SSL_key_file => $self->{tokens}->key_file('ES256'))
        || die "TLS: $SSL_ERROR\n");
}

# A case for Bench::Gateway::Round; list => a file of tokens, order, seconds.
sub case {
    my ($self, $name, $instance, $kind, %o) = @_;

    my $request = $self->request($kind);
    my @headers = (@CLIENT, $o{list} ? () : @{ $request->{headers} });
    return {
        %o,
        name    => $name,
        pid     => ($self->{t}->nginx($instance)->workers)[0],
        log     => $self->{t}->nginx($instance)->{access},
        master  => $self->{t}->nginx($instance)->pid,
        url     => 'http://127.0.0.1:' . $self->port($instance, $kind)
            . $request->{path},
        headers => [ map {"$headers[2 * $_]: $headers[2 * $_ + 1]"}
            0 .. $#headers / 2 ],
        method      => $request->{method},
        status      => $request->{status},
        connections => 32,
    };
}

# -- what the gateway does, seen from both sides ------------------------------

sub ask {
    my ($self, $instance, $kind, $prefix) = @_;

    my $request = $self->request($kind, $prefix);
    my $res = http($self->port($instance, $kind), $request->{method},
        ($prefix // '') . $request->{path},
        headers => [ @CLIENT, @{ $request->{headers} } ]);
    die "$instance, $kind: " . $res->status . ' ' . $res->body . "\n"
        if $res->status != $request->{status};
    return $res;
}

# Header lines that nginx itself writes or passes on from the upstream.
my %NGINX = map { $_ => 1 } qw(server date content-type content-length
    transfer-encoding connection);
# And those of a request that come from the client or from the route's own lines.
my %GIVEN = map { $_ => 1 } qw(host connection accept user-agent
    x-forwarded-for x-forwarded-host x-forwarded-proto);

# What an nginx does with a request: what its upstream sees, what the client
# gets, and the line of its log.
sub observe {
    my ($self, $instance, $kind) = @_;

    my $log = $self->{t}->nginx($instance)->{access};
    truncate $log, 0;
    my @lines;
    my $logged = sub {
        my ($count) = @_;
        eventually(sub {
            open my $fh, '<', $log or die "$log: $!\n";
            @lines = grep {m{"path":"[^"]*/x".*\n}} <$fh>;
            return @lines == $count;
        }, 30) or die "$instance, $kind: not $count lines in the log\n";
    };
    my $res = $self->ask($instance, $kind);
    $logged->(1);
    my $line = $lines[0];
    my @sent = ();
    if ($res->status == 200) {
        @sent = grep { !$GIVEN{ lc $_->[0] } }
            @{ $self->ask($instance, $kind, '/seen')->json->{headers} };
        $logged->(2);
    }
    return {
        status => $res->status,
        body   => $res->body,
        route  => $self->request($kind)->{path} =~ s/x\z//r,
        type   => $res->header('Content-Type') // '',
        id     => $res->header('X-Request-Id') // '',
        added  => [ grep { !$NGINX{ lc $_->[0] } } $res->headers ],
        sent   => \@sent,
        log    => $line,
    };
}

# -- the same by nginx alone ---------------------------------------------------

sub _quoted {
    my ($seen, $value, $id) = @_;

    die "nginx cannot write '$value'\n" if $value =~ /\$|\n/;
    $value =~ s/(["\\])/\\$1/g;
    $value =~ s/\Q$seen->{id}\E/$id/g if length $seen->{id};
    return qq("$value");
}

# A log_format with the members of the gateway's line.
sub _log_format {
    my ($name, $seen, $id) = @_;

    my $line = $seen->{log};
    chomp $line;
    my $value = qr/"(?:[^"\\]|\\.)*"|[^,"}]+/;
    my @members = $line =~ /("\w+":$value)/g;
    '{' . join(',', @members) . '}' eq $line
        or die "cannot read the log line $line\n";
    for (@members) {
        my ($member, $is) = /^"(\w+)":(.*)$/s;
        my $variable = $VARIABLE{$member};
        next if !$variable || $is eq 'null';
        $_ = qq("$member":$variable);
        s/\$request_id/$id/;
    }
    return "    log_format $name escape=json '{" . join(',', @members)
        . "}';\n";
}

# What is left of a rendered text for an nginx without the module.
sub _without {
    my ($text) = @_;

    return $text =~ s/^.*(?:platform_gateway|\$platform_|^include ).*\n//mgr;
}

# A server that does the same as the gateway did, by the other lines of the same files.  An
# id that the client brought comes from the request, any other is nginx's own.
sub _server {
    my ($self, $instance, $name, $seen) = @_;

    my $id = $seen->{id} eq $IDS[1] ? '$http_x_request_id' : '$request_id';
    my $add = join '', map {
        "        add_header $_->[0] " . _quoted($seen, $_->[1], $id)
            . " always;\n"
    } @{ $seen->{added} };
    my $set = join '', map {
        "    proxy_set_header $_->[0] " . _quoted($seen, $_->[1], $id)
            . ";\n"
    } @{ $seen->{sent} }, [ Authorization => '' ],
        $name =~ /bound/ ? [ DPoP => '' ] : ();
    my $type = $seen->{type} ? "default_type $seen->{type};" : '';
    my $gateway = $self->_rendered($self->{model}, 'gateway.conf');
    my ($first) = $gateway =~ /^(server \{.*?)^    include /ms;
    my ($limits, $log) = (join("\n", $first =~ /^( *client_\w+ .*;)$/mg),
        $first =~ /access_log \S+ platform\b(.*);/);
    my $locations = $seen->{status} == 200
        ? join '', map {
            _without($self->_location($self->{model}, @$_)) =~ s/(\{\n)/$1$set/r
        } [ $seen->{route} ],
        [ "/seen$seen->{route}", 'http://127.0.0.1:%%PORT_echo%%' ]
        : "location / { return $seen->{status} " . (length $seen->{body}
            ? _quoted($seen, $seen->{body}, $id) : '') . '; }';
    return _log_format($name, $seen, $id) . <<"CONF";
    server {
        listen 127.0.0.1:%%PORT_$name%%;
        access_log %%DIR%%/$instance.access.log $name$log;
        $type
$limits
$add
$locations
    }
CONF
}

# Starts an nginx without the module, with a server for each thing seen: name
# => what it was.
sub bare {
    my ($self, $instance, %seen) = @_;

    $self->{servers}{$instance} = 1;
    $self->_start($instance, 0, join '', _without($self->_rendered($self->{model},
        'platform-http.conf')), map { $self->_server($instance, $_, $seen{$_}) } sort keys %seen);
    return $self;
}

# The gateway and the bare nginx that does the same with these kinds.
sub both {
    my ($self, $gateway, $bare, @kinds) = @_;

    $self->{model} = $gateway;
    $self->{seen} = { map { $_ => $self->observe($gateway, $_) } @kinds };
    $self->bare($bare, map {; "${bare}_$_" => $self->{seen}{$_} } @kinds);
    $self->_compare($_, $self->{seen}{$_}, $self->observe($bare, $_))
        for @kinds;
    return $self;
}

sub _shape {
    my (@headers) = @_;

    return join "\n",
        sort map { lc($_->[0]) . ' of ' . length($_->[1]) . ' bytes' }
        @headers;
}

# Dies unless the bare nginx did the same as the gateway.
sub _compare {
    my ($self, $name, $ours, $bare) = @_;

    my @members = map { join ',', /"(\w+)":/g } $ours->{log}, $bare->{log};
    my %same = (
        'the status'             => [ map { $_->{status} } $ours, $bare ],
        'what is sent upstream'  => [ map { _shape(@{ $_->{sent} }) } $ours, $bare ],
        'the headers of answers' => [ map { _shape(@{ $_->{added} }) } $ours, $bare ],
        'the type of answers'    => [ map { $_->{type} } $ours, $bare ],
        'the length of answers'  => [ map { length $_->{body} } $ours, $bare ],
        'the members of the log' => \@members,
    );
    for my $what (sort keys %same) {
        my ($one, $other) = @{ $same{$what} };
        die "$name: bare nginx differs in $what:\n$one\n---\n$other\n"
            if $one ne $other;
    }
    return;
}

1;

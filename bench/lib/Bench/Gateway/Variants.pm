package Bench::Gateway::Variants;

# What is compared: nginx with the gateway module, and the same nginx without
# it that does by its own directives what the gateway was seen to do: proxies
# as many headers of the same lengths, answers with the same headers and body,
# logs the same members.  The second one is written from the answers of the
# first, and both are compared before anything is measured.

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

my $PROXY = <<'CONF';
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_set_header Host $http_host;
    proxy_set_header X-Forwarded-For $remote_addr;
    proxy_set_header X-Forwarded-Host $http_host;
    proxy_set_header X-Forwarded-Proto $scheme;
CONF

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
        default_type application/json;
        location / {
            return 200 '{"data":[{"id":1,"name":"one"},{"id":2,"name":"two"},{"id":3,"name":"three"}]}';
        }
    }
CONF
    $t->echo_upstream('echo');
    return $self;
}

# Starts an nginx of one worker on its core.
sub _start {
    my ($self, $name, $loaded, $servers) = @_;

    my $t = $self->{t};
    my $core = $name eq 'up' ? $Bench::Gateway::Round::LOAD_CORE
        : $Bench::Gateway::Round::GATEWAY_CORE;
    my $mask = '1' . '0' x $core;
    my $user = $> == 0 ? 'user root;' : '';
    my $run_in = $name eq 'up' ? undef : $self->{run_in};
    my $master = $run_in ? 'master_process off;' : '';
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
    server_tokens off;
    keepalive_requests 1000000000;
    large_client_header_buffers 4 64k;
    access_log off;
    upstream u {
        server 127.0.0.1:%%PORT_up%%;
        keepalive 512;
        keepalive_requests 1000000000;
    }
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

# A gateway with that line for its cache, and with more issuers than ours, and
# maybe one that signs assertions, or that asks for certificates on a port of TLS.
sub gateway {
    my ($self, $name, $cache, $more, $signs, $asks) = @_;

    if ($signs) {
        chmod 0600, $self->{t}->write_file('assertion.pem',
            $self->{tokens}->key_for('ES256')->private_pem);
        $signs = 'platform_gateway_assertion audience=business;'
            . ' platform_gateway_assertion_key %%DIR%%/assertion.pem;';
    }
    $signs //= '';
    $asks = $asks ? "listen 127.0.0.1:%%PORT_${name}_tls%% ssl; ssl_verify_client optional_no_ca;"
        . ' platform_gateway_client_certificate connection;'
        . " ssl_certificate @{[ $self->{tokens}->certificate ]};"
        . " ssl_certificate_key @{[ $self->{tokens}->key_file('ES256') ]};" : '';

    my $issuers = join "\n", map {
        "platform_gateway_trust more$_ { issuer https://more$_.test; key_file %%DIR%%/keys.json; }"
    } 1 .. ($more // 0);
    $cache = $cache ? "platform_gateway_token_cache $cache;" : '';
    my ($feed, $location) = $self->_feed;
    $self->_start($name, 1, <<"CONF");
    platform_gateway_key_file %%DIR%%/keys.json;
    platform_gateway_proof zone=proofs:8m;
    $signs
    $cache
    $issuers
    $feed
    log_format platform escape=none '\$platform_access_json';
    server {
        listen 127.0.0.1:%%PORT_$name%%;
        $asks
        access_log %%DIR%%/$name.access.log platform;
        platform_gateway on;
        platform_gateway_issuer $Platform::Test::Jwt::ISSUER;
        platform_gateway_forward_authorization off;
        platform_gateway_cors_origins $ORIGIN;
        platform_gateway_route business business-service;
$PROXY
        location /api/ {
            platform_gateway_access branch;
            proxy_pass http://u;
        }
        location /open/ {
            platform_gateway_access public;
            proxy_pass http://u;
        }
        location /bound/ {
            platform_gateway_access branch;
            platform_gateway_proof_origin $API;
            proxy_pass http://u;
        }
        location /seen/bound/ {
            platform_gateway_access branch;
            platform_gateway_proof_origin $API;
            proxy_pass http://127.0.0.1:%%PORT_echo%%;
        }
        location /seen/api/ {
            platform_gateway_access branch;
            proxy_pass http://127.0.0.1:%%PORT_echo%%;
        }
        location /seen/open/ {
            platform_gateway_access public;
            proxy_pass http://127.0.0.1:%%PORT_echo%%;
        }
        location = /ready {
            platform_gateway_access public;
            platform_gateway_ready;
        }
        $location
    }
CONF
    eventually(sub {
        http_get($self->{t}->port($name), '/ready')->status == 200;
    }, 120) or die "$name is not ready\n";
    return $self;
}

# The directives of a feed that tells of 10,000 ended sessions, and its location.
# The gateway reads it before anything is measured, and then not again.
sub _feed {
    my ($self) = @_;

    return ('', '') if !$self->{revocations};
    my $dies = time + 86400;
    $self->{t}->write_file('feed', sprintf
        '{"cursor":"p","more":false,"revocations":[%s]}', join ',', map {
            sprintf '{"id":"%s","dies_at":%d}', uuid(0x1000000 + $_), $dies
        } 1 .. 10_000);
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

    return { method => 'GET', path => '/bound/x', status => 200, headers => [
        Authorization => 'DPoP ' . $self->{tokens}->one('bound'),
        DPoP => $self->{tokens}->proof($API . ($prefix // '') . '/bound/x') ] }
        if $kind eq 'bound';
    return { method => 'GET', path => '/open/x', headers => [],
        status => 200 } if $kind eq 'public';
    return { method => 'OPTIONS', path => '/api/x',
        headers => \@PREFLIGHT, status => 204 } if $kind eq 'preflight';
    return { method => 'GET', path => '/api/x', headers => [],
        status => 401 } if $kind eq 'none';
    return { method => 'GET', path => '/api/x', headers => [ Authorization =>
        'Bearer ' . $self->{tokens}->fresh($kind) ], status => 200 }
        if grep { $_ eq $kind } @ALGS;
    return { method => 'GET', path => '/api/x',
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
        PeerAddr => '127.0.0.1:' . $self->{t}->port('asks_tls'), SSL_verify_mode => SSL_VERIFY_NONE,
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
# And those of a request that come from the client or from $PROXY.
my %GIVEN = map { $_ => 1 } qw(host connection accept user-agent
    x-forwarded-for x-forwarded-host x-forwarded-proto);

# What an nginx does with a request: what its upstream sees, what the client
# gets, and the line of its log.
sub observe {
    my ($self, $instance, $kind) = @_;

    my $log = $self->{t}->nginx($instance)->{access};
    truncate $log, 0;
    my $res = $self->ask($instance, $kind);
    my $line = '';
    eventually(sub {
        open my $fh, '<', $log or die "$log: $!\n";
        $line = <$fh> // '';
        return $line =~ /\n/;
    }, 10);
    my @sent = $res->status != 200 ? () : grep { !$GIVEN{ lc $_->[0] } }
        @{ $self->ask($instance, $kind, '/seen')->json->{headers} };
    return {
        status => $res->status,
        body   => $res->body,
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

# A server that does the same as the gateway did.  An id that the client brought comes
# from the request, any other is nginx's own.
sub _server {
    my ($instance, $name, $seen) = @_;

    my $id = $seen->{id} eq $IDS[1] ? '$http_x_request_id' : '$request_id';
    my $add = join '', map {
        "        add_header $_->[0] " . _quoted($seen, $_->[1], $id)
            . " always;\n"
    } @{ $seen->{added} };
    my $set = join '', map {
        "        proxy_set_header $_->[0] " . _quoted($seen, $_->[1], $id)
            . ";\n"
    } @{ $seen->{sent} };
    my $return = $seen->{status} == 200 ? '' : "return $seen->{status} "
        . (length $seen->{body} ? _quoted($seen, $seen->{body}, $id) : '')
        . ';';
    my $type = $seen->{type} ? "default_type $seen->{type};" : '';
    my $no_proof = $name =~ /bound/ ? 'proxy_set_header DPoP "";' : '';
    my ($to, $echo) = $return ? ($return, $return)
        : ('proxy_pass http://u;',
            'proxy_pass http://127.0.0.1:%%PORT_echo%%;');
    return _log_format($name, $seen, $id) . <<"CONF";
    server {
        listen 127.0.0.1:%%PORT_$name%%;
        access_log %%DIR%%/$instance.access.log $name;
        $type
$PROXY
        proxy_set_header Authorization "";
        $no_proof
$set$add
        location / { $to }
        location /seen/ { $echo }
    }
CONF
}

# Starts an nginx without the module, with a server for each thing seen: name
# => what it was.
sub bare {
    my ($self, $instance, %seen) = @_;

    $self->{servers}{$instance} = 1;
    $self->_start($instance, 0, join '',
        map { _server($instance, $_, $seen{$_}) } sort keys %seen);
    return $self;
}

# The gateway and the bare nginx that does the same with these kinds.
sub both {
    my ($self, @kinds) = @_;

    $self->gateway('gateway');
    $self->{seen} = { map { $_ => $self->observe('gateway', $_) } @kinds };
    $self->bare('bare', map {; "bare_$_" => $self->{seen}{$_} } @kinds);
    $self->_compare($_, $self->{seen}{$_}, $self->observe('bare', $_))
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

package Platform::Test::Gateway;

# One gateway with the key set of the issuer stub: what its tests have in
# common, so that each shows only the configuration it is about.  Further
# methods of Platform::Test, which loads this file.

package Platform::Test;

use v5.36;

use Test::More ();

use Platform::Test::Http;
use Platform::Test::Jwt;

my $GATEWAY = <<'CONF';
%%GLOBALS%%
<main>
events { }
http {
    %%GLOBALS_HTTP%%
    %%PLATFORM_LOG%%
    <buffers>
    <issuer>
    <http>
    server {
        listen 127.0.0.1:%%PORT_gateway%%;
        platform_gateway on;
        <keys>
        location = /ready {
            platform_gateway_access public;
            platform_gateway_ready;
        }
        <server>
    }
}
CONF

my $KEYS = <<'CONF';
platform_gateway_key_location /keys;
        location = /keys {
            internal;
            platform_gateway off;
            proxy_pass http://127.0.0.1:%%PORT_issuer%%;
            proxy_pass_request_headers off;
            subrequest_output_buffer_size 64k;
        }
CONF

# Most tests of a gateway begin with these: (test, key, its issuer, echo upstream).
sub gateway ($class) {
    my $t = $class->new;
    my $key = jwt_key('a');
    return ($t, $key, $t->issuer(body => jwks($key)), $t->echo_upstream);
}

# Writes that configuration around the lines of its server; http => those of
# http{} (with an issuer of their own, or the stub's; alone => they have blocks of
# issuers, and no issuer is beside these), main => those above, buffers => the
# large_client_header_buffers (2 24k, as README has it, if not given; '' for none).  A
# line "pass LOCATION: DIRECTIVES" is a location with them, and those of the lines
# below it that are indented more, that passes to the echo upstream, "pass LOCATION
# to NAME: ..." to that server of the test.  Returns the nginx object.
sub gateway_conf ($self, $server, %o) {
    my $http = $o{http} // '';
    my %part = (
        main   => $o{main} // '',
        http   => $http,
        server => $server,
        keys   => $o{alone} ? '' : $KEYS,
        buffers => _buffers(%o),
        issuer => $o{alone} || $http =~ /^\s*platform_gateway_issuer\s/m ? ''
            : "platform_gateway_issuer $Platform::Test::Jwt::ISSUER;",
    );
    for my $text (@part{qw(http server)}) {
        1 while $text =~ s{^([ \t]*)pass ([^:\n]+?)(?: to (\w+))?: *(.*(?:\n\1[ \t]+\S.*)*)}
            {"$1location $2 { $4 %%TO_" . ($3 // 'upstream') . '%% }'}em;
    }
    return $self->nginx_conf($GATEWAY =~ s/<(\w+)>/$part{$1}/gr);
}

# What a location needs that takes tokens of 16k.
sub _buffers (%o) {
    my $size = $o{buffers} // '2 24k';
    return $size && "large_client_header_buffers $size;";
}

# nginx -t of a server with a location /here; http, server, location => lines
# of those blocks, buffers as above: (passed, what it said).
sub location_test ($self, %in) {
    my ($http, $server, $location) = map { $_ // '' } @in{qw(http server location)};
    my $nginx = $self->nginx_conf("%%GLOBALS%%\nevents { }\nhttp { %%GLOBALS_HTTP%%\n"
        . _buffers(%in) . "\n$http\n"
        . "server { listen 127.0.0.1:%%PORT_gateway%%;\n$server\n"
        . "location /here { $location\n } } }", 'check');
    my @result = $nginx->test;
    unlink $nginx->{log};
    delete $self->{nginx}{check};
    return @result;
}

# Starts it; one test that it has its keys.  Returns its port.
sub start_gateway ($self) {
    $self->start_nginx;
    $self->gateway_ready;
    return $self->port('gateway');
}

# One test: the gateway has its keys, at once or soon.
sub gateway_ready ($self, $name = 'ready') {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return Test::More::ok(eventually(sub {
        http_get($self->port('gateway'), '/ready')->status == 200 }), $name);
}

# Echoes that speak FastCGI, SCGI and uwsgi, and %%ECHO_LOCATIONS%%: /fastcgi,
# /scgi and /uwsgi, which pass to them.
sub echo_protocols ($self) {
    return $self->set(ECHO_LOCATIONS => join '', map {
        my ($start, $param) = ("echo_$_", "${_}_param");
        "location /$_ { ${_}_pass 127.0.0.1:" . $self->$start->port . ';'
            . " $param CONTENT_LENGTH \$content_length; $param REQUEST_METHOD \$request_method; }\n"
    } qw(fastcgi scgi uwsgi));
}

# The line of a response in the JSON access log; {} if none comes.
sub logged ($self, $res, $nginx = $self->nginx) {
    my $id = $res->header('X-Request-Id');
    return eventually(sub {
        my ($line) = $nginx->access_log
            =~ /^(.*"requestId":"\Q$id\E".*)\n/m or return undef;
        return Platform::Test::Env::json()->utf8->decode($line);
    }) || {};
}

1;

package Bench::Peers;

# Other ways to have tokens checked in front of a service, each an nginx with one worker:
# bare (checks nothing), auth_request (a service in Node, t/node/auth_request.mjs), kjdev
# and nginx_jwt (modules, built from the sources that the user has), and this gateway.
# All read the keys of one issuer, which the caller controls, and keep them equally long.

use strict;
use warnings;

use Bench::Gateway::Round;
use Bench::Gateway::Tokens;
use Platform::Test;
use Platform::Test::Revocations;

our $ISSUER = $Platform::Test::Jwt::ISSUER;

# max_age => seconds that keys are good for; entries => of the small cache; nginx => what
# make module left of another nginx; kjdev, nginx_jwt => sources.
sub new {
    my ($class, %o) = @_;

    my $objs = $o{nginx} && "$o{nginx}/objs";
    my $module = $o{kjdev} && _module($o{kjdev}, $o{nginx});
    my $binary = $o{nginx_jwt} && _nginx_jwt($o{nginx_jwt});
    my $self = bless { t => Platform::Test->new(disk => 1, timeout => 3600),
        tokens => Bench::Gateway::Tokens->new,
        binary => $objs && "$objs/nginx", module => $objs
            ? "$objs/ngx_http_platform_gateway_module.so" : Platform::Test::Env::module(), %o }, $class;
    my $t = $self->{t};
    $self->{issuer} = $t->issuer;
    $self->publish($o{max_age}, $self->{tokens}->key);
    $self->{feed} = revocations_feed($t);
    $t->echo_upstream('echo');
    $self->_nginx('up', <<'CONF');
    server {
        listen 127.0.0.1:%%PORT_up%%;
        location / { return 200 "good"; }
    }
CONF
    $self->_server('bare', '', 'proxy_set_header X-Account-Id 0b5b6c1e-0000-4000-8000-000000000001;');
    $self->_auth_request;
    $self->_auth_jwt('kjdev', module => $module) if $module;
    $self->_auth_jwt('nginx_jwt', binary => $binary) if $binary;
    $self->_gateway('gateway');
    $self->_gateway('gateway_small', "platform_gateway_token_cache entries=$o{entries};");
    return $self;
}

# All that check, and those whose cost is measured; instance => where that of tokens that
# come once is.
sub names { return grep { $_[0]{there}{$_} } qw(bare auth_request kjdev nginx_jwt gateway) }

sub once { return $_[1] eq 'gateway' ? 'gateway_small' : $_[1] }

sub t { return $_[0]{t} }

# What the issuer has from now on: keys, and how long they are good for.
sub publish {
    my ($self, $max_age, @keys) = @_;

    return $self->{issuer}->set(body => jwks(@keys), headers =>
        [ 'Content-Type' => 'application/json', 'Cache-Control' => "max-age=$max_age" ]);
}

# -- servers --------------------------------------------------------------------

sub _nginx {
    my ($self, $name, $servers, %o) = @_;

    my $core = $name eq 'up' ? $Bench::Gateway::Round::LOAD_CORE
        : $Bench::Gateway::Round::GATEWAY_CORE;
    my $mask = '1' . '0' x $core;
    my $user = $> == 0 ? 'user root;' : '';
    my $load = $o{module} ? "load_module $o{module};" : '';
    my $temp = join "\n", map {"    ${_}_temp_path %%DIR%%/$name/$_;"}
        qw(client_body proxy fastcgi uwsgi scgi);
    my $nginx = $self->{t}->nginx_conf(<<"CONF", $name);
daemon off;
pid %%DIR%%/$name.pid;
error_log %%DIR%%/$name.error.log warn;
$user
$load
worker_processes 1;
worker_cpu_affinity $mask;
events { worker_connections 4096; }
http {
$temp
    keepalive_requests 1000000000;
    large_client_header_buffers 4 64k;
    log_format status '{"status":\$status,"request":"\$request"}';
    access_log %%DIR%%/$name.access.log status;
    proxy_http_version 1.1;
    upstream u {
        server 127.0.0.1:%%PORT_up%%;
        keepalive 512;
        keepalive_requests 1000000000;
    }
$servers
}
CONF
    $nginx->{binary} = $o{binary} // $self->{binary};
    $self->{t}->start_nginx($name);
    $self->{there}{$name} = 1;
    return;
}

# An nginx with lines for its server, and for its guarded and its public locations; http =>
# further lines.
sub _server {
    my ($self, $name, $server, $guarded, $public, %o) = @_;

    my $http = $o{http} // '';
    $public //= '';
    my $to = sub { return join "\n", map {
        qq(        location $_->[0] { proxy_set_header Connection ""; $_[0] proxy_pass $_->[1]; })}
        [ "/$_[1]/", 'http://u' ], [ "/seen/$_[1]/", 'http://127.0.0.1:%%PORT_echo%%' ] };
    return $self->_nginx($name, <<"CONF", %o);
    $http
    server {
        listen 127.0.0.1:%%PORT_$name%%;
        $server
@{[ $to->($guarded, 'api'), "\n", $to->($public, 'open') ]}
    }
CONF
}

sub _auth_request {
    my ($self) = @_;

    my $t = $self->{t};
    my ($port, $keys) = map { $t->port($_) } qw(node issuer);
    $self->{node} = $t->process(node => ok_status => ['any'], cmd => [ 'taskset', '-c',
        $Bench::Gateway::Round::GATEWAY_CORE, Platform::Test::Env::node(),
        Platform::Test::Env::root() . '/t/node/auth_request.mjs', $port,
        "http://127.0.0.1:$keys/jwks.json", $ISSUER, 1000 * $self->{max_age} ]);
    eventually(sub { eval { http_get($port, '/')->status } }, 20) or die "node did not start\n";
    return $self->_server('auth_request', <<'SERVER', <<'GUARDED', '', http => <<'HTTP');
        location = /_auth {
            internal;
            proxy_pass http://node/;
            proxy_pass_request_body off;
            proxy_set_header Content-Length "";
            proxy_set_header Connection "";
        }
SERVER
            auth_request /_auth;
            auth_request_set $account $upstream_http_x_account_id;
            proxy_set_header X-Account-Id $account;
GUARDED
    upstream node {
        server 127.0.0.1:%%PORT_node%%;
        keepalive 64;
        keepalive_requests 1000000000;
    }
HTTP
}

# A module with the directives of the commercial one.  Its key set comes as kjdev's manual
# has it, through a cache; nginx's own reads a file, which nobody writes anew.
sub _auth_jwt {
    my ($self, $name, %o) = @_;

    my $requests = $name eq 'kjdev';
    $self->{t}->write_file('auth_jwt.json', jwks($self->{tokens}->key));
    my $keys = $requests ? qq(auth_jwt_key_request /_keys; auth_jwt_require_claim iss eq "$ISSUER";) : 'auth_jwt_key_file %%DIR%%/auth_jwt.json;';
    my $location = $requests ? 'location = /_keys { internal; proxy_cache keys;'
        . ' proxy_pass http://127.0.0.1:%%PORT_issuer%%/jwks.json; }' : '';
    return $self->_server($name, $location, <<"GUARDED", '', %o, http =>
            auth_jwt api;
            $keys
            proxy_set_header X-Account-Id \$jwt_claim_account_id;
GUARDED
        'proxy_cache_path %%DIR%%/kjdev-cache keys_zone=keys:1m;');
}

sub _gateway {
    my ($self, $name, $cache) = @_;

    $cache //= '';
    return $self->_server($name, <<'SERVER', 'platform_gateway_access branch;',
        platform_gateway on;
        platform_gateway_key_location /_keys;
        location = /_keys {
            internal;
            platform_gateway_access public;
            proxy_pass http://127.0.0.1:%%PORT_issuer%%/jwks.json;
            subrequest_output_buffer_size 64k;
        }
        location = /_revocations {
            internal;
            platform_gateway_access public;
            proxy_pass http://127.0.0.1:%%PORT_feed%%/internal/revocations;
            subrequest_output_buffer_size 1m;
        }
SERVER
        'platform_gateway_access public;', module => $self->{module}, http => <<"HTTP");
    platform_gateway_issuer $ISSUER;
    platform_gateway_key_soft_age $self->{max_age}s;
    platform_gateway_revocations zone=revocations:1m uri=/_revocations;
    platform_gateway_forward_authorization off;
    $cache
HTTP
}

# -- builds -----------------------------------------------------------------------

# A directory, after a script has built in it; the script gets it, and further arguments.
sub _build {
    my ($name, $script, @args) = @_;

    my $dir = Platform::Test::Env::build() . "/peers/$name";
    my $log = "$dir.log";
    system('mkdir', '-p', $dir) == 0 or die "mkdir $dir failed\n";
    system('sh', '-euc', "exec >'$log' 2>&1\n$script", 'sh', $dir, @args) == 0
        or die "$name: its build failed: $log\n";
    return $dir;
}

# kjdev/nginx-auth-jwt, with its submodules.
sub _module {
    my ($source, $nginx) = @_;

    -f "$source/src/ngx_http_auth_jwt_module.c"
        or die "--kjdev $source: not the sources of kjdev/nginx-auth-jwt\n";
    -f "$source/$_/config.ngx" or die "--kjdev $source: its submodule $_ is missing\n"
        for qw(nxe-json nxe-jwx);
    return _build('kjdev', 'tools/nginx-objs "$2" "$3" "$4" "$1"; cd "$1"; make -f objs/Makefile modules',
        $nginx ? "$nginx/objs/nginx" : Platform::Test::Env::nginx(),
        $nginx // Platform::Test::Env::config('NGINX_SRC'), $source)
        . '/objs/ngx_http_auth_jwt_module.so';
}

# An nginx with a module of its own; nginx/nginx 1324 asks for one.
sub _nginx_jwt {
    my ($source) = @_;

    -f "$source/src/http/modules/ngx_http_auth_jwt_module.c"
        or die "--nginx-jwt $source: no nginx that has src/http/modules/ngx_http_auth_jwt_module.c\n";
    my ($with) = qx{cat '$source/auto/options'} =~ /(--with-http_auth_jwt_module)/;
    return _build('nginx_jwt', 'cp -R "$2/." "$1"; cd "$1"; auto/configure --with-http_ssl_module $3; make',
        $source, $with // '') . '/objs/nginx';
}

# -- requests ---------------------------------------------------------------------

# An answer to a token.
sub ask {
    my ($self, $name, $token, %o) = @_;

    return http($self->{t}->port($name), GET => $o{path} // '/api/x', headers => [
        $token ? (Authorization => "Bearer $token") : (), @{ $o{headers} // [] } ]);
}

# A case for Bench::Gateway::Round.
sub case {
    my ($self, $name, %o) = @_;

    my $instance = $o{list} ? $self->once($name) : $name;
    my $nginx = $self->{t}->nginx($instance);
    return { name => $name, pid => ($nginx->workers)[0], log => $nginx->{access}, status => 200,
        beside => $name eq 'auth_request' ? [ $self->{node}->pid ] : [],
        url => 'http://127.0.0.1:' . $self->{t}->port($instance) . '/api/x',
        method => 'GET', connections => 32, list => $o{list}, headers => $o{list} ? []
            : [ 'Authorization: Bearer ' . $self->{tokens}->one('good') ] };
}

1;

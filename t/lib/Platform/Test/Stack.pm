package Platform::Test::Stack;

# Larger settings: the identity face alone, and the whole platform.  These
# are further methods of Platform::Test.

package Platform::Test;

use strict;
use warnings;

sub fcgi { my ($self, $address) = @_; return Platform::Test::Fcgi->new($address) }

sub echo_fastcgi {
    my ($self, $name) = @_;

    return $self->http_server($name // 'fastcgi', undef,
        protocol => \&Platform::Test::Fcgi::echo_fastcgi);
}

sub echo_scgi {
    my ($self, $name) = @_;

    return $self->http_server($name // 'scgi', undef,
        protocol => \&Platform::Test::Fcgi::echo_scgi);
}

sub echo_uwsgi {
    my ($self, $name) = @_;

    return $self->http_server($name // 'uwsgi', undef,
        protocol => \&Platform::Test::Fcgi::echo_uwsgi);
}

# The identity face on port "identity": what {identity_url} is, without
# limits, CORS or a gateway.
sub identity_face {
    my ($self, %env) = @_;

    my $identity = $self->identity(%env);
    $self->set(IDENTITY_ADDRESS => $identity->nginx_address);
    $self->nginx_conf(<<'CONF', 'face');
%%GLOBALS%%
events { }
http {
    %%GLOBALS_HTTP%%
    platform_gateway on;
    platform_gateway_access public;
    client_max_body_size 1m;
    server {
        listen 127.0.0.1:%%PORT_identity%%;
        location / {
            include %%ROOT%%/nginx.conf.d/identity_fastcgi_params;
            fastcgi_pass %%IDENTITY_ADDRESS%%;
        }
    }
}
CONF
    $self->start_nginx('face');
    return $identity;
}

1;

package Platform::Test::Keys;

# A gateway whose key set comes from an issuer that the test controls.

use strict;
use warnings;

use Platform::Test;

use Exporter qw(import);
our @EXPORT = qw(
    keys_gateway keys_get keys_failures keys_connection past
);

my $CONF = <<'CONF';
%%GLOBALS%%
%%MAIN%%
events { worker_connections 2048; }
http {
    %%GLOBALS_HTTP%%
    keepalive_timeout 60s;
    platform_gateway on;
    platform_gateway_issuer http://issuer.test;
    platform_gateway_access public;
    %%KEYS%%
    server {
        listen 127.0.0.1:%%PORT_gateway%%;
        %%SOURCE%%
        location = /_keys {
            internal;
            proxy_pass http://127.0.0.1:%%PORT_issuer%%/jwks.json;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_pass_request_headers off;
            subrequest_output_buffer_size 64k;
            %%LOCATION%%
        }
        location /branch { platform_gateway_access branch; empty_gif; }
        location = /readyz { platform_gateway_ready; }
        location / { empty_gif; }
    }
}
CONF

# Writes the configuration: keys => directives of the key set, location =>
# further ones of the key location, main => of the whole (2 workers if not
# given), source => of the server instead of the key location's.  Returns the
# nginx object.
sub keys_gateway {
    my ($t, %o) = @_;

    # A fetch may take longer than the default wait on a busy machine.
    my $keys = $o{keys} // '';
    $keys .= ' platform_gateway_key_wait 20s;' if $keys !~ /key_wait\b/;

    $t->set(
        MAIN     => $o{main} // 'worker_processes 2;',
        KEYS     => $keys,
        LOCATION => $o{location} // '',
        SOURCE   => $o{source} // 'platform_gateway_key_location /_keys;',
    );
    return $t->nginx_conf($CONF);
}

# A guarded request with a fresh branch token of that key.
sub keys_get {
    my ($t, $key, %claims) = @_;

    return http_get($t->port('gateway'), '/branch',
        token => jwt_token('branch', $key, %claims));
}

# A minute ago in whole seconds, for the iat of a token that is older than any
# fetch.
sub past { return CORE::time() - 60 }

# Has the process an established connection to the issuer?  The bytes that have
# arrived there and are not read yet, in hex; empty: it has none.
sub keys_connection {
    my ($t, $pid) = @_;

    my $hex = sprintf '%04X', $t->port('issuer');
    open my $fh, '<', "/proc/$pid/net/tcp" or return '';
    my %unread = map { $_->[9] => $_->[4] =~ s/.*://r }
        grep { $_->[2] =~ /:$hex$/ && $_->[3] =~ /^0[18]$/ }
        map { [ split ' ' ] } <$fh>;
    my ($inode) = grep { defined $unread{$_} }
        map { (readlink // '') =~ /socket:\[(\d+)\]/ } glob "/proc/$pid/fd/*";
    return defined $inode ? $unread{$inode} : '';
}

# Lines of the error log that say why a fetch gave no key set.
sub keys_failures {
    my ($t) = @_;

    return grep {/platform gateway: key set not /}
        split /\n/, $t->nginx->error_log;
}

1;

package Platform::Test::Keys;

# A gateway whose key set comes from an issuer that the test controls.

use v5.36;

use Test::More ();
use Time::HiRes ();

use Platform::Test;
use Platform::Test::Clock;
use Platform::Test::Metrics;

use Exporter qw(import);
our @EXPORT = qw(
    keys_test keys_gateway keys_begin keys_get keys_are keys_until keys_send keys_hold
    keys_refetch keys_pass keys_now keys_failures keys_metric keys_connection past
);

my $CONF = <<'CONF';
%%GLOBALS%%
%%MAIN%%
events { worker_connections 2048; }
http {
    %%GLOBALS_HTTP%%
    large_client_header_buffers 2 24k;
    keepalive_timeout 60s;
    platform_gateway on;
    platform_gateway_issuer http://issuer.test;
    platform_gateway_access public;
    %%KEYS%%
    server {
        listen 127.0.0.1:%%PORT_gateway%%;
        %%SOURCE%%
        location = /_keys {
            %%FETCHED%%
            proxy_pass http://127.0.0.1:%%PORT_issuer%%/jwks.json;
            subrequest_output_buffer_size 64k;
            %%LOCATION%%
        }
        location /branch { platform_gateway_access branch; empty_gif; }
        location = /readyz { platform_gateway_ready; }
        location / { empty_gif; }
    }
    server { listen 127.0.0.1:%%PORT_metrics%%; location / { platform_gateway_metrics; } }
}
CONF

# A fetch may take longer than the default wait on a busy machine.
my %AGES = (cooldown => '1s', soft_age => '60s', wait => '20s');

# A test, an issuer that has the first of the keys of those names, and the keys.
sub keys_test (@names) {
    my $t = Platform::Test->new;
    my @keys = map { jwt_key($_) } @names;
    return ($t, $t->issuer(body => jwks($keys[0])), @keys);
}

# Writes the configuration: main => lines of the whole (2 workers if not given);
# cooldown, soft_age, hard_age, wait, waiters => of platform_gateway_key_...;
# http => of http{}; source => of the server in place of the key location's, and
# server => beside it; location => of the key location; change => [pattern =>
# text, ...]: what is replaced in all that.  Returns the nginx object.
sub keys_gateway ($t, %o) {
    my %age = (%AGES, map { exists $o{$_} ? ($_ => $o{$_}) : () }
        qw(cooldown soft_age hard_age wait waiters));
    $t->set(
        MAIN => $o{main} // 'worker_processes 2;', LOCATION => $o{location} // '',
        KEYS => join("\n", $o{http} // '',
            map {"platform_gateway_key_$_ $age{$_};"} sort keys %age),
        SOURCE => ($o{server} // '') . "\n"
            . ($o{source} // 'platform_gateway_key_location /_keys;'),
    );
    my $text = $t->expand($CONF);
    my @change = @{ $o{change} // [] };
    while (my ($from, $to) = splice @change, 0, 2) {
        $text =~ s/$from/$to/g or die "no $from\n";
    }
    my $nginx = $t->nginx_conf($text);
    $t->{clock} //= Platform::Test::Clock->new($t, $nginx);
    return $nginx;
}

# The gateway's time in whole seconds, and so many pass at once.
sub keys_now { return CORE::time() + $Platform::Test::Jwt::AHEAD }

sub keys_pass ($t, $seconds) { return $t->{clock}->pass($seconds) }

# Starts a gateway with that configuration, in place of the one that runs.
sub keys_begin ($t, %o) {
    keys_gateway($t, %o);
    return $t->start_nginx;
}

# A guarded request with a fresh branch token of that key.
my %token;

sub _request ($key, %claims) {
    my $same = join ' ', keys_now(), $key->kid, %claims;
    $token{$same} //= jwt_token('branch', $key, %claims);
    return (GET => '/branch', token => $token{$same});
}

sub keys_get ($t, @token) {
    return http($t->port('gateway'), _request(@token));
}

# One test: such requests get these statuses: [status, token ...], ...
sub keys_are ($t, $name, @cases) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return Test::More::is_deeply([ map { keys_get($t, @$_[ 1 .. $#$_ ])->status } @cases ],
        [ map { $_->[0] } @cases ], $name);
}

# One test: such a request gets that status, at once or soon.
sub keys_until ($t, $name, $status, @token) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return Test::More::ok(eventually(sub { keys_get($t, @token)->status == $status }), $name);
}

# A guarded request sent on a connection of its own, which is returned.
sub keys_send ($t, @token) {
    my $c = Platform::Test::Http->new(port => $t->port('gateway'));
    $c->send(http_request_bytes(_request(@token)));
    return $c;
}

# A minute ago in whole seconds, for the iat of a token that is older than any
# fetch.
sub past { return keys_now() - 60 }

# One test: after $begin, a fetch arrives at that issuer, which lets it wait until
# set(hold => 0).
sub keys_hold ($issuer, $begin = undef) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $count = $issuer->count;
    $issuer->set(hold => 1);
    $begin->() if $begin;
    return Test::More::ok(eventually(sub { $issuer->count > $count }), 'a fetch is on its way');
}

# The cooldown passes, and tokens of an unknown key come until one has brought a fetch
# from that issuer.  Returns those requests, still waiting.
sub keys_refetch ($t, $issuer) {
    my $count = $issuer->count;
    keys_pass($t, 2);
    my @c;
    eventually(sub {
        push @c, keys_send($t, jwt_key('c')->as('unknown'), iat => past());
        Time::HiRes::sleep(0.1);
        return $issuer->count > $count;
    }) or die "no fetch\n";
    return @c;
}

# The connection of the process to the issuer: the bytes that have arrived there and
# are not read yet, in hex; empty if it has no connection.
sub keys_connection ($t, $pid) {
    my $hex = sprintf '%04X', $t->port('issuer');
    open my $fh, '<', "/proc/$pid/net/tcp" or return '';
    my %unread = map { $_->[9] => $_->[4] =~ s/.*://r }
        grep { $_->[2] =~ /:$hex$/ && $_->[3] =~ /^0[18]$/ }
        map { [ split ' ' ] } <$fh>;
    my ($inode) = grep { defined $unread{$_} }
        map { (readlink // '') =~ /socket:\[(\d+)\]/ } glob "/proc/$pid/fd/*";
    return defined $inode ? $unread{$inode} : '';
}

# Lines of the error log: why a fetch gave no key set.
sub keys_failures ($t) {
    return grep {/platform gateway: key set not /} split /\n/, $t->nginx->error_log;
}

# The fetches that had that outcome, as the metrics count them.
sub keys_metric ($t, $outcome) {
    return metrics_scrape($t->port('metrics'), '/')
        ->{qq(platform_gateway_key_fetches_total{outcome="$outcome"})};
}

1;

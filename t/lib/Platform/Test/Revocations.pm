package Platform::Test::Revocations;

# A gateway that reads revocations from a feed that the test controls.

use v5.36;

use JSON::PP;
use List::Util qw(max min);
use Time::HiRes qw(time);

use Platform::Test;
use Platform::Test::Metrics;

use Exporter qw(import);
our @EXPORT = qw(
    revocations_feed revocations_gateway revocations_conf revocations_metrics
    revocations_many revocations_page revoked_id revoked_subject
);

my $json = JSON::PP->new->canonical;

# A feed (port "feed").  Its state: many => number of entries, of the sessions
# revocations_many(0) and so on, then all => [entries], of which a page has up
# to page of those that came after the cursor (its number); skew => seconds that
# its clock is ahead; issuer => whose it is, as its pages say; and what an issuer's
# is told (Platform::Test::Server).  known => a name in the cursors: others get 400.
# fill => [text, n]: the text and n spaces, length => what Content-Length says of
# that.  drip => 1: a space now and then, as long as that is set; endless => 1: ever
# more pages of nothing.
sub revocations_feed ($t, %state) {
    return $t->http_server('feed', \&_answer)
        ->set(all => [], many => 0, page => 1000, known => 'a', %state);
}

sub revocations_many ($n) { return uuid(0x1000000 + $n) }

sub _answer ($request, $server) {
    my $s = $server->get;
    my ($known, $from) = ($s->{known}, 0);
    if ($request->{uri} =~ /[?]after=(.*)/) {
        my $cursor = $1;
        ($from) = $cursor =~ /\A\Q$known\E:(\d+)\z/ or return [ 400, [], '' ];
    }
    if (my $fill = $s->{fill}) {
        my $length = defined $s->{length} ? "Content-Length: $s->{length}\r\n" : '';
        return \("HTTP/1.1 200 OK\r\n$length\r\n$fill->[0]" . ' ' x $fill->[1]);
    }
    if ($s->{drip}) {
        my @head = "HTTP/1.1 200 OK\r\n\r\n";
        return sub {
            Time::HiRes::sleep(0.1);
            return shift @head // ($server->get->{drip} ? ' ' : undef);
        };
    }
    if ($s->{endless}) {
        return [ 200, [], revocations_page([], cursor => "$known:" . ($from + 1), more => 1) ];
    }
    $s->{body} //= do {
        my ($many, @all) = ($s->{many}, @{ $s->{all} });
        my $to = min($from + $s->{page}, $many + @all);
        my $dies = int(time) + 900;
        my @rest = @all[ max($from - $many, 0) .. $to - $many - 1 ];
        my $listed = join ',', map { sprintf '{"id":"%s","dies_at":%d}',
            revocations_many($_), $dies } $from .. min($to, $many) - 1;
        $listed .= ',' if $listed && @rest;
        revocations_page(\@rest, cursor => "$known:$to", more => $to < $many + @all,
            issuer => $s->{issuer}, now => time + ($s->{skew} // 0)) =~ s/\[/[$listed/r;
    };
    return Platform::Test::Server::issue($request, $server,
        { headers => [ 'Content-Type' => 'application/json' ], %$s });
}

# A page of those entries; cursor, more, now, issuer => its other members.
sub revocations_page ($entries, %o) {
    return $json->encode({
        defined $o{issuer} ? (issuer => $o{issuer}) : (),
        cursor => $o{cursor} // 'a:1',
        more => $o{more} ? JSON::PP::true : JSON::PP::false,
        now => 0 + sprintf('%.3f', $o{now} // time),
        revocations => $entries,
    });
}

# Entries that live for 15 minutes.
sub _entry (%o) {
    return { revoked_at => 0 + sprintf('%.3f', time), dies_at => int(time) + 900, %o };
}

sub revoked_id ($id, %o) { return _entry(id => $id, %o) }

sub revoked_subject ($subject, $before, %o) {
    return _entry(subject => $subject, issued_before => $before, %o);
}

# Writes the configuration, with the issuer's keys in a file (or keys => where
# else): set => parameters of platform_gateway_revocations (undef: none), stale =>
# those of _stale, feed => its port, path => its path, server, http, main => further
# lines.
sub revocations_conf ($t, $key, %o) {
    $t->write_file('keys.json', jwks($key));
    my $path = $o{path} // '/internal/revocations';
    my $feed = $o{feed} // 'feed';
    my $keys = $o{keys} // 'platform_gateway_key_file %%DIR%%/keys.json;';
    my $set = exists $o{set} ? $o{set}
        : 'zone=revocations:1m uri=/_revocations interval=100ms';
    my ($main, $http, $server, $location, $issuer) = map { $_ // '' }
        @o{qw(main http server location issuer)};
    $http .= "\nplatform_gateway_revocations $set;" if defined $set;
    $http .= "\nplatform_gateway_revocations_stale $o{stale};" if $o{stale};
    $main ||= 'worker_processes 2;';
    $issuer ||= $Platform::Test::Jwt::ISSUER;
    return $t->nginx_conf(<<"CONF", $o{name});
%%GLOBALS%%
$main
events { worker_connections 512; }
http {
    %%GLOBALS_HTTP%%
    %%PLATFORM_LOG%%
    large_client_header_buffers 2 24k;
    keepalive_timeout 60s;
    $keys
    platform_gateway_issuer $issuer;
    $http
    server {
        listen 127.0.0.1:%%PORT_gateway%%;
        platform_gateway on;
        platform_gateway_access public;
        location = /_revocations {
            %%FETCHED%%
            proxy_pass http://127.0.0.1:%%PORT_$feed%%$path;
            subrequest_output_buffer_size 1m;
            $location
        }
        location /branch { platform_gateway_access branch; empty_gif; }
        location /account { platform_gateway_access account; empty_gif; }
        location = /ready { platform_gateway_ready; }
        location = /metrics { platform_gateway_metrics; }
        location = /explain { allow 127.0.0.1; deny all; platform_gateway_explain; }
        $server
    }
}
CONF
}

# Starts it; one test that it is ready.
sub revocations_gateway ($t, $key, %o) {
    my $nginx = revocations_conf($t, $key, %o);
    $t->start_gateway;
    return $nginx;
}

# The samples of its metrics, without what all names begin with.
sub revocations_metrics ($t) {
    my $all = metrics_scrape($t->port('gateway'), '/metrics');
    return { map { s/\Aplatform_gateway_//r => $all->{$_} } keys %$all };
}

1;

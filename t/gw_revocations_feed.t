# What a feed may do wrong: none of it blocks a worker, loses what is known or
# keeps what is good from being applied.  What a page may say: check_page; a feed
# that never ends: check_feed.

use Platform::Test;
use Platform::Test::Revocations;

my $t = Platform::Test->new;
my $key = jwt_key('a');
my $feed = revocations_feed($t);
my $port = $t->port('gateway');
my @all;
my $last = 0;

sub status ($session, %claims) {
    my $id = $session =~ /\A\d+\z/ ? uuid($session) : $session;
    return http_get($port, '/branch',
        token => jwt_token('branch', $key, session_id => $id, %claims))->status;
}

# One more session ends; its number.
sub revoke {
    push @all, revoked_id(uuid(++$last), @_);
    $feed->set(all => \@all);
    return $last;
}

sub arrives ($session, $name) {
    return ok eventually(sub { status($session) == 401 }), $name;
}

# All that is known still counts, and nothing else does.
sub holds ($name) {
    is_deeply [ map { status($_) } 1, 1000 ], [ 401, 200 ],
        "$name: what is known is refused, others are let in";
}

sub metric { return revocations_metrics($t)->{"revocation_$_[0]"} }

# What grew of a counter until it did so $n times.
sub grows ($outcome, $n) {
    my $name = qq(fetches_total{outcome="$outcome"});
    my $was = metric($name);
    return eventually(sub { metric($name) >= $was + $n });
}

# A limit that its location inherits, and two fetches use up, is not for them.

my $nginx = revocations_gateway($t, $key,
    http => 'limit_req_zone $remote_addr zone=a:1m rate=1r/m;',
    location => 'limit_req zone=a;
        proxy_read_timeout 1s; proxy_next_upstream off;');
arrives(revoke(), 'control: a good feed');
holds('control');

# Answers that are none.

my $page = revocations_page([ revoked_id(uuid(900)) ]);
my %bad = (
    'garbage'           => { body => "\x00\xff{{{" },
    'less than it says' => { body => $page, truncate => 20 },
    'an open string'    => { fill => [ '{"cursor":"', 900_000 ] },
    'more than a page may have' => { many => 11_000, page => 10_001 },
    'more than 1 MiB'   => { fill => [ $page, 1024 * 1024 ] },
    '100 MB'            => { fill => [ $page, 100_000_000 ], length => 100_000_000 + length $page },
    'a compressed one'  => { body => 'x', headers => [ 'Content-Encoding' => 'gzip' ] },
    (map { $_ => { status => $_, body => $page } } 204, 206, 304, 503),
    'a redirect'        => { status => 302, headers => [ Location => '/' ] },
    'another location'  => { headers => [ 'X-Accel-Redirect' => '/branch' ] },
    'no answer'         => { hangup => 1 },
    'a slow answer'     => { delay => 1.5 },
    'a cursor that does not move' => { body => revocations_page([], cursor => 'a:1', more => 1) },

    # One that never ends, of which some comes all the time.
    'a drip'            => { drip => 1 },
);
my %reset = ((map { $_ => undef } map { keys %$_ } values %bad), many => 0, page => 1000);
for my $name (sort keys %bad) {
    my $session = revoke();
    $feed->set(%{ $bad{$name} });
    ok grows(failed => $name =~ /cursor/ ? 2 : 1), "$name: fails";
    holds($name);
    $feed->set(%reset);
    arrives($session, "$name: then a good one is read");
}
my $log = $nginx->error_log;
like $log, qr/\[error\] .*revocations not read: $_; those already known still count/,
    "the log says why: $_" for 'the document is too large', 'timed out';
like $log, qr/\[notice\] .*revocations are read again/, 'and that it is over';

# At its limits.

$feed->set(page => 10_000, many => 10_000, known => 'full');
arrives(revocations_many($_), "a page of 10,000: number $_") for 0, 9999;
$feed->set(%reset, known => 'less');

# Other ways to send them.

my $sent = revocations_page([ revoked_id(uuid(4000)) ], cursor => 'a:1');
my %bytes = (
    'to the end of the connection' => "HTTP/1.0 200 OK\r\n\r\n$sent",
    'in chunks' => join('', "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n",
        (map { sprintf "\r\n%x\r\n%s", length, $_ } $sent =~ /.{1,9}/g), "\r\n0\r\n\r\n"),
);
my $way = 4000;
for my $name (sort keys %bytes) {
    $feed->set(raw => $bytes{$name} =~ s/\Q${\uuid(4000)}\E/uuid(++$way)/er);
    arrives($way, "sent $name");
}
$feed->set(%reset, raw => undef);

# Times whose difference no number holds.

$feed->set(body => revocations_page([ revoked_id(uuid(5000),
    revoked_at => -9_000_000_000_000_000) ], cursor => 'a:1')
    =~ s/"now":[0-9.]+/"now":9000000000000000/r);
arrives(5000, 'a lag that is none');
$feed->set(%reset);

# A cursor that the feed does not know (any more).

sub from_the_beginning {
    return scalar grep { $_->{uri} eq '/internal/revocations' } $feed->requests;
}
$feed->set(known => 'b');
arrives(revoke(), '400: from the beginning again');
holds('400');
cmp_ok metric('fetches_total{outcome="cursor"}'), '>=', 1, 'which is counted';
my $asked = from_the_beginning();
$feed->set(all => [], known => 'c');
ok eventually(sub { from_the_beginning() > $asked }), 'a feed that lost all';
ok grows(read => 2), 'is read';
holds('and takes nothing back');
$feed->set(status => 400, body => 'no');
ok grows(failed => 2), 'one that always says 400 fails';
$feed->set(%reset, all => \@all);
arrives(revoke(), 'until it does not');

# An issuer's clock that is an hour off: its tokens are not believed in any
# case, and those of a good clock are judged as before.

for my $off (3600, -3600) {
    $feed->set(skew => $off);
    my $sum = metric('lag_seconds_sum{}');
    my $id = revoke(revoked_at => time + $off, dies_at => time + $off + 900);
    arrives(revoke(revoked_at => time + $off), "a clock $off s off: it is read");
    is status($id), 401, 'what dies by it: 401' if $off > 0;
    is status($id, iat => int(time) + $off, exp => int(time) + $off + 900), 401,
        'its tokens are refused';
    holds("a clock $off s off");
    cmp_ok metric('lag_seconds_sum{}') - $sum, '<', 20,
        'the lag is that of the feed, not of two clocks';
}
is metric('zone_full'), 0, 'the zone was not full';

$t->done;

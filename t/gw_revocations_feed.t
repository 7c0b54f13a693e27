# What a feed may do wrong: none of it blocks a worker, loses what is known or
# keeps what is good from being applied.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Revocations;
use Test::More;
use Time::HiRes qw(sleep time);

my $t = Platform::Test->new;
my $key = jwt_key('a');
my $feed = revocations_feed($t);
my $port = $t->port('gateway');
my @all;
my $last = 0;

sub status {
    my ($session) = @_;

    return http_get($port, '/branch',
        token => jwt_token('branch', $key, session_id => uuid($session)))->status;
}

# One more session ends; its number.
sub revoke {
    push @all, revoked_id(uuid(++$last), @_);
    $feed->set(all => \@all);
    return $last;
}

sub arrives {
    my ($session, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return ok eventually(sub { status($session) == 401 }), $name;
}

# What grew of a counter until it did so $n times.
sub grows {
    my ($outcome, $n) = @_;

    my $name = qq(revocation_fetches_total{outcome="$outcome"});
    my $was = revocations_metrics($t)->{$name};
    return eventually(sub { revocations_metrics($t)->{$name} >= $was + $n });
}

# A limit that its location inherits, and two fetches use up, is not for them.

my $nginx = revocations_gateway($t, $key,
    http => 'limit_req_zone $remote_addr zone=a:1m rate=1r/m;',
    location => 'limit_req zone=a;
        proxy_read_timeout 1s; proxy_next_upstream off;');
my $first = revoke();
arrives($first, 'control: a good feed');
is status(1000), 200, 'control: others are let in';

# Answers that are none.

my $good = revoked_id(uuid(900));
my $page = sub { revocations_page([@_]) };
my %bad = (
    'garbage'           => { body => "\x00\xff{{{" },
    'nothing'           => { body => '' },
    'HTML'              => { body => '<html>', headers =>
        [ 'Content-Type' => 'text/html' ] },
    'JSON of another kind' => { body => '{"keys":[]}' },
    'no object'         => { body => '[]' },
    'two documents'     => { body => $page->() x 2 },
    'no end'            => { body => substr $page->($good), 0, -2 },
    'less than it says' => { body => $page->($good), truncate => 20 },
    'nested deeply'     => { body => '[' x 4000 },
    'nested more deeply' => { body => '[' x 50_000 },
    'an open string'    => { fill => [ '{"cursor":"', 900_000 ] },
    'an entry that does not end' => { fill =>
        [ '{"revocations":[{"id":"', 900_000 ] },
    'an entry that is too large' => { body => $page->({ %$good,
        more => 'a' x 5000 }) },
    'no cursor'         => { body => $page->() =~ s/"cursor"/"c"/r },
    'an empty cursor'   => { body => revocations_page([], cursor => '') },
    'a long cursor'     => { body =>
        revocations_page([], cursor => 'a' x 513) },
    'a cursor that would change the request' => { body =>
        revocations_page([], cursor => 'a&b') },
    'a cursor of a header' => { body =>
        revocations_page([], cursor => "a\r\nb") },
    'a cursor with a NUL' => { body => revocations_page([], cursor => "a\0b") },
    'no word of more'   => { body =>
        revocations_page([], cursor => 'a:99999') =~ s/"more"/"m"/r },
    'a word of more that is none' => { body =>
        revocations_page([], cursor => 'a:99999') =~ s/false/0/r },
    'two lists'         => { body =>
        $page->() =~ s/"revocations"/"revocations":[],"revocations"/r },
    'two cursors'       => { body => $page->() =~ s/"cursor"/"cursor":"b","cursor"/r },
    'a list in other words' => { body =>
        $page->({ %$good }) =~ s/"revocations"/"revocation\u0073"/r },
    'an entry with two ids' => { body =>
        $page->($good) =~ s/"id"/"id":"x","id"/r },
    'an entry of an account with another kind of moment' => { body =>
        $page->({ %$good, subject => 'a', issued_before => 'now' }) },
    'more beside the list than a page may have' => { body =>
        $page->() =~ s/"more"/'"a":"' . 'a' x 4096 . '","more"'/er },
    'no list'           => { body =>
        revocations_page([], cursor => 'a:99999') =~ s/\[\]/{}/r },
    'a number in the list' => { body => $page->(1) },
    'a list in the list' => { body => $page->([]) },
    'an entry of nothing' => { body => $page->({}) },
    'no time of death'  => { body => $page->({ id => 'a' }) },
    'a time that is a string' => { body => $page->({ id => 'a',
        dies_at => '9999999999' }) },
    'a time beyond all' => { body =>
        $page->({ id => 'a', dies_at => 1 }) =~ s/"dies_at":1/"dies_at":1e99/r },
    'a time after the year 9999' => { body => $page->({ id => 'a',
        dies_at => 253402300801 }) },
    'a time before 1970' => { body => $page->({ id => 'a', dies_at => -1 }) },
    'a time with an exponent' => { body =>
        $page->({ id => 'a', dies_at => 1 }) =~ s/"dies_at":1/"dies_at":9e9/r },
    'a time with another one' => { body =>
        $page->({ id => 'a', dies_at => 1 }) =~ s/"dies_at":1/"dies_at":9E9/r },
    'a time of more digits than are read' => { body => $page->({ id => 'a',
        dies_at => 1 }) =~ s/"dies_at":1/'"dies_at":9999999999.' . '0' x 90/er },
    'a time of many digits' => { body =>
        $page->({ id => 'a', dies_at => 1 }) =~ s/"dies_at":1/'"dies_at":' . '9' x 60/er },
    'an empty id'       => { body => $page->({ %$good, id => '' }) },
    'an id that is too long' => { body => $page->({ %$good, id => 'a' x 129 }) },
    'an id that is a number' => { body => $page->({ %$good, id => 1 }) },
    'an account without a moment' => { body =>
        $page->({ subject => 'a', dies_at => time + 900 }) },
    'more than a page may have' => { many => 11_000, page => 10_001 },
    'more than 1 MiB'   => { fill => [ $page->(), 1024 * 1024 ] },
    '100 MB'            => { fill => [ $page->(), 100_000_000 ],
        length => 100_000_000 + length $page->() },
    '100 MB, unannounced' => { fill => [ $page->(), 100_000_000 ] },
    'a compressed one'  => { body => 'x', headers =>
        [ 'Content-Encoding' => 'gzip' ] },
    '204'               => { status => 204 },
    '206'               => { status => 206, body => $page->() },
    '304'               => { status => 304 },
    '503'               => { status => 503 },
    '404'               => { status => 404 },
    'a redirect'        => { status => 302, headers => [ Location => '/' ] },
    'another location'  => { headers => [ 'X-Accel-Redirect' => '/branch' ] },
    'no answer'         => { hangup => 1 },
    'a slow answer'     => { delay => 2 },
);
my %reset = ((map { $_ => undef } map { keys %$_ } values %bad),
    many => 0, page => 1000);
for my $name (sort keys %bad) {
    my $session = revoke();
    $feed->set(%{ $bad{$name} });
    ok grows(failed => 1), "$name: fails";
    is status($first), 401, "$name: what is known is refused";
    is status(1000), 200, "$name: others are let in";
    $feed->set(%reset);
    arrives($session, "$name: then a good one is read");
}
like $nginx->error_log, qr/\[error\] .*revocations not read: the document is too large; those already known still count/,
    'the log says why';
like $nginx->error_log, qr/\[notice\] .*revocations are read again/,
    'and that it is over';

# One that never ends, of which some comes all the time.

my $session = revoke();
$feed->set(drip => 1);
ok grows(failed => 1), 'a drip: fails';
is status($first), 401, 'a drip: what is known is refused';
is status(1000), 200, 'a drip: others are let in';
$feed->set(drip => 0);
arrives($session, 'a drip: then a good one is read');
like $nginx->error_log, qr/revocations not read: timed out/, 'the log says it';

# At its limits.

$feed->set(page => 10_000, many => 10_000, known => 'full');
for my $n (0, 5000, 9999) {
    ok eventually(sub {
        http_get($port, '/branch', token => jwt_token('branch', $key,
            session_id => revocations_many($n)))->status == 401;
    }), "a page of 10,000: number $n";
}
$feed->set(%reset, known => 'less');
my $long = 'a' x 128;
push @all, { id => $long, dies_at => int(time) + 900 };
revoke();
ok eventually(sub {
    http_get($port, '/branch', token => jwt_token('branch', $key,
        session_id => $long))->status == 401;
}), 'an id of 128 bytes';

# An entry that is wrong keeps no other one of its page from being applied.

my ($before, $behind) = map { revoked_id(uuid(2000 + $_)) } 1, 2;
$feed->set(body => revocations_page([ $before, { id => '' }, $behind ]));
ok eventually(sub { status(2001) == 401 && status(2002) == 401 }),
    'those around a wrong one hold';
$feed->set(%reset);

# Other spellings of the same.

my %written = (
    'white space' => sub { $_[0] =~ s/([:,\[\]{}])/ \r\n\t$1 /gr },
    'unknown members' => sub {
        $_[0] =~ s/\{"cursor"/{"a":[[1],{"id":"x"}],"b":{"revocations":[{}]},"cursor"/r
            =~ s/\{"dies_at"/{"c":{"d":[]},"e":null,"dies_at"/r },
    'another order' => sub { $_[0] =~ s/"more":false,//r
        =~ s/\}\]\}\z/}],"more":false}/r },
    'escapes' => sub { $_[0] =~ s/-/\\u002d/gr },
);
my $n = 3000;
for my $name (sort keys %written) {
    my $session = ++$n;
    $feed->set(body => $written{$name}->(
        revocations_page([ revoked_id(uuid($session)) ], cursor => 'a:1')));
    arrives($session, "written with $name");
}
$feed->set(%reset);
ok grows(read => 2), 'and on it goes';

# Other ways to send them.

my $sent = revocations_page([ revoked_id(uuid(4000)) ], cursor => 'a:1');
my %bytes = (
    'to the end of the connection' => "HTTP/1.0 200 OK\r\n\r\n$sent",
    'in chunks' => join('', "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n",
        (map { sprintf "\r\n%x\r\n%s", length, $_ } $sent =~ /.{1,9}/g),
        "\r\n0\r\n\r\n"),
    'as text' => "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
        . 'Content-Length: ' . length($sent) . "\r\n\r\n$sent",
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

$feed->set(known => 'b');
arrives(revoke(), '400: from the beginning again');
is status($first), 401, 'with all that was known';
cmp_ok revocations_metrics($t)->{'revocation_fetches_total{outcome="cursor"}'},
    '>=', 1, 'which is counted';
my $asked = () = grep { $_->{uri} eq '/internal/revocations' } $feed->requests;
$feed->set(all => [], known => 'c');
ok eventually(sub {
    my $now = () = grep { $_->{uri} eq '/internal/revocations' }
        $feed->requests;
    $now > $asked;
}), 'a feed that lost all';
ok grows(read => 2), 'is read';
is status($first), 401, 'and takes nothing back';
$feed->set(status => 400, body => 'no');
ok grows(failed => 2), 'one that always says 400 fails';
$feed->set(%reset, all => \@all);
arrives(revoke(), 'until it does not');

# A cursor that stands still although there is more is asked for once an
# interval.

$feed->set(body => revocations_page([], cursor => 'c:1', more => 1));
ok grows(failed => 2), 'a cursor that does not move fails';
$feed->set(%reset);
arrives(revoke(), 'until it does');

# One that always has more and never an entry is asked once an interval, too;
# and it was not read to its end.

$feed->set(endless => 1);
my ($was, $since) = ($feed->count, time);
ok eventually(sub { $feed->count >= $was + 30 }, 30), 'always more, and nothing';
cmp_ok time - $since, '>', 2.5, 'it is asked ten times a second';
cmp_ok revocations_metrics($t)->{'revocation_feed_age_seconds'}, '>', 2.5,
    'and was not read to its end';
$feed->set(endless => 0, known => 'd');
arrives(revoke(), 'until it has no more');

# An issuer's clock that is an hour off: its tokens are not believed in any
# case, and those of a good clock are judged as before.

for my $off (3600, -3600) {
    $feed->set(skew => $off);
    my $count = revocations_metrics($t)->{'revocation_lag_seconds_count{}'};
    my $sum = revocations_metrics($t)->{'revocation_lag_seconds_sum{}'};
    my $id = revoke(revoked_at => time + $off, dies_at => time + $off + 900);
    my $is = $off > 0 ? 401 : 200;
    my $next = revoke(revoked_at => time + $off);
    arrives($next, "a clock $off s off: it is read");
    is status($id), $is, "what dies by it: $is" if $off > 0;
    is http_get($port, '/branch', token => jwt_token('branch', $key,
        session_id => uuid($id), iat => int(time) + $off,
        exp => int(time) + $off + 900))->status, 401,
        'its tokens are refused';
    is status(1000), 200, 'others are let in';
    cmp_ok revocations_metrics($t)->{'revocation_lag_seconds_sum{}'} - $sum,
        '<', 20, 'the lag is that of the feed, not of two clocks';
}
is revocations_metrics($t)->{'revocation_zone_full'}, 0, 'the zone was not full';

$t->done;

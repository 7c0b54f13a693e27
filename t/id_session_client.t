# Whose session it is: its row tells the address and the agent of the login and
# of the last refresh, as the access log has them, bounded and valid UTF-8; a
# switch stores neither.  The refresh is one statement and a HOT update still.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Commands;
use Test::More;

my $t = Platform::Test->new(timeout => 300);
my $pg = $t->postgres(settings => {
    log_statement            => 'all',
    log_parameter_max_length => 0,
});
my $identity = $t->identity(PLATFORM_AUTH_MAX_FAILURES => 0);
my $port = $t->start_face($identity->nginx_address, name => 'face',
    http => 'set_real_ip_from 127.0.0.2; real_ip_header X-Forwarded-For;');
http_get($port, '/healthz');
my $c = Platform::Test::Commands->new(test => $t, env => {});

sub client {
    my ($agent, %o) = @_;

    return (from => $o{from}, headers => [
        (defined $agent ? ('User-Agent' => $agent) : ()),
        (defined $o{for} ? ('X-Forwarded-For' => $o{for}) : ()) ]);
}

sub login {
    my ($account, @client) = @_;

    my $res = http_post($port, '/api/auth/login', json => {
        account => "$account\@demo.test", credential => 'Demo-passw0rd!' },
        client(@client));
    is $res->status, 200, 'a login' or diag $res->body;
    return $res->json;
}

sub refresh {
    my ($session, @client) = @_;

    my $res = http_post($port, '/api/auth/refresh',
        json => { refreshToken => $session->{refreshToken} },
        client(@client));
    is $res->status, 200, 'a refresh' or diag $res->body;
    return $res->json;
}

sub seen {
    my ($session) = @_;

    my $id = (jwt_decode($session->{refreshToken}))[1]{session_id};
    my ($row) = grep { $_->{sessionId} eq $id }
        @{ $c->done(qw(account sessions --all several@demo.test)) };
    return $row;
}

sub is_client {
    my ($session, $what, @want) = @_;

    my $row = seen($session);
    is_deeply [ @$row{qw(address agent loginAddress loginAgent)} ], \@want,
        $what;
    return $row;
}

# At login, and at the last refresh.

my $s = login('several', 'Mozilla/5.0 (X11)');
my $row = is_client($s, 'at login', ('127.0.0.1', 'Mozilla/5.0 (X11)') x 2);
is $row->{usedAt}, $row->{createdAt}, 'last used when it was opened';
$pg->sql("set session_replication_role = replica;
    update auth_sessions set created_at = created_at - interval '1 hour'",
    user => 'postgres');
$s = refresh($s, 'app/2', from => '127.0.0.3');
$row = is_client($s, 'at a refresh', '127.0.0.3', 'app/2', '127.0.0.1',
    'Mozilla/5.0 (X11)');
cmp_ok $row->{usedAt}, 'gt', $row->{createdAt}, 'last used later';
$s = refresh($s, undef, from => '127.0.0.3');
is_client($s, 'at another, without an agent', '127.0.0.3', undef,
    '127.0.0.1', 'Mozilla/5.0 (X11)');
my $branch = $s->{branches}[0]{branchId};
is http_post($port, '/api/auth/select-branch', json => { branchId => $branch },
    token => $s->{accountAccessToken}, client('other'))->status, 200,
    'a selection';
is_client($s, 'is no use', '127.0.0.3', undef, '127.0.0.1',
    'Mozilla/5.0 (X11)');
$s = refresh($s, 'in a branch');
is_client($s, 'a refresh in a branch', '127.0.0.1', 'in a branch',
    '127.0.0.1', 'Mozilla/5.0 (X11)');
$pg->sql("update branches set status = 'INACTIVE'
    where branch_id = '$branch'");
$s = refresh($s, 'scope lost');
is_client($s, 'a refresh of two statements', '127.0.0.1', 'scope lost',
    '127.0.0.1', 'Mozilla/5.0 (X11)');

# Who the client is says nginx, and no header but of a proxy that it trusts.

$s = refresh($s, 'x', for => '203.0.113.7');
is seen($s)->{address}, '127.0.0.1', 'a header of anybody is not believed';
$s = refresh($s, 'x', for => '203.0.113.7', from => '127.0.0.2');
is seen($s)->{address}, '203.0.113.7', 'one of a trusted proxy is';
my ($logged) = grep { ($_->{clientIp} // '') eq '203.0.113.7' }
    $identity->log_lines;
ok $logged, 'as in the log';
$s = refresh($s, 'x', for => '2001:db8::ff', from => '127.0.0.2');
is seen($s)->{address}, '2001:db8::ff', 'IPv6';

# Agents are bounded, and text.

for my $case (
    [ 'long' => 'a' x 4000, 'a' x 255 ],
    [ 'as long as fits' => 'b' x 255, 'b' x 255 ],
    [ 'cut between two characters' => 'c' x 254 . "\xc3\xa9", 'c' x 254 ],
    [ 'that fit' => 'c' x 253 . "\xc3\xa9", 'c' x 253 . "\x{e9}" ],
    [ 'not UTF-8' => "d\xff\xc3(\xed\xa0\x80", "d\x{fffd}\x{fffd}("
        . "\x{fffd}" x 3 ],
    [ 'half of a character' => "e\xe2\x82", "e\x{fffd}" ],
    [ 'emoji' => "\xf0\x9f\x98\x80", "\x{1f600}" ],
    [ 'escapes' => "\e[2J\e]0;x\x07\t|", "\e[2J\e]0;x\x07\t|" ],
    [ 'an attempt' => q(x', jti = '1'; --), q(x', jti = '1'; --) ],
    )
{
    my ($name, $sent, $kept) = @$case;
    $s = refresh($s, $sent);
    is seen($s)->{agent}, $kept, "an agent: $name";
    is seen(login('several', $sent))->{loginAgent}, $kept,
        "an agent at login: $name" if $name =~ /^(?:long|not)/;
}
$s = refresh($s, "two\tcolumns\e[31m");
my ($status, $out) = $c->run(qw(account sessions several@demo.test --limit 1));
like $out, qr/\Asession {31}status    created {15}last used {13}expires/,
    'for people: the columns';
unlike $out, qr/[\t\e]/, 'which no agent breaks';
($status, $out) = $c->run(qw(account sessions several@demo.test));
like $out, qr/ two\?columns\?\[31m$/m, 'it comes last';

# One statement, and HOT.

my $read = length $t->read_file("$pg->{name}.log");
$s = refresh($s, 'counted');
my @names = substr($t->read_file("$pg->{name}.log"), $read)
    =~ /execute (\w+):/g;
is_deeply \@names, ['session_refresh'], 'a refresh: one statement';
is $pg->sql("select count(*) from pg_index i join pg_attribute a
    on a.attrelid = i.indrelid and a.attnum = any (i.indkey)
    where indrelid = 'auth_sessions'::regclass and attname in ('jti',
        'expires_at', 'used_at', 'used_address', 'used_agent',
        'access_until')"), 0,
    'no index has what it writes';
my $counts = "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables
    where relname = 'auth_sessions'";
$pg->sql('vacuum auth_sessions');
my ($updates, $hot) = split /\|/, $pg->sql($counts);
$s = refresh($s, 'agent ' . 'x' x (10 * ($_ % 20))) for 1 .. 60;
my ($more, $more_hot);
ok eventually(sub {
    ($more, $more_hot) = split /\|/, $pg->sql($counts);
    return $more - $updates >= 60;
}), 'sixty refreshes by changing agents';
cmp_ok $more_hot - $hot, '>=', 0.9 * ($more - $updates), 'are HOT';

# Off: neither is stored, at login or refresh.

$identity->stop;
$identity->{env}{PLATFORM_AUTH_SESSION_CLIENT} = 'off';
$identity->start;
my $off = login('several', 'hidden');
$row = is_client($off, 'off: a login', (undef) x 4);
$off = refresh($off, 'hidden');
is_client($off, 'off: a refresh', (undef) x 4);
$s = refresh($s, 'hidden');
$row = is_client($s, 'off: a refresh of one from before', undef, undef,
    '127.0.0.1', 'Mozilla/5.0 (X11)');
ok $row->{usedAt}, 'when it was used is known';
is $pg->sql("select count(*) from auth_sessions where concat(used_agent,
    login_agent) like '%hidden%'"), 0, 'no trace';

# The database refuses what is longer.

for my $column (qw(used_agent login_agent used_address login_address)) {
    my $most = $column =~ /agent/ ? 255 : 63;
    my $set = "update auth_sessions set $column = repeat('x', %d)
        where session_id = (select session_id from auth_sessions
            where status = 'ACTIVE' limit 1) returning true";
    is $pg->sql(sprintf $set, $most), 't', "$column: $most bytes";
    ok !eval { $pg->sql(sprintf $set, $most + 1); 1 }, 'and no more';
}

$t->done;

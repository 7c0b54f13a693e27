# Whose session it is: its row tells the address and the agent of the login and of the
# last refresh, as the access log has them, bounded and valid UTF-8; a switch stores
# neither.  (That a refresh is one HOT update: id_refresh_retry.t.)

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Client;
use Platform::Test::Commands;
use Test::More;

my $t = Platform::Test->new;
my $pg = $t->postgres;
my $identity = $t->identity(PLATFORM_AUTH_MAX_FAILURES => 0);
my $port = $t->start_face($identity->nginx_address, name => 'face',
    http => 'set_real_ip_from 127.0.0.2; real_ip_header X-Forwarded-For;');
client_of($t, $port);
my $c = Platform::Test::Commands->new(test => $t, env => {});

# A client: its agent, from => its address, for => whom it says that it asks for.
sub client {
    my ($agent, %o) = @_;

    return (from => $o{from}, headers => [
        (defined $agent ? ('User-Agent' => $agent) : ()),
        (defined $o{for} ? ('X-Forwarded-For' => $o{for}) : ()) ]);
}

my $s = logged_in('several', client('Mozilla/5.0 (X11)'));

sub refreshed {
    my $res = refresh($s, client(@_));
    $res->status == 200 or die $res->body;
    return $s = $res->json;
}

sub seen {
    my ($session) = @_;

    my ($row) = grep { $_->{sessionId} eq session_of($session) }
        @{ $c->done(qw(account sessions --all several@demo.test)) };
    return $row;
}

sub is_client {
    my ($session, $what, @want) = @_;

    my $row = seen($session);
    is_deeply [ @$row{qw(address agent loginAddress loginAgent)} ], \@want, $what;
    return $row;
}

# -- at login, and at the last refresh

my @opened = ('127.0.0.1', 'Mozilla/5.0 (X11)');
my $row = is_client($s, 'at login', (@opened) x 2);
is $row->{usedAt}, $row->{createdAt}, 'last used when it was opened';
alter($s, "created_at = created_at - interval '1 hour'");
my $branch = $s->{branches}[0]{branchId};
for my $case (
    [ 'at a refresh', '127.0.0.3', 'app/2', sub { refreshed('app/2',
        from => '127.0.0.3') } ],
    [ 'at another, without an agent', '127.0.0.3', undef, sub { refreshed(undef,
        from => '127.0.0.3') } ],
    [ 'a selection is no use', '127.0.0.3', undef, sub { is select_branch($s, $branch,
        client('other'))->status, 200, 'a selection' } ],
    [ 'in a branch', '127.0.0.1', 'b', sub { refreshed('b') } ],
    [ 'of two statements', '127.0.0.1', 'lost', sub { $pg->sql("update branches
        set status = 'INACTIVE' where branch_id = '$branch'"); refreshed('lost') } ],
    # Who the client is says nginx, and no header but of a proxy that it trusts.
    [ 'a header of anybody', '127.0.0.1', 'x', sub { refreshed('x',
        for => '203.0.113.7') } ],
    [ 'one of a trusted proxy', '203.0.113.7', 'x', sub { refreshed('x',
        for => '203.0.113.7', from => '127.0.0.2') } ],
    [ 'IPv6', '2001:db8::ff', 'x', sub { refreshed('x', for => '2001:db8::ff',
        from => '127.0.0.2') } ],
    )
{
    my ($name, $address, $agent, $do) = @$case;
    $do->();
    $row = is_client($s, $name, $address, $agent, @opened);
    cmp_ok $row->{usedAt}, 'gt', $row->{createdAt}, "$name: last used later";
}
ok scalar(grep { ($_->{clientIp} // '') eq '203.0.113.7' } $identity->log_lines),
    'as in the log';

# -- agents are bounded, and text

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
    is seen(refreshed($sent))->{agent}, $kept, "an agent: $name";
    is seen(logged_in('several', client($sent)))->{loginAgent}, $kept,
        "an agent at login: $name" if $name =~ /^(?:long|not)/;
}
refreshed("two\tcolumns\e[31m");
my ($status, $out) = $c->run(qw(account sessions several@demo.test));
like $out, qr/\Asession {31}status    created {15}last used {13}expires/,
    'for people: the columns';
unlike $out, qr/[\t\e]/, 'which no agent breaks';
like $out, qr/ two\?columns\?\[31m$/m, 'it comes last';

# -- no index has what a refresh writes, whatever it is: each is a HOT update

is $pg->sql("select count(*) from pg_index i join pg_attribute a
    on a.attrelid = i.indrelid and a.attnum = any (i.indkey)
    where indrelid = 'auth_sessions'::regclass and attname in ('jti',
        'expires_at', 'used_at', 'used_address', 'used_agent',
        'access_until')"), 0,
    'no index';
# -- off: neither is stored, at login or refresh

restart($identity, AUTH_SESSION_CLIENT => 'off');
my $old = $s;
$s = logged_in('several', client('hidden'));
is_client($s, 'off: a login', (undef) x 4);
is_client(refreshed('hidden'), 'off: a refresh', (undef) x 4);
$s = $old;
$row = is_client(refreshed('hidden'), 'off: one from before', undef, undef, @opened);
ok $row->{usedAt}, 'when it was used is known';
is $pg->sql("select count(*) from auth_sessions where concat(used_agent,
    login_agent) like '%hidden%'"), 0, 'no trace';

# -- the database refuses what is longer

for my $column (qw(used_agent login_agent used_address login_address)) {
    my $most = $column =~ /agent/ ? 255 : 63;
    my $set = "update auth_sessions set $column = repeat('x', %d)
        where session_id = '" . session_of($s) . "' returning true";
    is $pg->sql(sprintf $set, $most), 't', "$column: $most bytes";
    ok !eval { $pg->sql(sprintf $set, $most + 1); 1 }, 'and no more';
}

$t->done;

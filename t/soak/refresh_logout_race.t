# Two thousand sessions, each refreshed twice and logged out at the same time:
# every one ends revoked, and nothing that was handed out works after that.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use Platform::Test;
use Platform::Test::Load;
use Platform::Test::Sessions;
use Test::More;

my $ROUNDS = $ENV{SOAK_ROUNDS} // 2_000;

my $t = Platform::Test->new(timeout => 600);
my $pg = $t->postgres;
$t->identity_face;
my $port = $t->port('identity');
my $key = jwt_key('identity');

# Sessions made by hand: logins would take most of the time.
$pg->sql(<<"SQL");
insert into auth_sessions (session_id, account_id, jti, created_at, expires_at)
select ('00000000-0000-4000-a000-' || to_char(n, 'FM000000000000'))::uuid,
       account_id,
       ('00000000-0000-4000-b000-' || to_char(n, 'FM000000000000'))::uuid,
       date_trunc('second', now()), date_trunc('second', now() + '1 day')
  from accounts, generate_series(1, $ROUNDS) n
 where account_name = 'one\@demo.test'
SQL
my $account = $pg->sql("select account_id from accounts
    where account_name = 'one\@demo.test'");

my @sessions = map {
    my ($id, $jti) = map { sprintf '00000000-0000-4000-%s-%012d', $_->[0],
        $_->[1] } [ 'a000', $_ ], [ 'b000', $_ ];
    { id => $id, current => jwt_token('refresh', $key, session_id => $id,
        jti => $jti, sub => $account, account_id => $account) };
} 1 .. $ROUNDS;

my $load = Platform::Test::Load->new(port => $port, clients => 12);
my @queue = map {
    my $s = $_;
    my @refresh = map { { path => '/api/auth/refresh', session => $s,
        json => { refreshToken => $s->{current} } } } 1 .. 2;
    my $logout = { path => '/api/auth/logout', session => $s,
        json => { refreshToken => $s->{current} } };
    my @all = (@refresh, $logout);
    splice @all, rand 3, 0, splice @all, 2, 1;    # anywhere among them
    @all;
} @sessions;
my (%logout, %refresh, %pairs);
$load->run(sub { shift @queue }, sub {
    my ($request, $answer) = @_;
    my $s = $request->{session};
    if ($request->{path} =~ /logout$/) {
        $logout{ $answer->{status} }++;
        return;
    }
    $refresh{"$answer->{status} $answer->{code}"}++;
    $s->{won}++ if $answer->{status} == 200;
    push @{ $s->{tokens} }, $answer->{body} =~ /"refreshToken":"([^"]+)"/;
});
note explain \%refresh;
is_deeply \%logout, { 200 => $ROUNDS }, 'every logout succeeds';
is_deeply [ sort keys %refresh ], [ '200 AUTH_REFRESH_SUCCESS',
    '401 AUTH_REFRESH_TOKEN_STALE', '401 AUTH_SESSION_NOT_ACTIVE' ],
    'a refresh comes first, second, or too late';
cmp_ok $refresh{$_}, '>=', $ROUNDS / 100, "$_: $refresh{$_}"
    for '200 AUTH_REFRESH_SUCCESS', '401 AUTH_SESSION_NOT_ACTIVE';
is scalar(grep { ($_->{won} // 0) > 1 } @sessions), 0,
    'of two refreshes with one token at most one succeeds';
is $pg->sql("select count(*) from auth_sessions
    where session_id >= '00000000-0000-4000-a000-000000000000'
      and session_id < '00000000-0000-4000-b000-000000000000'
      and status = 'REVOKED'"), $ROUNDS, 'every session ends revoked';

my @tokens = map { @{ $_->{tokens} // [] } } @sessions;
my %after;
$load->run(
    sub {
        my $token = shift @tokens // return undef;
        return { path => '/api/auth/refresh',
            json => { refreshToken => $token } };
    },
    sub { $after{"$_[1]{status} $_[1]{code}"}++ });
is_deeply [ keys %after ], ['401 AUTH_SESSION_NOT_ACTIVE'],
    'no token that was handed out works' or diag explain \%after;

$t->done;

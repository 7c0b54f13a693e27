# Refreshes that race select-branch, logout and each other: a current token is
# never called stale, and a logout always wins.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;

my $t = Platform::Test->new;
my $identity = $t->identity_face;
my $pg = $t->postgres;
my $port = $t->port('identity');

sub login {
    my ($account) = @_;

    return http_post($port, '/api/auth/login', json => {
        account => "$account\@demo.test", credential => 'Demo-passw0rd!',
    })->json;
}

sub bytes {
    my ($path, $json, %o) = @_;

    return [ $port, http_request_bytes(POST => "/api/auth/$path",
        json => $json, %o) ];
}

sub session_of {
    my ($answer) = @_;

    return (jwt_decode($answer->{refreshToken}))[1]{session_id};
}

# Against select-branch: one refresh and many selections at once.

my $several = login('several');
my @branches = map { $_->{branchId} } @{ $several->{branches} };
my $token = $several->{refreshToken};
my (%refreshed, %selected);
for my $round (1 .. 40) {
    my @all = http_parallel([
        (map {
            bytes('select-branch', { branchId => $branches[ $_ % 3 ] },
                token => $several->{accountAccessToken})
        } 1 .. 4),
        bytes(refresh => { refreshToken => $token }),
        (map {
            bytes('select-branch', { branchId => $branches[ $_ % 3 ] },
                token => $several->{accountAccessToken})
        } 1 .. 4),
    ]);
    my $refresh = splice @all, 4, 1;
    $refreshed{ $refresh ? $refresh->status : 'none' }++;
    $selected{ $_ ? $_->status : 'none' }++ for @all;
    $token = $refresh->json->{refreshToken}
        if $refresh && $refresh->status == 200;
}
is $refreshed{401} // 0, 0, 'a current jti is never refused';
cmp_ok $refreshed{200}, '>=', 30, 'most refreshes succeed at once';
is $refreshed{200} + ($refreshed{503} // 0), 40,
    'and the others are told to try again';
is_deeply \%selected, { 200 => 320 }, 'every selection succeeds';
is http_post($port, '/api/auth/refresh',
    json => { refreshToken => $token })->status, 200, 'the session goes on';

# Against logout: whoever comes first, the session ends revoked.

my %ends;
for my $round (1 .. 30) {
    my $one = login('one');
    my ($refresh, $logout) = http_parallel([
        bytes(refresh => { refreshToken => $one->{refreshToken} }),
        bytes(logout => { refreshToken => $one->{refreshToken} }),
    ]);
    is $logout->status, 200, 'logout succeeds' if $logout->status != 200;
    $ends{ $refresh->status . ' ' . $refresh->code }++;
    $ends{ $pg->sql("select status from auth_sessions
        where session_id = '" . session_of($one) . "'") }++;
    next if $refresh->status != 200;
    $ends{after}++ if http_post($port, '/api/auth/refresh', json => {
            refreshToken => $refresh->json->{refreshToken} })->status == 200;
}
is $ends{REVOKED}, 30, 'every session ends revoked';
is $ends{after} // 0, 0, 'and no token refreshes after that';
is_deeply [ grep { !/^(?:200\ AUTH_REFRESH_SUCCESS
        |401\ AUTH_SESSION_NOT_ACTIVE|REVOKED)$/x } keys %ends ], [],
    'a refresh that lost to a logout says so';

# Against itself, in scope and without, with a policy that remembers.

$identity->stop;
$identity->{env}{PLATFORM_AUTH_REFRESH_REUSE} = 'revoke';
$identity->start;
for my $account (qw(one several)) {
    my $answer = login($account);
    my @all = http_parallel([ map {
        bytes(refresh => { refreshToken => $answer->{refreshToken} })
    } 1 .. 50 ]);
    my @won = grep { $_ && $_->status == 200 } @all;
    is scalar @won, 1, "$account: exactly one succeeds";
    is scalar(grep { $_ && $_->code eq 'AUTH_REFRESH_TOKEN_STALE' } @all), 49,
        "$account: the rest are stale";
    is http_post($port, '/api/auth/refresh', json => {
        refreshToken => $won[0]->json->{refreshToken} })->status, 200,
        "$account: and young ones do not revoke";
}

is $pg->sql("select count(*) from auth_sessions where
    num_nulls(workspace_id, member_id, active_branch_id) not in (0, 3)
    or (status = 'REVOKED') <> (revoked_at is not null)"), 0,
    'every row is legal';

$t->done;

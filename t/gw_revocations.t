# A session that its issuer says has ended: its tokens are refused from then on,
# by every worker, cached or not, wherever the guard is asked; no other is.

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

sub revoke {
    push @all, @_;
    $feed->set(all => \@all);
    return;
}

sub token {
    my ($session, %o) = @_;

    return jwt_token($o{kind} // 'branch', $key, session_id => $session,
        %{ $o{claims} // {} });
}

sub status {
    my ($token, $path) = @_;

    return http_get($port, $path // '/branch', token => $token)->status;
}

# Every one of the answers that both workers give.
sub everywhere {
    my ($token, $path) = @_;

    my %seen = map { status($token, $path) => 1 } 1 .. 16;
    return join ' ', sort keys %seen;
}

my $nginx = revocations_gateway($t, $key, server => <<'SERVER');
location /who {
    platform_gateway_access branch;
    add_header X-Who $platform_session_id;
    return 200;
    platform_gateway_allow_return on;
}
SERVER

# One session of two.

my ($ended, $goes_on) = map { uuid($_) } 1, 2;
my ($token, $other) = map { token($_) } $ended, $goes_on;
is everywhere($token), '200', 'control: a session is let in';
is everywhere($other), '200', 'control: so is another';
revoke(revoked_id($ended));
ok eventually(sub { everywhere($token) eq '401' }), 'it ended: refused';
is_problem(http_get($port, '/branch', token => $token), 401,
    'GATEWAY_TOKEN_INVALID', 'which');
like http_get($port, '/branch', token => $token)->header('WWW-Authenticate'),
    qr/error="invalid_token"/, 'challenged';
is $t->logged(http_get($port, '/branch', token => $token))->{reason},
    'session_revoked', 'logged';
is everywhere($other), '200', 'the other goes on';
is everywhere(token($ended)), '401', 'new tokens of the session: refused';
is status(token($ended, kind => 'account'), '/account'), 401,
    'of another kind, too';

$t->done;

# Passkeys in a real browser with a virtual authenticator, through the gateway: by the
# standard's JSON and by npm's @simplewebauthn/browser, bound to a key of the page, and what
# is refused.

use Platform::Test;
use Platform::Test::Client;

Platform::Test::Env::node();
my $chromium = Platform::Test::Env::chromium();

my $t = Platform::Test->new;
my ($page, $other) = map { 'http://localhost:' . $t->port($_) } qw(page other);
my $stack = $t->full_stack(env => {
    PLATFORM_PUBLIC_ORIGINS => 'http://localhost:' . $t->port('gateway'),
    PLATFORM_AUTH_FACTOR_KEYS => 'one=' . 'QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY=',
    PLATFORM_WEBAUTHN_RP_ID => 'localhost',
    PLATFORM_WEBAUTHN_ORIGINS => $page,
    PLATFORM_CORS_ALLOWED_ORIGINS => "$page $other" });
my @walk = ($t->root . '/t/node/passkeys.js', $chromium, 'http://localhost:' . $stack->gateway,
    $page, $other);

cmp_ok $t->browser(@walk, 'free'), '>', 60, 'it checked what it saw';
my @reasons = map { $_->{reason} } grep { $_->{event} eq 'auth.passkey.refused' }
    $stack->identity->log_lines;
is_deeply \@reasons, [ 'credential_id', 'credential_id',
    map({ ($_) x 3 } qw(user_verified origin signature counter)), qw(challenge user credential_id) ],
    'the log has why assertions were refused';
is $t->postgres->sql("select string_agg(concat_ws(' ', event, by_account = account_id,
    request_id is not null), ', ') from audit_events where event = 'account.passkey_count_fell'"),
    join(', ', ('account.passkey_count_fell t t') x 3), 'the audit has the counter that fell';

$t->allow(qr/connect\(\) to unix:.* platform gateway revocations,/);
restart($stack->identity, AUTH_REQUIRE_FACTOR => 'all');
cmp_ok $t->browser(@walk, 'required'), '>', 10, 'it checked what it saw';

$t->done;

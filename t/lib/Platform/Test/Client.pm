package Platform::Test::Client;

# What a client of /api/auth does, and the row of its session.

use v5.36;

use Digest::SHA qw(hmac_sha1);
use Platform::Test;
use Test::More ();

use Exporter qw(import);
our @EXPORT = qw(client_of call login logged_in refresh next_of select_branch logout claims
    session_of row alter recent restart cookies branch sent spread codes totp);

our $CREDENTIAL = 'Demo-passw0rd!';
our $COOKIE = 'platform_refresh_token';
my ($t, $port);

# Whom to ask: the identity face, or what is at another port.
sub client_of ($test, $at = $test->port('identity')) { ($t, $port) = ($test, $at); return $at }

# call(PATH, DATA, ...): a JSON body, none where DATA is undef.
sub call ($path, $json = undef, %o) {
    return http_post($port, "/api/auth/$path", (defined $json ? (json => $json) : ()), %o);
}

# The same on a connection of its own, which is given back: read_response is to come.
sub sent ($path, $json, %o) {
    my $client = Platform::Test::Http->new(port => $port);
    $client->send(http_request_bytes(POST => "/api/auth/$path", json => $json, %o));
    return $client;
}

# The same of several bodies at once, in turn to these processes, for codes().
sub spread ($processes, $path, @json) {
    my $n = 0;
    return map { my $fcgi = $t->fcgi($processes->[ $n++ % @$processes ]->address);
        $fcgi->send(Platform::Test::Fcgi::request_bytes(POST => "/api/auth/$path",
            body => JSON::PP::encode_json($_)));
        $fcgi } @json;
}

# How many of the answers have which code.
sub codes (@sent) {
    my %n;
    $n{ JSON::PP::decode_json($_->read_answer->{body})->{code} }++ for @sent;
    return \%n;
}

# The answer to a login; account 'one' is one@demo.test.
sub login ($account, %o) {
    my $credential = delete $o{credential} // $CREDENTIAL;
    $account .= '@demo.test' if $account !~ /\@/;
    return call(login => { account => $account, credential => $credential }, %o);
}

# The answer to a login that succeeds, at once or soon: hashes wait for a processor, and
# a login may get 503 meanwhile.
sub logged_in (@who) {
    my $res;
    eventually(sub { ($res = login(@who))->status != 503 });
    return $res->status == 200 ? $res->json : die "login $who[0]: " . $res->body . "\n";
}

sub _refresh_token ($token) { return ref $token ? $token->{refreshToken} : $token }

# Takes a token, or the answer that has it; more => further members.
sub refresh ($token, %o) {
    return call(refresh => { refreshToken => _refresh_token($token),
        %{ delete $o{more} // {} } }, %o);
}

# One test: a refresh succeeded; its refresh token.
sub next_of ($res) {
    Test::More::is($res->status, 200, 'a refresh') or Test::More::diag($res->body);
    return $res->json->{refreshToken};
}

# With an account token, or the answer that has it.
sub select_branch ($token, $branch, %o) {
    return call('select-branch', { branchId => $branch },
        token => ref $token ? $token->{accountAccessToken} : $token, %o);
}

# Names the session by its refresh token, where one is given.
sub logout ($token = undef, %o) {
    return call(logout => defined $token
        ? { refreshToken => _refresh_token($token) } : undef, %o);
}

sub claims ($token) { return (jwt_decode(_refresh_token($token)))[1] }

sub session_of ($token) { return claims($token)->{session_id} }

# Columns of a session's row.
sub row ($token, @columns) {
    return $t->postgres->sql('select ' . join(', ', @columns)
        . " from auth_sessions where session_id = '" . session_of($token) . "'");
}

# Changes the row without running triggers.
sub alter ($token, $set) {
    $t->postgres->sql("set session_replication_role = replica; update auth_sessions
        set $set where session_id = '" . session_of($token) . "'",
        user => 'postgres');
}

# Dates the last rotation now, however long the test has taken since.
sub recent ($token) { return alter($token, 'used_at = clock_timestamp()') }

# Starts the process again, with PLATFORM_NAME => value.
sub restart ($identity, %env) {
    $identity->stop;
    my $all = $identity->{env};
    $all->{"PLATFORM_$_"} = $env{$_} for keys %env;
    delete $all->{$_} for grep { !defined $all->{$_} } keys %$all;
    $identity->start;
}

sub cookies ($res) { return scalar($res->header_all('Set-Cookie')) }

# An authenticator (RFC 6238), apart from the service's library: the code of a step.
sub totp ($base32, $step = int(time / 30)) {
    my %value;
    @value{ 'A' .. 'Z', 2 .. 7 } = 0 .. 31;
    my $bits = join '', map { sprintf '%05b', $value{$_} } split //, $base32;
    my $mac = hmac_sha1(pack('Q>', $step), pack('B*', substr $bits, 0, 8 * int(length($bits) / 8)));
    my $at = 15 & ord substr $mac, -1;
    return sprintf '%06d', (unpack('N', substr $mac, $at, 4) & 0x7fffffff) % 1_000_000;
}

# A branch of the seed.
sub branch ($n) { return sprintf '00000000-0000-4000-8000-0005%08d', $n }

1;

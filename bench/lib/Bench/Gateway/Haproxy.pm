package Bench::Gateway::Haproxy;

# HAProxy doing what it can of the same: jwt_verify, issuer and expiry, claims
# as headers, ids, a JSON log.  It has no verified-token cache.

use strict;
use warnings;

use Bench::Gateway::Round;
use Bench::Gateway::Variants;
use Platform::Test;

my @CLAIMS = (
    [ account_id   => 'X-Account-Id' ],   [ account_type => 'X-Account-Type' ],
    [ session_id   => 'X-Session-Id' ],   [ token_type   => 'X-Token-Type' ],
    [ token_scope  => 'X-Token-Scope' ],  [ workspace_id => 'X-Workspace-Id' ],
    [ tenant_id    => 'X-Tenant-Id' ],    [ member_id    => 'X-Member-Id' ],
    [ active_branch_id => 'X-Active-Branch-Id' ],
    [ branch_ids   => 'X-Branch-Ids' ],   [ roles        => 'X-Roles' ],
);

# Why it cannot run here, or nothing.
sub missing {
    return Platform::Test::Env::find('haproxy') ? ''
        : 'haproxy is not installed (Debian package haproxy)';
}

sub new {
    my ($class, $t, $tokens, $variants) = @_;

    my $self = bless { t => $t, v => $variants }, $class;
    $t->write_file('haproxy.pem', $tokens->key->public_pem);
    my $conf = $t->write_file('haproxy.cfg', $t->expand(_conf()));
    my $p = $t->track(Platform::Test::Process->start(
        name => 'haproxy', dir => $t->dir, log => $t->dir . '/haproxy.out',
        ok_status => ['any'],
        cmd => [ 'taskset', '-c', $Bench::Gateway::Round::GATEWAY_CORE,
            Platform::Test::Env::find('haproxy'), '-db', '-f', $conf ],
    ));
    $self->{pid} = $p->pid;
    for my $kind (qw(good none forged expired)) {
        eventually(sub { eval { $self->case('', '', $kind)->{status}
            == http($t->port('haproxy'), 'GET', '/api/x',
                headers => $variants->request($kind)->{headers})->status } })
            or die "HAProxy does not answer $kind as it should\n";
    }
    return $self;
}

sub _conf {
    my $set = join '', map {
        "    http-request set-header $_->[1] "
            . "%[var(txn.token),jwt_payload_query('\$.$_->[0]')]\n"
    } @CLAIMS;
    my %log = (
        time => '%tr', requestId => '%ID', correlationId => '%ID',
        clientIp => '%ci', method => '%HM', path => '%HPO', bytes => '%B',
        routeId => 'business', serviceName => 'business-service',
        access => 'branch', decision => '-', reason => '-',
        accountId => '%[var(txn.account)]', sessionId => '%[var(txn.session)]',
        workspaceId => '%[var(txn.workspace)]', upstreamAddr => '%si:%sp',
        upstreamDurationMs => '%Tr', durationMs => '%Ta',
        userAgent => '%[capture.req.hdr(0)]',
    );
    my $log = join ',', '"status":%ST', map {qq("$_":"$log{$_}")}
        sort keys %log;
    $log =~ s/"/\\"/g;
    return <<"CONF";
global
    log stdout len 4096 format raw daemon
    nbthread 1
    maxconn 4096

defaults
    mode http
    log global
    timeout client 60s
    timeout server 60s
    timeout connect 5s
    timeout http-keep-alive 60s
    option http-keep-alive
    option dontlognull
    http-reuse always

frontend gateway
    bind 127.0.0.1:%%PORT_haproxy%%
    capture request header User-Agent len 64
    unique-id-format %[uuid]
    unique-id-header X-Request-Id
    log-format "{$log}"
    http-request set-var(txn.token) http_auth_bearer
    http-request set-var(txn.alg) var(txn.token),jwt_header_query('\$.alg')
    http-request set-var(txn.exp) var(txn.token),jwt_payload_query('\$.exp','int')
    http-request set-var(txn.left) date,neg,add(txn.exp)
    acl right_algorithm var(txn.alg) -m str RS256
    acl right_issuer var(txn.token),jwt_payload_query('\$.iss') -m str $Platform::Test::Jwt::ISSUER
    acl not_expired var(txn.left) -m int gt 0
    acl verified var(txn.token),jwt_verify(txn.alg,"%%DIR%%/haproxy.pem") 1
    http-request set-header X-Correlation-Id %[unique-id]
    http-request return status 401 content-type application/problem+json lf-string "{\\"type\\":\\"about:blank\\",\\"title\\":\\"Unauthorized\\",\\"status\\":401,\\"requestId\\":\\"%[unique-id]\\"}" hdr WWW-Authenticate Bearer unless right_algorithm right_issuer not_expired verified
$set    http-request set-var(txn.account) req.hdr(X-Account-Id)
    http-request set-var(txn.session) req.hdr(X-Session-Id)
    http-request set-var(txn.workspace) req.hdr(X-Workspace-Id)
    http-request del-header Authorization
    http-response set-header X-Request-Id %[unique-id]
    http-response set-header X-Correlation-Id %[unique-id]
    default_backend upstream

backend upstream
    server up 127.0.0.1:%%PORT_up%%
CONF
}

# A case as Bench::Gateway::Variants has them.
sub case {
    my ($self, $name, undef, $kind, %o) = @_;

    return {
        %{ $self->{v}->case($name, 'gateway', $kind, %o) },
        url => 'http://127.0.0.1:' . $self->{t}->port('haproxy') . '/api/x',
        pid => $self->{pid},
        log => $self->{t}->dir . '/haproxy.out',
        grows => 1,
    };
}

1;
